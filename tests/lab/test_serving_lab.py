"""The serving check against real vLLM servers: what the fake claims, vLLM itself says here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.errors import ServingError
from infra.serving.check import CheckExpectation, run_check
from infra.serving.client import ServingClient
from tests.lab import servers
from tests.lab.servers import LAB, MAX_MODEL_LEN, SPEC_HASH, TOOLS, RealVllm

pytestmark = pytest.mark.lab
needs_lab = pytest.mark.skipif(LAB is None, reason=servers.NO_LAB)

EXPECTED = CheckExpectation(
    model="gemma",
    spec_hash=SPEC_HASH,
    max_model_len=MAX_MODEL_LEN,
    vllm_version=servers.version_of(LAB) if LAB else "",
    prompt_tokens=512,
    ready_timeout_s=600,
)


def failed(server: RealVllm, **changes: object) -> ServingError:
    with pytest.raises(ServingError) as caught:
        run_check(ServingClient(server.url), EXPECTED.model_copy(update=changes), log_tail=server.log_tail)
    return caught.value


@pytest.fixture(scope="module")
def lab() -> Path:
    assert LAB is not None
    return LAB


@pytest.fixture(scope="class")
def with_tools(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    with servers.running(lab / "tiny", tmp_path_factory.mktemp("tools"), *TOOLS) as started:
        yield started


@pytest.fixture(scope="class")
def without_tools(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    model = lab / "tiny-mm" if (lab / "tiny-mm").is_dir() else lab / "tiny"
    with servers.running(model, tmp_path_factory.mktemp("plain")) as started:
        yield started


@pytest.fixture(scope="class")
def broken(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    scratch = tmp_path_factory.mktemp("broken")
    model = servers.quantised(lab / "tiny", scratch / "w4a16")
    flags = ("--load-format", "dummy", "--kv-cache-dtype", "fp8")
    with servers.running(model, scratch, *flags, path=servers.fp8_everywhere(scratch / "plugin")) as started:
        servers.wait_until_healthy(started)
        yield started


@needs_lab
class TestAServerWithTools:
    def test_passes_from_its_start_on(self, with_tools: RealVllm) -> None:
        shown: list[str] = []
        expected = EXPECTED.model_copy(update={"tools": True, "reasoning": True})
        result = run_check(ServingClient(with_tools.url), expected, progress=shown.append)
        assert any("nothing listens there" in line for line in shown), "it was waited for"
        assert result.vllm_version == EXPECTED.vllm_version
        assert not [note for note in result.notes if "was planned" in note]
        assert result.kv_tokens is not None
        assert result.output_tokens == 64
        assert abs(result.prompt_tokens - 512) < 100
        assert result.tokens_per_second > 0

    def test_does_not_pass_for_another_one(self, with_tools: RealVllm) -> None:
        assert failed(with_tools, spec_hash="spec-new", ready_timeout_s=6).stage == "models"
        assert failed(with_tools, max_model_len=8192).stage == "models"

    def test_takes_no_pictures_if_its_model_does_not(self, with_tools: RealVllm) -> None:
        error = failed(with_tools, image=True)
        assert (error.stage, error.status) == ("image", 400)
        assert "serving.modalities" in str(error)


@needs_lab
class TestAServerWithoutTools:
    def test_passes_where_none_are_planned(self, without_tools: RealVllm, lab: Path) -> None:
        expected = EXPECTED.model_copy(update={"image": (lab / "tiny-mm").is_dir()})
        assert run_check(ServingClient(without_tools.url), expected).notes == ()

    def test_fails_where_they_are(self, without_tools: RealVllm) -> None:
        error = failed(without_tools, tools=True)
        assert error.stage == "tools"
        assert "the server was started without a tool parser" in str(error)


@needs_lab
class TestAServerThatIsHealthyButCannotGenerate:
    def test_fails_within_a_minute_and_says_so(self, broken: RealVllm) -> None:
        started = time.monotonic()
        error = failed(broken)
        assert time.monotonic() - started < 60
        assert (error.stage, error.status) == ("chat", 500)
        assert "the server is healthy but cannot generate" in str(error)
        assert "fp8 KV cache" in str(error)
        assert "EngineCore" in str(error)


@pytest.mark.skipif(not servers.URL, reason=servers.NO_URL)
def test_a_running_server_passes() -> None:
    client = ServingClient(servers.URL)
    model = client.models()[0]
    expected = CheckExpectation(model=model.name, max_model_len=model.max_model_len or 0, prompt_tokens=256)
    assert run_check(client, expected).output_tokens > 0
