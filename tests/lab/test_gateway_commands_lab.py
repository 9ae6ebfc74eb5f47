"""The commands through the gateway before two real servers: asked of a member by its path, and of whichever answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.benchmark import aiperf
from infra.benchmark.stored_run import load
from infra.ops.commands.bench import bench_answer
from infra.ops.commands.read_metrics import two_readings
from infra.ops.endpoint.endpoint import Endpoint, Member
from infra.serving.client import ChatRequest, ServingClient
from tests.fakes.gateway import Gateway, missing
from tests.lab import servers
from tests.lab.conftest import Machines
from tests.lab.servers import LAB, MAX_MODEL_LEN
from tests.projects import ROOT, Capture, Command, command

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(LAB is None, reason=servers.NO_LAB),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
PATHS = ("", "/members/blue", "/members/green-a")
ASKED, TOKENS = 8, 40


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


def url(gateway: Gateway, path: str = "") -> str:
    return f"http://127.0.0.1:{gateway.port}{path}"


@pytest.mark.parametrize("path", PATHS)
def test_the_check_passes(gateway: Gateway, gemma4: Command, path: str) -> None:
    answer = gemma4("check", "--url", url(gateway, path), "--json")
    (row,) = answer.data["servers"]
    assert (answer.code, row["passed"], row["error"]) == (0, True, "")
    assert {one["figure"] for one in row["figures"] if one["measured"]} >= {"KV cache", "alone"}


@pytest.mark.parametrize("path", PATHS)
def test_the_commands_answer(gateway: Gateway, machines: Machines, gemma4: Command, path: str) -> None:
    for name in ("metrics", "memory", "env", "status"):
        assert gemma4(name, "--url", url(gateway, path), "--json").code == 0
    served = gemma4("status", "--url", url(gateway, path), "--json").data["server"]
    names = {machine.hash for name, machine in machines.items() if not path or path[len("/members/") :] in name}
    assert served["models"][0] == "gemma"
    assert {*served["models"][1:]} <= names
    assert served["maxModelLen"] == MAX_MODEL_LEN


def test_the_metrics_of_a_stack_are_the_sum_of_its_members(gateway: Gateway) -> None:
    """As `gemma4 metrics STACK` reads them: each member by its path, while requests go to whichever the gateway chooses."""
    members = tuple(Member(name, f"/members/{name}") for name in ("blue", "green"))
    client = ServingClient(url(gateway))
    question = ChatRequest("gemma", [{"role": "user", "content": "Count."}], TOKENS, extra={"ignore_eos": True})

    def ask(_: float) -> None:
        for _ in range(ASKED):
            client.chat(question)

    answer = two_readings(Endpoint(url(gateway), members), 1.0, sleep=ask)
    assert [member.name for member in answer.members] == ["blue", "green"]
    made = [member.load.generation_tokens_per_second for member in answer.members if member.load]
    assert min(figure or 0 for figure in made) > 0, "load reaches both"
    assert answer.together
    assert answer.together.generation_tokens_per_second == pytest.approx(sum(figure or 0 for figure in made))


@pytest.mark.skipif(
    not (ROOT / aiperf.ENVIRONMENT / "bin" / "aiperf").is_file(), reason="needs aiperf: make bench-tools"
)
@pytest.mark.parametrize("path", PATHS[:2])
def test_the_benchmark_counts_every_token(
    gateway: Gateway, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    bench_answer(
        url=url(gateway, path),
        save=str(tmp_path / "run.json"),
        concurrency="2",
        input_tokens="200",
        output_tokens="32",
        requests=12,
        repeats=2,
    )
    (cell,) = load(tmp_path / "run.json").cells
    assert cell.status == "measured"
    for repeat in cell.repeats:
        assert repeat.failed == 0
        assert repeat.output_tokens == [32] * 12
