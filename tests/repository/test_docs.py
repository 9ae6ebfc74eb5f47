"""Documents that cannot rot: every command, option, key, file and stack that they name exists, and the reverse."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import yaml

from infra.catalog import catalog
from infra.google.logs import LogSource
from infra.ops.command_line.all_commands import whole_command
from infra.ops.commands.explain import describe_setting
from infra.ops.commands.explain_terms import word_rows
from infra.ops.commands.glossary import GLOSSARY, SYNONYMS
from infra.planning.planner import make_plan
from infra.planning.report.first_screen import first_screen
from infra.planning.report.rows import plan_rows
from infra.planning.settings.paths import known_paths
from infra.planning.settings.stackfile import read_stack, split_config, stack_names
from tests.golden import CONFIGURATION, GLOSSARY_PAGE, GOLDEN, glossary, output
from tests.projects import ROOT, Capture, command

DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(path for room in ("docs", "infra", "containers") for path in ROOT.glob(f"{room}/**/*.md"))]
)
README, COMMANDS_PAGE = ROOT / "README.md", ROOT / "docs" / "commands.md"
SCHEMA = ROOT / "docs" / "plan-schema.md"
PATHS = {path for path, _ in known_paths()}
GROUPS = {path.split(".")[0] for path in PATHS}
MADE_UP = {"mine", "STACK", "KEY"}
"""Names that a reader fills in."""


def name_of(document: Path) -> str:
    """Path within the repository."""
    return str(document.relative_to(ROOT))


documents = pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)


def spans(text: str) -> Iterator[str]:
    """Code in a document: inline spans, and the lines of shell blocks."""
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from (line.partition(" #")[0].strip() for line in block.splitlines() if line.strip())
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def commands() -> dict[tuple[str, ...], click.Command]:
    """Every command of `gemma4` by its words."""

    def walk(found: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        inner = getattr(found, "commands", None)
        if inner is None:
            yield words, found
        else:
            for name, one in inner.items():
                yield from walk(one, (*words, name))

    return dict(walk(whole_command(), ()))


COMMANDS = commands()


def named(words: list[str]) -> tuple[str, ...] | None:
    """The command that words begin with; `bench` without a further word of its own means `bench run`."""
    found = next((known for known in COMMANDS if tuple(words[: len(known)]) == known), None)
    return ("bench", "run") if found is None and words[:1] == ["bench"] else found


OFFLINE = ("plan", "stacks", "recommend", "explain", "models", "machines", "--version")


def offline_commands() -> list[str]:
    """Every command line of the documents that can be run here as it stands: without network and without a word that a
    reader fills in. What changed once is no command to try."""
    lines = {
        re.split(r" \||&&|>", span)[0].strip()
        for document in DOCUMENTS
        if document.name != "CHANGELOG.md"
        for span in spans(document.read_text("utf-8"))
        if span.startswith("gemma4 ")
    }
    return sorted(
        line
        for line in lines
        if line.split()[1] in OFFLINE
        and not re.match("gemma4 plan( -|$)", line)
        and not MADE_UP & set(line.split())
        and not re.search(r"\b[A-Z_]{3,}\b", line)
    )


@cache
def rows_of_plans() -> set[str]:
    """The first words of the lines of plans, short and in full."""
    plans = [output("plan", stack, *form) for stack in ("l4", "v6e4") for form in ((), ("--full",))]
    return {line.split()[0] for plan in plans for line in plan.splitlines() if re.match("[A-Z]", line)}


class TestCommands:
    @documents
    def test_every_command_with_every_option_exists(self, document: Path) -> None:
        for span in spans(document.read_text("utf-8")):
            if not span.startswith("gemma4 ") or span.startswith(("gemma4 --", "gemma4 -h")):
                continue
            words = shlex.split(span.partition(" | ")[0].partition(" && ")[0])[1:]
            known = named(words)
            assert known or words[0] == "tpu", f"{name_of(document)}: {span}"
            options = (
                {"--help", *(name for one in COMMANDS[known].params for name in (*one.opts, *one.secondary_opts))}
                if known
                else set()
            )
            for word in [] if known == ("explain",) else words:  # which explains flags of vLLM too
                assert not word.startswith("--") or word.partition("=")[0] in options, f"{name_of(document)}: {span}"

    def test_every_command_stands_on_the_page_of_commands(self) -> None:
        shown = [
            shlex.split(span)[1:] for span in spans(COMMANDS_PAGE.read_text("utf-8")) if span.startswith("gemma4 ")
        ]
        assert {named(words) for words in shown if words} >= set(COMMANDS)

    @pytest.mark.parametrize("line", offline_commands())
    def test_every_command_that_needs_no_network_ends_well(self, line: str, capsys: Capture) -> None:
        with contextlib.chdir(ROOT):
            answer = command(capsys)(*shlex.split(line)[1:])
        assert answer.code == 0, answer.err
        assert answer.out

    @documents
    def test_every_row_of_a_plan_exists(self, document: Path) -> None:
        for row in re.findall(r"`([A-Z]\w+)` row", document.read_text("utf-8")):
            assert row in rows_of_plans(), f"{name_of(document)}: {row}"

    @documents
    def test_every_resource_that_is_named_exists(self, document: Path) -> None:
        known = {
            resource["name"]
            for plan in GOLDEN.glob("*.json")
            for resource in json.loads(plan.read_text("utf-8"))["resources"] or ()
        }
        for names in re.findall(r"\brows? ((?:`[a-z0-9-]+`(?:, | and )?)+)", document.read_text("utf-8")):
            assert set(re.findall("`([^`]+)`", names)) <= known, f"{name_of(document)}: {names}"

    @documents
    def test_every_make_target_exists(self, document: Path) -> None:
        targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
        for span in spans(document.read_text("utf-8")):
            if re.match(r"make [a-z]", span):
                assert span.split()[1] in targets, f"{name_of(document)}: {span}"

    @documents
    def test_every_stack_exists(self, document: Path) -> None:
        known = {*stack_names(ROOT), *MADE_UP}
        for span in spans(document.read_text("utf-8")):
            stacks = re.findall(
                r"STACK=(\S+)|pulumi \S.* -s ([\w-]+)|gemma4 (?:plan|status|zones|tpu \w+) ([a-z]\S*)", span
            )
            for stack in (name for names in stacks for name in names if name):
                assert stack in known, f"{name_of(document)}: {span}"


class TestKeys:
    @documents
    def test_every_setting_exists(self, document: Path) -> None:
        if document == SCHEMA:
            return  # its dotted names are keys of the plan
        for span in spans(document.read_text("utf-8")):
            key = span.removeprefix("gemma4:").partition(":")[0].partition("=")[0]
            dotted = re.fullmatch(r"[a-z]\w*(\.[a-zA-Z]\w*)+", key) and not key.endswith(
                (".toml", ".json", ".yaml", ".py")
            )
            if (dotted and key.split(".")[0] in GROUPS) or (span.startswith("gemma4:") and key):
                assert key in PATHS, f"{name_of(document)}: {span}"

    @documents
    def test_every_setting_that_a_command_sets_exists(self, document: Path) -> None:
        for span in spans(document.read_text("utf-8")):
            if span.startswith(("pulumi config", "gemma4 plan")):
                for key in re.findall(r"gemma4:([\w.]+)|--set '?([\w.]+)=", span):
                    assert "".join(key) in PATHS, f"{name_of(document)}: {span}"

    @documents
    def test_every_stack_file_holds_known_settings(self, document: Path) -> None:
        for block in re.findall(r"```yaml\n(config:.*?)```", document.read_text("utf-8"), re.DOTALL):
            for key, value in split_config(yaml.safe_load(block)["config"])[0].items():
                found = [f"{key}.{inner}" for inner in value] if isinstance(value, Mapping) else [key]
                assert set(found) <= PATHS, f"{name_of(document)}: {found}"

    def test_the_reference_has_every_setting_once_and_no_other(self) -> None:
        leaves = [
            row["key"]
            for row in (describe_setting(path, field) for path, field in known_paths())
            if row["type"] != "group"
        ]
        listed = re.findall(r"^\| `([^`]+)` \|", CONFIGURATION.read_text("utf-8"), re.MULTILINE)
        assert sorted(listed) == sorted(leaves)


class TestFiles:
    @documents
    def test_every_file_exists(self, document: Path) -> None:
        tracked = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
        folders = {str(parent) for name in tracked for parent in Path(name).parents}
        for span in spans(document.read_text("utf-8")):
            for word in span.split():
                if re.fullmatch(r"[\w.-]+(/[\w.*-]+)+/?", word) and word.split("/")[0] in folders | {"."}:
                    assert list(ROOT.glob(word.rstrip("/"))), f"{name_of(document)}: {span}"

    @documents
    def test_every_link_to_a_file_leads_somewhere(self, document: Path) -> None:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text("utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{name_of(document)}: {target}"

    def test_every_page_is_reached_from_the_readme(self) -> None:
        seen, ahead = {README}, [README]
        while ahead:
            page = ahead.pop()
            for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
                path = (page.parent / target).resolve()
                found = sorted(path.glob("*.md")) if path.is_dir() else [path]
                ahead += [one for one in found if one in DOCUMENTS and one not in seen]
                seen.update(ahead)
        assert [name_of(page) for page in DOCUMENTS if page not in seen] == []

    def test_every_link_to_a_heading_leads_somewhere(self) -> None:
        for document in DOCUMENTS:
            for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text("utf-8")):
                text = ((document.parent / target) if target else document).read_text("utf-8")
                headings = [
                    re.sub(r"[^\w -]", "", line.lower()) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
                ]
                assert heading in [line.replace(" ", "-") for line in headings], f"{name_of(document)}: #{heading}"

    def test_decisions_are_numbered_without_a_gap(self) -> None:
        names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
        assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
        for name in names:
            text = (ROOT / "docs" / "decisions" / name).read_text("utf-8")
            assert text.startswith(f"# {int(name[:4])}. ")
            assert re.findall(r"^## (\w+)", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]

    def test_no_file_names_the_host_of_a_package_registry(self) -> None:
        hosts = ["py" + "pi.org", "python" + "hosted", "registry.npm" + "js", "crates" + ".io"]
        for host in hosts:
            found = subprocess.run(
                ["git", "grep", "-l", "-I", host], cwd=ROOT, capture_output=True, text=True, check=False
            )
            assert found.stdout == ""


LOGS = [
    LogSource.service("gemma4-l4", "us-east4"),
    LogSource.job("gemma4-l4-stage", "us-east4"),
    LogSource.machine("gemma4-v6e4-blue-a", "us-east5-a"),
    LogSource.service("gemma4-v6e4", "us-east5"),
]


class TestWhatIsAskedOfGoogle:
    @documents
    def test_a_log_is_asked_for_as_the_program_asks(self, document: Path) -> None:
        for span in spans(document.read_text("utf-8")):
            if span.startswith("gcloud logging read"):
                assert shlex.split(span)[3] in {log.query() for log in LOGS}, f"{name_of(document)}: {span}"

    def test_names_are_those_of_the_shipped_stacks(self) -> None:
        names = {name: make_plan(name, read_stack(ROOT, name).settings).names for name in ("l4", "v6e4")}
        asked = {value for log in LOGS for key, value in log.resource_labels.items() if key.endswith(("_name", "_id"))}
        assert asked == {names["l4"].prefix, names["l4"].stager, names["v6e4"].prefix, names["v6e4"].member("blue-a")}

    @documents
    def test_every_command_names_the_project(self, document: Path) -> None:
        """gcloud's own default project may be another one."""
        if document.parent == ROOT / "docs" / "decisions" or document.name == "CHANGELOG.md":
            return
        for span in spans(document.read_text("utf-8")):
            if re.match(r"gcloud (run|logging|secrets|compute|alpha compute|services) \S+ \S", span):
                assert "--project " in span, f"{name_of(document)}: {span}"


