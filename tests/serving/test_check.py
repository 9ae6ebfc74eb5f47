"""The serving check against a server that is right, and against each way in which one can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from infra.errors import GoogleError, ServingError
from infra.planning.performance.evaluation_time import LONGEST_CHECKED
from infra.serving.check import RETRY_FOR_S, CheckExpectation, CheckResult, run_check
from infra.serving.client import ServingClient
from infra.serving.evaluation.task_set import KINDS
from infra.serving.readiness import GRACE_S
from tests.fakes.google.client import FakeTime
from tests.fakes.oracle import Oracle
from tests.fakes.vllm import WORDS_PER_TOKEN, FakeVllm, Mode

EXPECTED = CheckExpectation(
    model="gemma",
    spec_hash="spec-1",
    max_model_len=4096,
    tools=True,
    reasoning=True,
    image=True,
    audio=True,
    video=True,
    predicted_kv_tokens=(28_000, 30_000, 32_000),
    prompt_tokens=1024,
    vllm_version="0.32.0",
    ready_timeout_s=600,
)
STAGES = ["chat", "reasoning", "tools", "image", "audio", "video", "metrics", "warm-up", "measurement"]


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


def check(
    server: FakeVllm,
    time: FakeTime | None = None,
    progress: list[str] | None = None,
    log_tail: Callable[[], Sequence[str]] = lambda: (),
    token: Callable[[], str] = lambda: "id-token",
    **changes: Any,
) -> CheckResult:
    time = time or FakeTime()
    shown = progress if progress is not None else []
    return run_check(
        ServingClient(server.url, token=token),
        EXPECTED.model_copy(update=changes),
        progress=shown.append,
        log_tail=log_tail,
        clock=time.clock,
        sleep=time.sleep,
    )


def failure(server: FakeVllm, time: FakeTime | None = None, **changes: Any) -> ServingError:
    with pytest.raises(ServingError) as caught:
        check(server, time, **changes)
    return caught.value


def at_each_pause(act: Callable[[int], None]) -> FakeTime:
    """A clock whose n-th pause does something first: the server changes while the check waits."""

    class Acting(FakeTime):
        def sleep(self, seconds: float) -> None:
            act(len(self.pauses))
            super().sleep(seconds)

    return Acting()


class TestARightServerPasses:
    def test_and_says_what_it_measured(self, server: FakeVllm) -> None:
        result = check(server)
        assert (result.vllm_version, result.kv_tokens, result.predicted_kv_tokens) == ("0.32.0", 30_000, 30_000)
        assert result.notes == ()
        assert result.ttft_s > 0
        assert result.tokens_per_second > 0
        assert result.output_tokens == 64
        assert result.prompt_tokens == pytest.approx(1024, rel=0.1), "measured at the typical prompt"

    def test_after_every_stage_that_was_asked_for(self, server: FakeVllm) -> None:
        shown: list[str] = []
        check(server, progress=shown)
        assert shown == [f"checking: {stage}" for stage in STAGES]

    def test_without_stages_that_are_off(self, server: FakeVllm) -> None:
        shown: list[str] = []
        check(server, progress=shown, tools=False, reasoning=False, image=False, audio=False, video=False)
        assert shown == ["checking: chat", "checking: metrics", "checking: warm-up", "checking: measurement"]

    def test_with_an_answer_from_each_adapter_and_from_the_base(self, server: FakeVllm) -> None:
        server.adapters, shown = {"tone": "gladly", "sql": "SELECT 1"}, list[str]()
        assert check(server, progress=shown, adapters=("tone", "sql")).notes == ()
        assert [line for line in shown if "adapters" in line] == ["checking: adapters"]
        asked = [body["model"] for body in server.sent("/v1/chat/completions")]
        assert {"gemma", "tone", "sql"} == set(asked)
        assert (asked.count("tone"), asked.count("sql")) == (1, 1)

    def test_with_a_note_where_an_adapter_says_what_the_base_says(self, server: FakeVllm) -> None:
        server.adapters = {"tone": "gladly", "idle": "ready"}
        (note,) = check(server, adapters=("tone", "idle")).notes
        assert note.startswith("the adapter idle answered word for word as the base model")

    def test_even_one_whose_model_knows_nothing(self, server: FakeVllm) -> None:
        server.mode = "untrained"
        (note,) = check(server).notes
        assert "only when it had no choice" in note
        led = server.sent("/v1/chat/completions")[3]
        assert led["tool_choice"] == "required", "vLLM refuses a named tool together with a constraint"

    def test_even_one_that_ends_its_answers_at_once(self, server: FakeVllm) -> None:
        server.mode = "quiet"
        assert any("without text" in note for note in check(server, tools=False, reasoning=False).notes)

    def test_with_a_note_where_the_cache_is_not_as_predicted(self, server: FakeVllm) -> None:
        server.metrics.kv_tokens = 20_000
        assert check(server).notes == (
            "the KV cache holds 20,000 tokens, less than the 30,000 predicted (28,000 to 32,000)",
        )

    def test_with_a_note_where_it_does_not_say_its_cache_or_version(self, server: FakeVllm) -> None:
        server.metrics.kv_tokens, server.version = None, None
        result = check(server)
        assert (result.kv_tokens, result.vllm_version) == (None, "")
        assert [note.split(" is unknown")[0] for note in result.notes] == ["vLLM's version", "the KV cache's size"]

    def test_with_a_note_where_another_version_answers(self, server: FakeVllm) -> None:
        server.version = "0.33.0"
        assert check(server).notes == ("vLLM 0.33.0 answers, 0.32.0 was planned: the predictions are for 0.32.0",)
        server.version = "0.32.0+cpu"
        assert check(server).notes == ()

    def test_with_a_result_that_survives_a_state_without_integers(self, server: FakeVllm) -> None:
        result = check(server)
        kept = json.loads(json.dumps(result.to_dict()), parse_int=float)
        assert CheckResult.model_validate(kept | {"written by a later version": 1}) == result


class TestWarmUp:
    def test_walks_from_short_prompts_to_the_typical_one(self) -> None:
        assert EXPECTED.warm_up_lengths() == (32, 128, 512, 1024)
        assert EXPECTED.model_copy(update={"prompt_tokens": 20}).warm_up_lengths() == (20,)

    def test_leaves_half_of_the_context_free(self) -> None:
        short = EXPECTED.model_copy(update={"max_model_len": 512})
        assert short.warm_up_lengths() == (32, 128, 256)

    def test_learns_how_long_a_word_is(self, server: FakeVllm) -> None:
        check(server, prompt_tokens=3000, max_model_len=0)
        texts = [body["messages"][0]["content"] for body in server.sent("/v1/chat/completions")]
        words = [len(text.split()) for text in texts if isinstance(text, str)]
        assert max(words) * 3 == pytest.approx(3000, rel=0.1), "the fake counts three tokens a word"

    def test_never_asks_the_same_twice(self, server: FakeVllm) -> None:
        check(server)
        check(server)
        texts = [body["messages"][0]["content"] for body in server.sent("/v1/chat/completions")]
        starts = [text[:12] for text in texts if isinstance(text, str) and text.islower() and "90" not in text]
        assert len(starts) == len(set(starts)) == 10, "no two share a prefix that a cache could answer from"


class TestReadinessIsWaitedFor:
    @pytest.mark.parametrize("mode", ["loading", "cut"])
    def test_while_the_server_loads(self, server: FakeVllm, mode: Mode) -> None:
        server.mode, server.refusals_left = mode, 5
        time, shown = FakeTime(), list[str]()
        result = check(server, time, shown)
        assert time.pauses == [5.0] * 5
        assert result.ready_s == 25.0
        assert shown[0].startswith("waiting for the server, 600 s left: GET http://127.0.0.1")
        assert len([line for line in shown if line.startswith("waiting")]) == 2, "one line in fifteen seconds"

    def test_while_nobody_listens(self) -> None:
        with FakeVllm() as gone:
            pass
        time = FakeTime()
        error = failure(gone, time)
        assert sum(time.pauses) == pytest.approx(600, abs=5)
        assert error.stage == "ready"
        assert "not ready after 600 s" in str(error)
        assert "nothing listens there" in str(error)

    def test_no_longer_than_the_ready_timeout(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "loading", -1
        time = FakeTime()
        error = failure(server, time)
        assert sum(time.pauses) <= 600
        assert (error.stage, error.status) == ("ready", 503)
        assert "serving.readyTimeout" in str(error)

    def test_until_an_older_server_has_made_room(self, server: FakeVllm) -> None:
        server.old_listings_left = 3
        time, shown = FakeTime(), list[str]()
        check(server, time, shown)
        assert time.pauses == [5.0] * 3
        assert "another specification is still served (gemma, spec-0), not spec-1" in shown[0]

    def test_but_an_older_server_never_passes_for_the_new_one(self, server: FakeVllm) -> None:
        server.old_listings_left = -1
        error = failure(server)
        assert error.stage == "models"
        assert "not ready after 600 s: another specification is still served (gemma, spec-0)" in str(error)
        assert "the new server did not come up" in str(error)

    def test_through_a_gap_between_the_old_server_and_the_new_one(self, server: FakeVllm) -> None:
        server.old_listings_left = 1

        def hand_over(pause: int) -> None:
            server.mode, server.refusals_left = "cut", 2 if pause == 0 else server.refusals_left

        time = at_each_pause(hand_over)
        check(server, time)
        assert time.pauses == [5.0] * 3


class TestAFreshGrantIsWaitedFor:
    def test_on_the_service(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "forbidden", 10
        check(server)

    def test_on_the_account_that_makes_the_token(self, server: FakeVllm) -> None:
        left = iter(range(3))

        def token() -> str:
            if next(left, None) is not None:
                raise GoogleError("the caller may not impersonate the invoker.", status=403)
            return "id-token"

        check(server, token=token)

    def test_but_a_missing_one_only_for_minutes(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "forbidden", -1
        time = FakeTime()
        error = failure(server, time)
        assert GRACE_S < sum(time.pauses) <= GRACE_S + 10
        assert error.stage == "ready"
        assert "roles/run.invoker" in str(error)
        assert "Likely" not in str(error), "the answer says it all"


class TestAWrongServerFailsAtOnce:
    """A healthy server that does not do what was planned: the error names stage, answer, cause and fix, without waiting."""

    def test_healthy_but_unable_to_generate(self, server: FakeVllm) -> None:
        server.mode = "cannot generate"
        time = FakeTime()
        error = failure(server, time)
        assert time.pauses == []
        assert (error.stage, error.status) == ("chat", 500)
        assert str(error) == (
            "serving check, stage chat: the server is healthy but cannot generate: "
            f"POST {server.url}/v1/chat/completions answered 500: EngineCore encountered an issue. See stack trace "
            "(above) for the root cause. Likely: the engine breaks on its first computation, as an fp8 KV cache without "
            "scales or an unsupported kernel does. Read the log for the engine's first error; serving.kvCacheDtype: auto "
            "is the first thing to try."
        )

    def test_and_the_log_tells_the_cause_more_closely(self, server: FakeVllm) -> None:
        server.mode = "cannot generate"
        text = str(failure(server, log_tail=lambda: ["RuntimeError: k_scale must be positive for FP8 path"]))
        assert "Likely: an fp8 KV cache over a checkpoint that has no usable scales" in text
        assert text.endswith("The server's last log lines:\n    RuntimeError: k_scale must be positive for FP8 path")

    @pytest.mark.parametrize(
        ("logged", "likely"),
        [
            (
                "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
                "NumCudaDevices() that might have already set an error? Error 803: system has unsupported display driver / "
                "cuda driver combination",
                "Likely: CUDA's compatibility library is in use on a driver or a GPU that it does not support. "
                "Write serving.cudaCompatibility: never",
            ),
            (
                "NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on "
                "non supported HW",
                "Likely: CUDA's compatibility library is in use on a driver or a GPU that it does not support.",
            ),
            (
                "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU "
                "driver by downloading and installing a new version",
                "Likely: the host's driver is older than the CUDA that the image is built for. "
                "Write serving.cudaCompatibility: always",
            ),
            (
                "torch.AcceleratorError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
                "Likely: the host's driver is older than the CUDA that the image is built for.",
            ),
        ],
    )
    def test_a_driver_that_does_not_fit_is_named_with_what_to_write(
        self, server: FakeVllm, logged: str, likely: str
    ) -> None:
        server.mode = "cannot generate"
        assert likely in str(failure(server, log_tail=lambda: [logged]))

    def test_but_a_healthy_server_s_warnings_do_not(self, server: FakeVllm) -> None:
        server.mode = "no tools"
        assert "out of memory" not in str(failure(server, log_tail=lambda: ["CUDA out of memory"])).split("\n")[0]

    def test_and_a_log_that_cannot_be_read_hides_nothing(self, server: FakeVllm) -> None:
        def log_tail() -> Sequence[str]:
            raise GoogleError("roles/logging.viewer is missing.")

        server.mode = "cannot generate"
        text = str(failure(server, log_tail=log_tail))
        assert "cannot generate" in text
        assert "roles/logging.viewer" in text

    def test_a_server_that_vanishes_with_the_first_request(self, server: FakeVllm) -> None:
        class VanishingClient(ServingClient):
            def chat(self, request: object) -> Any:
                server.mode, server.refusals_left = "cut", -1
                return super().chat(request)  # type: ignore[arg-type]

        time = FakeTime()
        with pytest.raises(ServingError, match="healthy but cannot generate") as caught:
            run_check(VanishingClient(server.url), EXPECTED, clock=time.clock, sleep=time.sleep)
        assert caught.value.stage == "chat"
        assert sum(time.pauses) <= 60, "a crash must not wait for the ready timeout"

    def test_an_adapter_that_is_not_served_fails_before_anything_is_asked(self, server: FakeVllm) -> None:
        server.adapters, time = {"tone": "gladly"}, FakeTime()
        error = failure(server, time, adapters=("tone", "sql"))
        assert (error.stage, time.pauses) == ("models", [])
        assert "/v1/models lists gemma, spec-1, tone, not the adapter sql" in str(error)
        assert "--lora-modules" in str(error)
        assert server.sent("/v1/chat/completions") == []

    def test_an_adapter_without_text_is_named(self, server: FakeVllm) -> None:
        server.adapters = {"tone": ""}
        error = failure(server, adapters=("tone",))
        assert error.stage == "adapters"
        assert "the adapter tone answered without text" in str(error)
        assert "serving.adapters" in str(error)

    @pytest.mark.parametrize(
        ("logged", "likely"),
        [
            ("ValueError: LoRA rank 64 is greater than max_lora_rank 16.", "Raise serving.adapterRank"),
            ("ValueError: /mnt/weights/o/a/1 doesn't contain tensors", "is not where the server looks for it"),
            (
                "ValueError: While loading /mnt/weights/o/a/1, expected target modules in {'q_proj'} but received ['lm_head']",
                "changes what vLLM does not adapt",
            ),
        ],
    )
    def test_an_adapter_that_stops_the_start_is_named_as_the_cause(self, logged: str, likely: str) -> None:
        with FakeVllm() as gone:
            pass
        assert likely in str(failure(gone, log_tail=lambda: [logged], adapters=("tone",)))

    @pytest.mark.parametrize(
        ("mode", "stage", "words"),
        [
            ("empty", "chat", "two answers held no text"),
            ("no tools", "tools", "the forced tool call came back as text: ready"),
            ("no tool flags", "tools", "the server was started without a tool parser"),
            ("no images", "image", "Raise that modality under serving.modalities"),
            ("breaks off", "measurement", "healthy but cannot generate"),
        ],
    )
    def test_what_it_cannot_do(self, server: FakeVllm, mode: Mode, stage: str, words: str) -> None:
        server.mode = mode
        time = FakeTime()
        error = failure(server, time)
        assert (error.stage, time.pauses) == (stage, [])
        assert words in str(error)

    def test_another_context_length(self, server: FakeVllm) -> None:
        server.max_model_len = 2048
        error = failure(server)
        assert error.stage == "models"
        assert "max_model_len of 2048, planned is 4096" in str(error)

    def test_another_model(self, server: FakeVllm) -> None:
        server.model = "llama"
        assert "lists llama, spec-1, not gemma" in str(failure(server))


class TestAnAnswerThatPassesIsAskedForAgain:
    def test_while_instances_start(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "busy", 4
        time = FakeTime()
        check(server, time)
        assert time.pauses == [3.0] * 4

    def test_but_not_for_long(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "busy", -1
        time = FakeTime()
        error = failure(server, time)
        assert sum(time.pauses) <= RETRY_FOR_S + 3
        assert (error.stage, error.status) == ("chat", 429)
        assert "scaling.maxInstances" in str(error)


def test_the_token_is_in_no_error(server: FakeVllm) -> None:
    server.mode = "cannot generate"
    assert "id-token" not in str(failure(server))


class TestQuestionsWithKnownAnswers:
    @pytest.fixture(autouse=True)
    def knowing(self, server: FakeVllm) -> None:
        server.says = Oracle()

    def test_are_asked_only_where_they_are_wanted(self, server: FakeVllm) -> None:
        shown: list[str] = []
        result = check(server, progress=shown)
        assert shown == [f"checking: {stage}" for stage in STAGES]
        assert "evaluation" not in result.to_dict(), "the state of those who do not use it stays as it was"

    def test_are_counted_by_kind(self, server: FakeVllm) -> None:
        shown: list[str] = []
        result = check(server, progress=shown, evaluated_as="12b")
        assert result.evaluation
        assert set(result.evaluation) == set(KINDS)
        assert all(passed == asked for passed, asked in result.evaluation.values())
        assert shown[-1] == "checking: evaluation: 60 of 60 questions answered"
        assert result.notes == ("60 of 60 questions with known answers were answered right",)
        kept = json.loads(json.dumps(result.to_dict()), parse_int=float)
        assert CheckResult.model_validate(kept).evaluation == result.evaluation

    def test_of_what_the_plan_switches_off_are_left_out(self, server: FakeVllm) -> None:
        result = check(server, evaluated_as="12b", tools=False, image=False)
        assert result.evaluation
        assert set(KINDS) - set(result.evaluation) == {"tools", "image"}
        asked = [body for body in server.sent("/v1/chat/completions") if body.get("tools")]
        assert asked == []

    def test_about_long_texts_are_bounded(self, server: FakeVllm) -> None:
        server.max_model_len = 65_536
        check(server, evaluated_as="12b", max_model_len=65_536)
        longest = max(len(str(body["messages"]).split()) for body in server.sent("/v1/chat/completions"))
        assert LONGEST_CHECKED / 2 < longest / WORDS_PER_TOKEN < LONGEST_CHECKED

    @pytest.mark.parametrize("kind", KINDS)
    def test_that_a_server_does_not_know_fail_the_check_by_name(self, server: FakeVllm, kind: str) -> None:
        server.says = Oracle(wrong={kind})
        error = failure(server, evaluated_as="12b")
        assert error.stage == "evaluation"
        assert f"below the floor: {kind} (0 of" in str(error)
        assert "I am not sure about that one." in str(error)
        assert "serving.kvCacheDtype: auto" in str(error)
        assert "gemma4 evaluate" in str(error)

    def test_are_held_to_the_floor_of_the_architecture(self, server: FakeVllm) -> None:
        server.says = Oracle(knows=lambda name: not name.startswith("image") or name in ("image-colour", "image-shape"))
        assert failure(server, evaluated_as="12b").stage == "evaluation"
        result = check(server, evaluated_as="e2b")
        assert result.evaluation
        assert result.evaluation["image"] == (2, 6)
        assert result.notes[-1].endswith("56 of 60 questions with known answers were answered right: image 2 of 6")
