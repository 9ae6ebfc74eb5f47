"""`gemma4 evaluate` as a command: what it says of good and of broken servers, what it stores, and what it compares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from infra.google.identity_tokens import IdentityTokens
from infra.ops.evaluations import evaluate
from infra.ops.evaluations.evaluate import evaluation_answer
from infra.ops.evaluations.evaluation_scope import architecture_of
from infra.ops.evaluations.stored_evaluation import StoredEvaluation
from infra.ops.mcp_server.serve_tools import make_server
from infra.ops.plan_inputs import plan_stack
from infra.serving.evaluation.check_answers import switched_off
from infra.serving.evaluation.evaluation_record import AskedItem
from infra.serving.evaluation.evaluator import Evaluator
from infra.serving.evaluation.task_set import KINDS
from infra.serving.planned_expectation import planned_expectation
from tests.fakes.oracle import Oracle
from tests.fakes.vllm import FakeVllm
from tests.projects import ROOT, Capture, Command, command

QUICK = ("--tasks", "copying,translation,instructions")


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm(max_model_len=4096) as fake:
        fake.says = Oracle()
        yield fake


@pytest.fixture
def gemma4(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line in an empty folder, where the runs are stored."""
    monkeypatch.chdir(tmp_path)
    return command(capsys)


def stored(folder: Path = Path("evaluations")) -> list[StoredEvaluation]:
    return [StoredEvaluation.model_validate_json(file.read_text()) for file in sorted(folder.glob("*.json"))]


class TestAGoodServer:
    def test_is_sound_and_the_command_ends_well(self, gemma4: Command, server: FakeVllm) -> None:
        answer = gemma4("evaluate", "--url", server.url, "--json")
        assert answer.code == 0
        assert (answer.data["verdict"], answer.data["passed"], answer.data["wrong"]) == ("sound", 60, [])
        assert [row["kind"] for row in answer.data["kinds"]] == list(KINDS)
        assert answer.data["comparison"] is None
        assert "no real Gemma 4 has been asked" in answer.data["floor"]

    def test_is_stored_question_by_question(self, gemma4: Command, server: FakeVllm) -> None:
        answer = gemma4("evaluate", "--url", server.url)
        assert answer.code == 0
        assert "sound, 60 of 60 right" in answer.out
        (run,) = stored()
        assert run.complete
        assert (run.versions.vllm, run.max_model_len, run.target.model) == ("0.32.0", 4096, "gemma")
        assert len(run.items) == 60
        assert all(item.outcome == "passed" and item.digest and item.answer for item in run.items)

    def test_is_stored_where_somebody_says(self, gemma4: Command, server: FakeVllm) -> None:
        assert gemma4("evaluate", "--url", server.url, *QUICK, "--output", "mine/run.json").code == 0
        assert len(stored(Path("mine"))) == 1
        assert not Path("evaluations").exists()

    def test_fits_a_model_s_context(self, gemma4: Command, server: FakeVllm) -> None:
        server.says = Oracle(wrong=KINDS, mistake={"content": "wrong " * 200})
        answer = gemma4("evaluate", "--url", server.url, "--json")
        again = gemma4("evaluate", "--url", server.url, "--against", answer.data["file"], "--json")
        assert len(json.dumps(again.data)) < 4096 + 700  # twelve wrong answers, quoted


