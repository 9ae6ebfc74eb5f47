"""`gemma4 check --url` and `gemma4 status --url` of a real vLLM server: what the fake claims, vLLM itself says here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.serving.client import ServingClient
from infra.serving.served_expectation import served_expectation
from tests.lab import servers
from tests.lab.servers import LAB, MAX_MODEL_LEN, SPEC_HASH, TOOLS, RealVllm
from tests.projects import Capture, Command, command

pytestmark = [pytest.mark.lab, pytest.mark.skipif(LAB is None, reason=servers.NO_LAB)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    assert LAB is not None
    with servers.running(LAB / "tiny", tmp_path_factory.mktemp("check"), *TOOLS) as started:
        servers.wait_until_healthy(started)
        yield started


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


def test_a_server_passes_a_check_of_what_it_says_and_takes(server: RealVllm, gemma4: Command) -> None:
    answer = gemma4("check", "--url", server.url, "--json")
    (row,) = answer.data["servers"]
    assert (answer.code, row["passed"], row["error"]) == (0, True, "")
    assert answer.data["expected"] == ["tools"], "the tiny model takes no pictures"
    assert row["vllmVersion"] == (servers.version_of(LAB) if LAB else "")
    figures = {one["figure"]: one["measured"] for one in row["figures"]}
    assert figures["KV cache"] > 0
    assert figures["alone"] > 0


def test_its_expectation_is_made_of_two_requests_of_one_token(server: RealVllm) -> None:
    expected = served_expectation(ServingClient(server.url))
    assert (expected.model, expected.max_model_len) == ("gemma", MAX_MODEL_LEN)
    assert (expected.tools, expected.image) == (True, False)


def test_its_status_is_what_it_says_of_itself(server: RealVllm, gemma4: Command) -> None:
    answer = gemma4("status", "--url", server.url, "--json")
    assert (answer.code, answer.data["serving"]) == (0, True)
    assert answer.data["server"]["models"] == ["gemma", SPEC_HASH]
    assert answer.data["server"]["maxModelLen"] == MAX_MODEL_LEN
    assert gemma4("status", "--url", server.url).code == 0
