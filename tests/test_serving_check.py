"""The serving check against a server that is right, and against each way in which one can be wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.errors import ServingError
from infra.serving.check import GRANT_GRACE_S, CheckExpectation, CheckResult, run_check
from infra.serving.client import ServingClient
from infra.serving.metrics import kv_cache_tokens, samples
from tests.fakes.google.client import FakeTime
from tests.fakes.vllm import FakeVllm


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


EXPECTED = CheckExpectation(
    model="gemma",
    spec_hash="spec-1",
    max_model_len=4096,
    tools=True,
    image=True,
    audio=True,
    predicted_kv_tokens=(28_000, 30_000, 32_000),
    prompt_tokens=1024,
    ready_timeout_s=600,
)


def check(
    server: FakeVllm, time: FakeTime | None = None, progress: list[str] | None = None, **changes: object
) -> CheckResult:
    time = time or FakeTime()
    expected = CheckExpectation(**{**EXPECTED.__dict__, **changes})  # type: ignore[arg-type]
    shown = progress if progress is not None else []
    client = ServingClient(server.url, token=lambda: "id-token", clock=time.clock)
    return run_check(client, expected, progress=shown.append, clock=time.clock, sleep=time.sleep)


def failure(server: FakeVllm, time: FakeTime | None = None, **changes: object) -> ServingError:
    with pytest.raises(ServingError) as caught:
        check(server, time, **changes)
    return caught.value


class TestARightServerPasses:
    def test_and_says_what_it_measured(self, server: FakeVllm) -> None:
        result = check(server)
        assert (result.vllm_version, result.kv_tokens, result.predicted_kv_tokens) == ("0.32.0", 30_000, 30_000)
        assert result.notes == ()

    def test_after_every_stage_that_was_asked_for(self, server: FakeVllm) -> None:
        shown: list[str] = []
        check(server, progress=shown)
        stages = ["chat", "tools", "image", "audio", "warm-up", "measurement"]
        assert shown == [f"checking: {stage}" for stage in stages]

    def test_without_stages_that_are_off(self, server: FakeVllm) -> None:
        shown: list[str] = []
        check(server, progress=shown, tools=False, image=False, audio=False)
        assert shown == ["checking: chat", "checking: warm-up", "checking: measurement"]

    def test_and_no_two_warm_up_prompts_are_alike(self, server: FakeVllm) -> None:
        check(server)
        check(server)
        prompts = [body["messages"][0]["content"] for body in server.sent("/v1/chat/completions")]
        warm = [text for text in prompts if isinstance(text, str) and "ready" not in text]
        assert len(set(warm)) == len(warm)
        assert len({len(text) for text in warm}) > 2, "several lengths"

    def test_a_surprising_cache_size_is_a_note_and_no_failure(self, server: FakeVllm) -> None:
        server.kv_tokens = 20_000
        assert check(server).notes == ("the KV cache holds 20,000 tokens, predicted were 30,000 (28,000 to 32,000)",)

    def test_the_result_is_plain_data(self, server: FakeVllm) -> None:
        assert check(server).to_dict()["notes"] == []


class TestReadinessIsWaitedFor:
    def test_while_the_server_loads(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "loading", 5
        time, shown = FakeTime(), []  # type: ignore[var-annotated]
        check(server, time, shown)
        assert time.pauses == [5.0] * 5
        assert shown[0] == "waiting for the server, 600 s left: /health answered 503"

    def test_no_longer_than_the_ready_timeout(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "loading", -1
        time = FakeTime()
        error = failure(server, time)
        assert sum(time.pauses) <= 600
        assert error.stage == "ready"
        assert "not ready after 600 s; last seen: /health answered 503" in str(error)

    def test_through_a_fresh_grant(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "forbidden", 10
        check(server)

    def test_but_not_through_a_missing_grant(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "forbidden", -1
        time = FakeTime()
        error = failure(server, time)
        assert sum(time.pauses) <= GRANT_GRACE_S + 10
        assert "roles/run.invoker" in str(error)

    def test_an_older_server_does_not_pass_for_the_new_one(self, server: FakeVllm) -> None:
        server.spec_hash = "spec-old"
        error = failure(server)
        assert "another specification is still served (gemma, spec-old)" in str(error)

    def test_until_nobody_answered_at_all(self) -> None:
        with FakeVllm() as gone:
            pass
        assert "nobody answers yet" in str(failure(gone))


class TestAWrongServerFailsAtOnce:
    """A healthy server that does not do what was planned: the error names stage, answer, cause and fix, without waiting."""

    def test_healthy_but_unable_to_generate(self, server: FakeVllm) -> None:
        server.mode = "cannot generate"
        time = FakeTime()
        error = failure(server, time)
        assert time.pauses == []
        assert (error.stage, error.status) == ("chat", 500)
        assert str(error) == (
            "serving check, stage chat: /v1/chat/completions answered 500: "
            '{"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", '
            '"type": "InternalServerError", "param": null, "code": 500}}. Likely: the server is healthy but cannot '
            "generate: its engine died on the first request. Read the log lines for the first error of EngineCore; "
            "with fp8 KV cache try serving.kvCacheDtype: auto."
        )

    def test_empty_answers(self, server: FakeVllm) -> None:
        server.mode = "empty"
        assert "stage chat: the answer holds no text" in str(failure(server))

    def test_tool_calls_that_are_not_parsed(self, server: FakeVllm) -> None:
        server.mode = "no tools"
        error = failure(server)
        assert error.stage == "tools"
        assert "serving.tools: false" in str(error)

    def test_images_that_are_refused(self, server: FakeVllm) -> None:
        server.mode = "no images"
        assert failure(server).stage == "image"

    def test_another_context_length(self, server: FakeVllm) -> None:
        server.max_model_len = 2048
        assert "max_model_len of 2048, planned are 4096" in str(failure(server))

    def test_another_model(self, server: FakeVllm) -> None:
        server.model = "llama"
        assert "lists llama, spec-1, not gemma" in str(failure(server))


def test_the_token_is_in_no_error(server: FakeVllm) -> None:
    server.mode = "cannot generate"
    assert "id-token" not in str(failure(server))


class TestMetrics:
    def test_labels_with_braces_and_quotes_are_read(self) -> None:
        (sample,) = samples('a:b{x="1}",y="a\\"b"} 2.5 1234')
        assert (sample.name, sample.labels, sample.value) == ("a:b", {"x": "1}", "y": 'a"b'}, 2.5)

    def test_a_server_that_does_not_say_its_cache_size(self) -> None:
        assert kv_cache_tokens("# nothing here\nvllm:other 1\n") is None
