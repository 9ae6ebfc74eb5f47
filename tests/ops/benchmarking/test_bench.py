"""`gemma4 bench`: what it refuses, what it says before it starts, and what it leaves when it is stopped."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.benchmark import aiperf
from infra.benchmark.aiperf import Answered, Load, Recorded
from infra.benchmark.stored_run import BenchmarkRun, load
from infra.errors import Gemma4Error
from infra.ops.commands.bench import bench_answer
from infra.ops.endpoint.endpoint import Endpoint, Member
from infra.ops.plan_inputs import plan_stack
from tests.fakes.aiperf import write_aiperf
from tests.fakes.vllm import FakeVllm
from tests.projects import ROOT, Capture, Command, command

Answers = Callable[[Load], Recorded]


@pytest.fixture
def gemma4(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, with an aiperf on the PATH that would fail if it ran."""
    write_aiperf(tmp_path / "bin", "fails")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(aiperf, "ENVIRONMENT", "nowhere")
    monkeypatch.setattr("infra.ops.commands.bench.FOLDER", str(tmp_path / "stored"))
    return command(capsys)


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Load]:
    """Loads that aiperf would have sent; each is answered at a rate of 16 requests of a second."""
    loads: list[Load] = []

    def answered(_: Path, load: Load, *, token: str | None, folder: Path) -> Recorded:
        loads.append(load)
        return replies(load)

    monkeypatch.setattr(aiperf, "run", answered)
    return loads


def replies(load: Load, seconds: float = 1.0) -> Recorded:
    tokens = load.bodies[-1]["max_tokens"]
    rows = tuple(Answered(place * seconds / 16, 0.05, 0.01, seconds, 100, tokens) for place in range(load.counted))
    return Recorded(rows, {}, 0, 0, 0.1)


def stored(tmp_path: Path) -> BenchmarkRun:
    (file,) = (tmp_path / "stored").glob("*.json")
    return load(file)