def test_a_server_that_is_still_starting_is_waited_for(
    gemma4: Command, server: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.serving.waking.POLL_S", 0.0)
    server.mode, server.refusals_left = "loading", 2
    answer = gemma4("evaluate", "--url", server.url, "--tasks", "arithmetic", "--json")
    assert (answer.code, answer.data["verdict"]) == (0, "sound"), answer.err


class TestABrokenServer:
    def test_is_named_with_what_is_broken(self, gemma4: Command, server: FakeVllm) -> None:
        server.says = Oracle(wrong={"tools", "context"})
        answer = gemma4("evaluate", "--url", server.url)
        assert answer.code == 1
        assert "broken, 40 of 60 right" in answer.out
        assert "below the floor: tools (0 of 8), context (0 of 12)" in answer.out
        assert "wrong: tools-weather: I am not sure about that one." in answer.out

    def test_is_called_so_though_it_is_no_worse_than_before(self, gemma4: Command, server: FakeVllm) -> None:
        server.says = Oracle(wrong={"copying"})
        assert gemma4("evaluate", "--url", server.url, *QUICK).code == 1
        again = gemma4("evaluate", "--url", server.url, *QUICK, "--against", "last", "--json")
        assert (again.data["comparison"]["verdict"], again.data["verdict"], again.code) == (
            "no difference",
            "broken",
            1,
        )

    def test_that_does_not_answer_at_all_is_a_failure(self, gemma4: Command) -> None:
        answer = gemma4("evaluate", "--url", "http://127.0.0.1:9")
        assert answer.code == 1
        assert "nothing listens there" in answer.err
        assert not Path("evaluations").exists()


class TestAComparison:
    def test_says_that_a_server_is_worse_and_where(self, gemma4: Command, server: FakeVllm) -> None:
        assert gemma4("evaluate", "--url", server.url).code == 0
        server.version = "0.33.0"
        server.says = Oracle(wrong={"copying"}, knows=lambda name: not name.endswith("-roman"))
        answer = gemma4("evaluate", "--url", server.url, "--against", "last", "--json")
        change = answer.data["comparison"]
        assert answer.code == 1
        assert (change["verdict"], change["common"], change["lostCount"], change["wonCount"]) == ("worse", 60, 7, 0)
        assert "translation-roman" in change["lost"]
        assert change["pValue"] == pytest.approx(2 / 2**7, abs=1e-4)
        assert change["differences"] == ["vLLM: 0.32.0 → 0.33.0"]

    def test_of_one_lost_question_is_chance(self, gemma4: Command, server: FakeVllm) -> None:
        assert gemma4("evaluate", "--url", server.url).code == 0
        server.says = Oracle(knows=lambda name: not name.endswith("-roman"))
        answer = gemma4("evaluate", "--url", server.url, "--against", "last")
        assert answer.code == 0
        assert "no difference" in answer.out
        assert "lost: translation-roman" in answer.out

    def test_of_two_files_asks_nobody(self, gemma4: Command, server: FakeVllm) -> None:
        gemma4("evaluate", "--url", server.url, *QUICK, "--output", "old.json")
        server.says = Oracle(wrong={"translation"})
        gemma4("evaluate", "--url", server.url, *QUICK, "--output", "new.json")
        asked = len(server.requests)
        answer = gemma4("evaluate", "--stored", "new.json", "--against", "old.json")
        assert (answer.code, len(server.requests)) == (1, asked)
        assert "against old.json: worse" in answer.out
        assert gemma4("evaluate", "--stored", "old.json").code == 0

    def test_counts_only_what_both_were_asked(self, gemma4: Command, server: FakeVllm) -> None:
        gemma4("evaluate", "--url", server.url, "--output", "old.json")
        answer = gemma4("evaluate", "--url", server.url, "--longest-context", "2048", "--against", "old.json", "--json")
        assert answer.data["asked"] == 56
        assert answer.data["comparison"]["common"] == 56

    def test_takes_for_last_neither_another_server_nor_an_interrupted_run(
        self, gemma4: Command, server: FakeVllm
    ) -> None:
        gemma4("evaluate", "--url", server.url, *QUICK, "--output", "whole.json")
        (run,) = [StoredEvaluation.model_validate_json(Path("whole.json").read_text())]
        folder = Path("evaluations")
        folder.mkdir()
        text = run.model_copy(update={"complete": False}).model_dump_json(by_alias=True)
        (folder / f"{run.id}.json").write_text(text)
        with FakeVllm() as other:
            other.says = Oracle()
            gemma4("evaluate", "--url", other.url, *QUICK)
        answer = gemma4("evaluate", "--url", server.url, *QUICK, "--against", "last")
        assert answer.code == 2
        assert "holds no whole run of 127.0.0.1-" in answer.err


class TestInterruptions:
    def test_keep_what_was_asked(self, gemma4: Command, server: FakeVllm, monkeypatch: pytest.MonkeyPatch) -> None:
        class Interrupted(Evaluator):
            def __init__(self, *given: Any, progress: Any, **more: Any) -> None:
                def stop(done: int, total: int, item: AskedItem) -> None:
                    progress(done, total, item)
                    if done == 7:
                        raise KeyboardInterrupt

                super().__init__(*given, progress=stop, **more)

        monkeypatch.setattr(evaluate, "Evaluator", Interrupted)
        answer = gemma4("evaluate", "--url", server.url)
        assert answer.code == 130
        assert "7 of 7 right, interrupted" in answer.out
        (run,) = stored()
        assert not run.complete
        assert sum(item.asked for item in run.items) == 7


class TestAStack:
    @pytest.fixture
    def deployed(self, server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The stack l4 in a Pulumi state, served by the fake."""
        outputs = {"url": server.url, "model": "gemma", "invokerAccount": "a@b.c"}
        resource = {"type": "pulumi:pulumi:Stack", "urn": "u", "outputs": outputs}
        (tmp_path / "state.json").write_text(json.dumps({"deployment": {"resources": [resource]}}))
        cli = tmp_path / "pulumi"
        cli.write_text(f"#!/bin/sh\nexec cat {tmp_path}/state.json\n")
        cli.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(IdentityTokens, "token", lambda *_: "id-token")
        (tmp_path / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
        (tmp_path / "Pulumi.l4.yaml").write_text((ROOT / "Pulumi.l4.yaml").read_text())

    def test_is_asked_with_its_token_and_stored_with_its_plan(
        self, gemma4: Command, deployed: None, server: FakeVllm
    ) -> None:
        answer = gemma4("evaluate", "l4", "--json")
        assert (answer.code, answer.data["target"]) == (0, "l4")
        assert server.tokens_seen == {"id-token"}
        (run,) = stored()
        plan = plan_stack("l4").plan
        assert run.id.endswith("-l4")
        assert run.versions.plan == plan.command.spec_hash
        assert run.plan
        assert (run.plan.model, run.plan.accelerator) == (plan.model.hub_id, plan.accelerator.id)
        assert run.architecture == plan.model.architecture
        assert "id-token" not in answer.out + Path(answer.data["file"]).read_text()

    def test_is_held_to_what_it_plans(self, gemma4: Command, deployed: None, server: FakeVllm) -> None:
        server.mode = "no images"
        answer = gemma4("evaluate", "l4", "--tasks", "image", "--json")
        assert (answer.code, answer.data["verdict"]) == (1, "broken"), "images are planned"
        assert "At most 0 image(s)" in answer.data["wrong"][0]["said"]


class TestWhatIsNotAsked:
    def test_is_what_a_plan_switches_off(self) -> None:
        off = ["serving.tools=false", "serving.modalities.image=0"]
        plan = plan_stack("l4", off, root=ROOT).plan
        assert switched_off(planned_expectation(plan)) == {
            "tools": "serving.tools is false",
            "image": "serving.modalities.image is 0",
        }
        assert switched_off(planned_expectation(plan_stack("l4", root=ROOT).plan)) == {}

    def test_is_named_with_its_reason(self, gemma4: Command, server: FakeVllm) -> None:
        answer = gemma4("evaluate", "--url", server.url, "--longest-context", "0", "--tasks", "context,copying")
        assert answer.code == 0
        assert "not asked: the longest text was to have fewer than 1,024 tokens" in answer.out


class TestWhichFloor:
    @pytest.mark.parametrize(
        ("name", "architecture"),
        [
            ("google/gemma-4-E2B-it", "e2b"),
            ("gemma-4-31b-it", "31b"),
            ("some/other", ""),
            ("gemma", ""),
        ],
    )
    def test_is_found_by_the_served_name(self, name: str, architecture: str) -> None:
        assert architecture_of(name) == architecture


def test_the_function_takes_plain_parameters() -> None:
    """MCP offers them as they are."""
    import inspect

    kinds = {name: str(one.annotation) for name, one in inspect.signature(evaluation_answer).parameters.items()}
    assert set(kinds.values()) <= {"str | None", "int | None", "list[str] | None"}


class TestAnAssistant:
    def test_gets_the_same_answer_and_names_no_file_to_write(
        self, gemma4: Command, server: FakeVllm, tmp_path: Path
    ) -> None:
        async def talk() -> tuple[bool, Any, list[str]]:
            async with Client(make_server(allow_changes=False), read_timeout_seconds=60) as client:
                (tool,) = [one for one in (await client.list_tools()).tools if one.name == "evaluate"]
                result = await client.call_tool("evaluate", {"url": server.url, "tasks": ["copying,translation"]})
                text = "".join(getattr(part, "text", "") for part in result.content)
                return bool(result.is_error), json.loads(text), [*tool.input_schema["properties"]]

        failed, data, parameters = anyio.run(talk)
        assert not failed
        assert (data["verdict"], data["passed"], data["asked"]) == ("sound", 12, 12)
        assert len(json.dumps(data)) < 4096
        assert "output" not in parameters
        assert Path(data["file"]).parent == tmp_path / "evaluations"