OTHERS_WORDS = {
    "already exists",
    "error 803",
    "driver version is insufficient",
    "Memory limit of … exceeded",
    "RECREATING",
    "Retry-After: 1",
    "Retry-After: 10",
    "Retry-After: 5",
    "ZONE_RESOURCE_POOL_EXHAUSTED",
    "must be from one of the allowed domains",
    "PROVISIONING",
    "QUOTA_EXCEEDED",
    "Quota violated … requested: … allowed: …",
    "toomanyrequests",
    "unsupported display driver",
}
"""What Google, Docker Hub, CUDA or vLLM print, as far as it was seen."""


@cache
def literals() -> str:
    """Every text that the programs, the machines' scripts and the catalog of failures hold, an f-string's parts one by one."""
    sources = [path for room in ("infra", "containers") for path in ROOT.glob(f"{room}/**/*.py")]
    trees = (ast.parse(path.read_text("utf-8")) for path in sources)
    texts = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    known = [
        text for failure in catalog().failures.values() for text in (failure.cause, failure.fix, *failure.patterns)
    ]
    scripts = [path.read_text("utf-8") for path in ROOT.glob("containers/**/*.sh")]
    return "\n".join([*known, *scripts, *(text for text in texts if isinstance(text, str))])


class TestSymptoms:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")

    @staticmethod
    def quoted(page: str) -> list[str]:
        """What the first columns of the page quote."""
        cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
        return [text for cell in cells for text in re.findall("`([^`]+)`", cell)]

    def test_every_message_that_is_quoted_is_one_that_is_printed(self) -> None:
        said = [text for text in self.quoted(self.page) if text not in OTHERS_WORDS]
        missing = [
            text for text in said for part in re.split("…", text) if part.strip() and part.strip() not in literals()
        ]
        assert missing == []

    def test_others_words_are_quoted_and_are_none_of_the_program_s_own(self) -> None:
        assert set(self.quoted(self.page)) >= OTHERS_WORDS