class TestRefusals:
    def test_a_load_with_fewer_requests_than_streams_is_no_such_load(self, gemma4: Command, server: FakeVllm) -> None:
        answer = gemma4("bench", "--url", server.url, "--concurrency", "4,16", "--requests", "8")
        assert answer.code == 2
        assert "--requests: 8 are fewer than the 16" in answer.err

    def test_without_aiperf_it_says_what_to_type(
        self, gemma4: Command, server: FakeVllm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        answer = gemma4("bench", "--url", server.url)
        assert answer.code == 2
        assert "Type: make bench-tools" in answer.err
        assert server.sent("/v1/chat/completions") == []

    def test_a_server_that_is_not_there_fails_at_once(self, gemma4: Command) -> None:
        assert gemma4("bench", "--url", "http://127.0.0.1:9").code == 1

    def test_rows_need_a_plan(self, gemma4: Command, server: FakeVllm, sent: list[Load]) -> None:
        answer = gemma4("bench", "--url", server.url, "--output", "128", "--concurrency", "1", "--as-row")
        assert answer.code == 1
        assert "a row describes the server by its plan" in answer.err


class TestAGrid:
    def test_cells_without_room_are_skipped_and_named_and_the_others_measured(
        self, gemma4: Command, server: FakeVllm, sent: list[Load], tmp_path: Path
    ) -> None:
        server.metrics.kv_tokens = 4 * 628
        answer = gemma4(
            "bench", "--url", server.url, "--concurrency", "8,4", "--input", "500", "--output", "128", "--repeats", "3"
        )
        assert answer.code == 0
        assert "skipped: 8 × 500/128: needs KV cache for 8 × 628 = 5,024 tokens; the server has 2,512" in " ".join(
            answer.out.split()
        )
        assert [(cell.concurrency, cell.status) for cell in stored(tmp_path).cells] == [(4, "measured"), (8, "skipped")]
        assert [load.concurrency for load in sent] == [4, 4, 4]

    def test_of_which_no_cell_has_room_is_not_called_measured(
        self, gemma4: Command, server: FakeVllm, sent: list[Load]
    ) -> None:
        server.metrics.kv_tokens = 628
        answer = gemma4("bench", "--url", server.url, "--concurrency", "8", "--input", "500", "--output", "128")
        assert "nothing can be measured: every cell was skipped" in answer.err
        assert sent == []

    def test_prompts_of_all_repeats_and_cells_are_different(
        self, gemma4: Command, server: FakeVllm, sent: list[Load]
    ) -> None:
        gemma4(
            "bench", "--url", server.url, "--concurrency", "1,2", "--input", "200", "--output", "128", "--repeats", "3"
        )
        texts = [body["messages"][0]["content"] for load in sent for body in load.bodies]
        assert len(texts) == 3 * (1 + 8) + 3 * (2 + 8)
        assert len({tuple(text.split()[:5]) for text in texts}) == len(texts)

    def test_a_workload_is_scaled_to_the_servers_length_and_says_so(
        self, gemma4: Command, server: FakeVllm, sent: list[Load]
    ) -> None:
        answer = gemma4(
            "bench", "run", "--url", server.url, "--concurrency", "1", "--workload", "decode-heavy", "--json"
        )
        (cell,) = answer.data["cells"]
        assert (cell["workload"], cell["inputTokens"], cell["outputTokens"]) == ("decode-heavy", 446, 3568)
        assert "scaled to 446/3,568: max_model_len is 4,096" in cell["notes"][0]

    def test_the_table_says_how_prompts_begin(self, gemma4: Command, server: FakeVllm, sent: list[Load]) -> None:
        words = (
            "bench",
            "--url",
            server.url,
            "--concurrency",
            "1",
            "--input",
            "200",
            "--output",
            "128",
            "--repeats",
            "1",
        )
        assert "prompts unique" in gemma4(*words).out
        assert "prompts shared" in gemma4(*words, "--prefix-cache", "shared").out

    def test_it_fits_eighty_columns_as_a_table(self, gemma4: Command, server: FakeVllm, sent: list[Load]) -> None:
        server.metrics.kv_tokens = 100_000
        said = gemma4("bench", "--url", server.url, "--concurrency", "1,16", "--input", "1000", "--output", "1000").out
        lines = [line for line in said.splitlines() if "stored in" not in line]
        assert [line for line in lines if len(line) > 80] == []
        assert sum(line.startswith(("1 × 1000/1000  ", "16 × 1000/1000  ")) for line in lines) == 2


class TestAnEnd:
    def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(
        self, gemma4: Command, server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loads: list[Load] = []

        def interrupted(_: Path, load: Load, **__: Any) -> Recorded:
            loads.append(load)
            if len(loads) == 5:
                raise KeyboardInterrupt
            server.metrics.generation_tokens += 128 * load.counted
            return replies(load)

        monkeypatch.setattr(aiperf, "run", interrupted)
        words = ("--url", server.url, "--concurrency", "1,2", "--input", "200", "--output", "128", "--repeats", "3")
        answer = gemma4("bench", *words)
        assert answer.code == 130
        before = stored(tmp_path)
        assert (before.complete, [len(cell.repeats) for cell in before.cells]) == (False, [3, 1])
        assert before.cells[1].notes == ["1 of 3 repeats were measured"]
        (file,) = (tmp_path / "stored").glob("*.json")
        assert f"go on with: gemma4 bench run --resume {file}" in answer.err

        answer = gemma4("bench", "run", "--resume", str(file), "--json")
        assert (answer.code, answer.data["complete"]) == (0, True)
        after = stored(tmp_path)
        assert [len(cell.repeats) for cell in after.cells] == [3, 3]
        assert after.cells[0] == before.cells[0]
        assert after.cells[1].repeats[0] == before.cells[1].repeats[0]
        assert after.cells[1].notes == []
        texts = [body["messages"][0]["content"] for load in loads for body in load.bodies]
        assert len(set(texts)) == len(texts), "what was sent before the end may be in the prefix cache"

    def test_a_complete_file_is_shown_without_a_server(
        self, gemma4: Command, server: FakeVllm, sent: list[Load], tmp_path: Path
    ) -> None:
        gemma4("bench", "--url", server.url, "--concurrency", "1", "--output", "128")
        (file,) = (tmp_path / "stored").glob("*.json")
        count = len(server.requests)
        assert gemma4("bench", "--resume", str(file)).code == 0
        assert len(server.requests) == count

    def test_a_failure_keeps_what_was_measured(
        self, gemma4: Command, server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def dies(_: Path, load: Load, **__: Any) -> Recorded:
            return replies(load) if load.concurrency == 1 else Recorded((), {"500: dead": load.counted}, 0, 0, 0.1)

        monkeypatch.setattr(aiperf, "run", dies)
        answer = gemma4("bench", "--url", server.url, "--concurrency", "1,2", "--output", "128", "--repeats", "3")
        assert answer.code == 1
        assert "no request of 8 was answered: 8 × 500: dead" in answer.err
        assert [len(cell.repeats) for cell in stored(tmp_path).cells] == [3]

    def test_another_server_does_not_go_on_with_a_run(
        self, gemma4: Command, server: FakeVllm, tmp_path: Path, sent: list[Load], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gemma4("bench", "--url", server.url, "--concurrency", "1", "--output", "128")
        (file,) = (tmp_path / "stored").glob("*.json")
        file.write_text(file.read_text().replace('"complete": true', '"complete": false'))
        server.version = "0.33.0"
        answer = gemma4("bench", "--resume", str(file))
        assert answer.code == 1
        assert "begin anew" in answer.err


class TestOfAStack:
    """The stack l4 in the place of a fake server, which serves what the files here plan."""

    @pytest.fixture
    def deployed(self, server: FakeVllm, monkeypatch: pytest.MonkeyPatch) -> FakeVllm:
        planned = plan_stack("l4", root=ROOT)
        plan = planned.plan
        server.model, server.spec_hash = plan.model.hub_id, plan.command.spec_hash
        server.max_model_len, server.metrics.kv_tokens = plan.server.max_model_len, plan.capacity.tokens
        endpoint = Endpoint(server.url, (Member("", ""),), plan.model.hub_id, planned=planned)
        monkeypatch.setattr("infra.ops.commands.bench.find_endpoint", lambda *_: endpoint)
        return server

    def test_the_grid_is_the_plans_and_time_and_price_are_said_first(
        self, gemma4: Command, deployed: FakeVllm, sent: list[Load], tmp_path: Path
    ) -> None:
        answer = gemma4("bench", "l4", "--repeats", "1")
        assert answer.code == 0
        run, plan = stored(tmp_path), plan_stack("l4", root=ROOT).plan
        workload = plan.settings.workload
        assert {(cell.input_tokens, cell.output_tokens) for cell in run.cells} == {
            (workload.prompt_tokens, workload.output_tokens)
        }
        assert run.cells[0].concurrency == 1
        assert run.cells[-1].concurrency == plan.server.max_num_seqs * plan.cost.replicas
        first = next(line for line in answer.err.splitlines() if "repeats;" in line)
        assert "≈" in first or " to " in first
        assert "$" in first
        assert "an hour" in first
        assert run.versions.plan == plan.command.spec_hash
        assert run.plan
        assert run.plan.usd_per_hour == plan.cost.usd_per_hour

    def test_what_no_such_machine_can_do_is_no_result(
        self, gemma4: Command, deployed: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(aiperf, "run", lambda _, load, **__: replies(load, seconds=0.01))
        answer = gemma4("bench", "run", "l4", "--repeats", "1", "--concurrency", "1", "--json")
        (cell,) = answer.data["cells"]
        assert (cell["status"], cell["outputTokensPerSecond"]) == ("impossible", None)
        assert "an error of measurement" in cell["why"]
        shown = gemma4("bench", "--resume", answer.data["file"]).out
        assert "impossible: 1 ×" in shown

    def test_rows_are_read_by_the_scorecard(
        self, gemma4: Command, deployed: FakeVllm, sent: list[Load], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(aiperf, "run", lambda _, load, **__: replies(load, seconds=40.0))
        rows = gemma4("bench", "l4", "--repeats", "1", "--concurrency", "1,4", "--as-row").out
        (tmp_path / "rows.jsonl").write_text(rows)
        assert [json.loads(row)["what"] for row in rows.splitlines()] == ["memory", "speed", "first_token", "speed"]
        scored = gemma4("scorecard", str(tmp_path / "rows.jsonl"), "--json")
        assert scored.code == 0
        assert "not compared" not in gemma4("scorecard", str(tmp_path / "rows.jsonl")).out

    def test_another_specification_than_planned_is_measured_without_predictions(
        self, gemma4: Command, deployed: FakeVllm, sent: list[Load], tmp_path: Path
    ) -> None:
        deployed.spec_hash = "spec-older"
        answer = gemma4("bench", "l4", "--repeats", "1", "--concurrency", "1", "--output", "128")
        assert "another specification is served than the files here plan" in answer.err
        assert stored(tmp_path).plan is None


def real_aiperf() -> Path | None:
    own = ROOT / aiperf.ENVIRONMENT / "bin" / "aiperf"
    found = own if own.is_file() else shutil.which("aiperf")
    return Path(found) if found else None


@pytest.mark.skipif(real_aiperf() is None, reason="needs aiperf: make bench-tools")
class TestTheRealAiperf:
    def test_measures_a_server_as_it_counts_itself(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GEMMA4_API_KEY", "key-of-the-server")
        monkeypatch.chdir(ROOT)
        with FakeVllm() as fake:
            fake.lets_in = lambda token: token == "key-of-the-server"
            save = str(tmp_path / "run.json")
            answer = bench_answer(
                url=fake.url, concurrency="4", input_tokens="300", output_tokens="128", repeats=1, save=save
            )
            bodies = fake.sent("/v1/chat/completions")[2:]  # after the two that ask how words are counted
        (cell,), (repeat,) = answer.cells, load(Path(save)).cells[0].repeats
        assert (cell.status, cell.requests, cell.failed, cell.notes) == ("measured", 12, 0, [])
        assert len(bodies) == 4 + 12
        assert len({body["messages"][0]["content"] for body in bodies}) == 16
        assert {(body["min_tokens"], body["max_tokens"], body["temperature"]) for body in bodies[4:]} == {(128, 128, 0)}
        assert repeat.server_output_tokens == sum(repeat.output_tokens) == 12 * 128
        assert repeat.input_tokens == pytest.approx([300] * 12, rel=0.02)
        assert all(0 < first < whole for first, whole in zip(repeat.ttft_s, repeat.e2e_s, strict=True))
        assert "key-of-the-server" not in Path(save).read_text()

    def test_a_refusal_is_told_in_the_servers_words(self) -> None:
        executable = real_aiperf()
        assert executable
        with FakeVllm() as fake, aiperf.scratch_folder() as folder:
            body = {"model": "other", "messages": [{"role": "user", "content": "x"}], "max_tokens": 4, "stream": True}
            recorded = aiperf.run(executable, Load(fake.url, "other", [body], 0, 1), token=None, folder=folder)
        assert recorded.answered == ()
        assert recorded.errors == {"404: The model `other` does not exist.": 1}


def test_a_run_that_cannot_be_stored_fails_before_it_costs(
    gemma4: Command, server: FakeVllm, sent: list[Load], tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises((Gemma4Error, OSError)):
        bench_answer(url=server.url, concurrency="1", output_tokens="128", save=str(tmp_path / "taken" / "a.json"))
    assert sent == []
