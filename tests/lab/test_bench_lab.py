"""`gemma4 bench` with the real aiperf against a real vLLM: what is forced is forced, and both count the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.benchmark import aiperf
from infra.benchmark.stored_run import BenchmarkRun, load
from infra.ops.commands.bench import bench_answer
from tests.lab import servers
from tests.lab.servers import LAB, RealVllm
from tests.projects import ROOT

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(LAB is None, reason=servers.NO_LAB),
    pytest.mark.skipif(
        not (ROOT / aiperf.ENVIRONMENT / "bin" / "aiperf").is_file() and shutil.which("aiperf") is None,
        reason="needs aiperf: make bench-tools",
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    assert LAB is not None
    with servers.running(LAB / "tiny", tmp_path_factory.mktemp("bench")) as started:
        servers.wait_until_healthy(started)
        yield started


@pytest.fixture
def measured(server: RealVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(ROOT)

    def measure(**options: Any) -> BenchmarkRun:
        file = tmp_path / "run.json"
        bench_answer(url=server.url, save=str(file), **options)
        return load(file)

    return measure


def test_unique_prompts_miss_the_cache_and_every_token_is_counted(measured: Any) -> None:
    run = measured(concurrency="2", input_tokens="400", output_tokens="64", requests=16, repeats=2)
    (cell,) = run.cells
    assert (cell.status, run.server.prefix_caching) == ("measured", True)
    for repeat in cell.repeats:
        assert repeat.failed == 0
        assert repeat.output_tokens == [64] * 16
        assert repeat.server_output_tokens == 16 * 64
        assert repeat.prefix_hit_rate == 0
        assert sum(repeat.input_tokens) / 16 == pytest.approx(400, rel=0.03)
        times = [*zip(repeat.ttft_s, repeat.e2e_s, strict=True)]
        assert all(0 < ttft <= whole for ttft, whole in times)  # equal: a busy client has read the whole answer at once
        assert any(ttft < whole for ttft, whole in times)


def test_a_cell_beyond_the_real_kv_cache_is_skipped(measured: Any) -> None:
    run = measured(concurrency="16", input_tokens="400", output_tokens="3600", repeats=1)
    (cell,) = run.cells
    assert cell.status == "skipped"
    assert f"the server has {run.server.kv_tokens:,}" in cell.why


def test_shared_prompts_are_found_in_the_cache_and_said_to_be(measured: Any) -> None:
    run = measured(
        concurrency="2", input_tokens="600", output_tokens="16", requests=12, repeats=1, prefix_cache="shared"
    )
    (cell,) = run.cells
    assert cell.repeats[0].prefix_hit_rate > 0.3
    assert any("found in the prefix cache, on purpose" in note for note in cell.notes)
