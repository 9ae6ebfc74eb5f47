"""What commands print with `--json` has the form of its model, and pages and schemas are made from the models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from infra.ops.answers.all_answers import ANSWERS
from infra.ops.command_line.all_commands import whole_command
from tests import json_pages
from tests.golden import output
from tests.projects import ROOT, Capture, Command, assert_has_its_form, command, write_stack


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    """The command line; it holds every answer to its model."""
    return command(capsys)


def commands_with_json(found: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    inner = getattr(found, "commands", None)
    for name, one in (inner or {}).items():
        yield from commands_with_json(one, (*words, name))
    if inner is None and any("--json" in parameter.opts for parameter in found.params):
        yield " ".join(words)


class TestEveryAnswer:
    def test_of_a_command_with_json_has_a_model(self) -> None:
        assert {*ANSWERS} == {*commands_with_json(whole_command())}

    @pytest.mark.parametrize(
        "words",
        [
            ("plan", "l4"),
            ("plan", "g4x2"),
            ("plan", "v6e4", "--diff", "l4", "--no-resources"),
            ("plan", "v6e4", "--diff", "v6e4", "--set", "tpu.slices=[blue, green]"),
            ("plan", "l4", "--set", "region=europe-north1"),
            ("plan", "l4", "--set", "profile=fast"),
            ("stacks",),
            ("models",),
            ("machines",),
            ("pin", "nothing-of-the-kind"),
            ("recommend", "--users", "8"),
            ("recommend", "--users", "1000000"),
            ("recommend", "--max-usd-per-hour", "0.1"),
            ("recommend", "--users", "-1"),
            ("explain",),
            ("explain", "serving"),
            ("explain", "gemma-4-31b-it"),
            ("explain", "v6e-4"),
            ("explain", "--max-model-len"),
            ("explain", "slice"),
            ("explain", "nothing of the kind"),
            ("status", "nothing-of-the-kind"),
            ("scorecard",),
            ("scorecard", "nothing-of-the-kind"),
            ("zones", "nothing-of-the-kind"),
        ],
        ids=" ".join,
    )
    def test_has_its_form(self, gemma4: Command, words: tuple[str, ...]) -> None:
        assert gemma4(*words, "--json").out

    def test_has_its_form_where_a_stack_file_is_broken(
        self, gemma4: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_stack(tmp_path, "", model="none", accelerator="l4")
        write_stack(tmp_path, "", name="good", model="gemma-4-12b-it-qat-w4a16", accelerator="l4")
        monkeypatch.chdir(tmp_path)
        assert len(gemma4("stacks", "--json").data["stacks"]) == 2

    def test_may_neither_lack_a_key_nor_have_one_more(self) -> None:
        words, plan = (
            ("plan", "l4", "--json", "--no-resources"),
            json.loads(output("plan", "l4", "--json", "--no-resources")),
        )
        assert_has_its_form(words, json.dumps(plan))
        more = {**plan, "cost": {**plan["cost"], "more": 1}}
        less = {key: plan[key] for key in plan if key != "cost"}
        for wrong in (more, less, {**plan, "stack": 7}):
            with pytest.raises(ValidationError):
                assert_has_its_form(words, json.dumps(wrong))


class TestPagesAndSchemas:
    def test_are_what_the_models_say(self) -> None:
        stale = [path.name for path, text in json_pages.pages().items() if path.read_text("utf-8") != text]
        assert stale == [], "make golden"

    def test_are_all_there_are(self) -> None:
        assert {*json_pages.SCHEMAS.iterdir()} == {
            path for path in json_pages.pages() if path.parent == json_pages.SCHEMAS
        }

    def test_give_a_meaning_to_every_key_once(self) -> None:
        for page in (json_pages.plan_page(), json_pages.answers_page()):
            for part in page.split("\n#"):
                rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| `")]
                assert len({row[0] for row in rows}) == len(rows)
                assert all(len(row) == 3 and row[2].rstrip(" |") for row in rows)

    def test_allow_keys_that_a_later_version_adds(self) -> None:
        for path in json_pages.SCHEMAS.glob("*.json"):
            assert '"additionalProperties": false' not in path.read_text("utf-8"), path.relative_to(ROOT)