class TestThePicture:
    picture = ElementTree.parse(ROOT / "docs" / "architecture.svg").getroot()

    def test_holds_its_words_as_text_and_says_what_it_shows(self) -> None:
        tags = [element.tag.rpartition("}")[2] for element in self.picture.iter()]
        assert tags.count("text") > 10
        assert not {"image", "foreignObject", "script"} & set(tags)
        assert {"title", "desc"} <= set(tags)
        assert re.search(r"!\[[^\]]{80,}\]\(docs/architecture\.svg\)", README.read_text("utf-8"))

    def test_has_every_colour_for_light_and_for_dark(self) -> None:
        style = next(element.text or "" for element in self.picture.iter() if element.tag.endswith("style"))
        light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
        used = {name for element in self.picture.iter() for name in element.get("class", "").split()}
        for half in (light, dark):
            assert set(re.findall(r"\.(\w+) {[^}]*(?:fill|stroke): #", half)) == used


class TestTheGlossary:
    def test_its_page_is_what_explain_says_now(self) -> None:
        assert GLOSSARY_PAGE.read_text("utf-8") == glossary(), "run: make golden"

    @pytest.mark.parametrize("word", [*GLOSSARY, *SYNONYMS])
    def test_every_word_and_every_other_name_of_one_is_explained(self, word: str, capsys: Capture) -> None:
        row, *members = command(capsys)("explain", word, "--json").data["terms"]
        assert all(member["key"].startswith(f"{word}.") for member in members)  # of a word that is a group of settings
        assert row["meaning"] in {*GLOSSARY.values()} or word in PATHS

    @pytest.mark.parametrize("stack", stack_names(ROOT))
    def test_every_word_that_heads_a_row_of_a_plan_is_explained(self, stack: str) -> None:
        plan = make_plan(stack, read_stack(ROOT, stack).settings)
        screen = [line.plain for line in first_screen(plan, 80)]
        heads = {line.split()[0] for line in screen[2:] if line[:1].isalpha()} - {"More", "Next:", "To", "Planned"}
        assert {"Fits", "Price", "Speed", "Capacity", "Start"} <= heads
        words = [*heads - {"Warning"}, *(name for name, _ in plan_rows(plan)), "idle", "busy", "cached", "new prompts"]
        assert [word for word in words if word.lower() not in PATHS and not word_rows(word)] == []

    def test_every_other_name_leads_to_an_entry_and_is_none_itself(self) -> None:
        assert set(SYNONYMS.values()) <= set(GLOSSARY)
        assert not {name.lower() for name in GLOSSARY} & set(SYNONYMS)
