"""The supervisor as a process of its own: servers that do not start, fail, are loaded, or hang."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fakes.docker import Behaviour, _Vllm
from tests.fakes.tpu_machine import TpuMachine


@contextmanager
def generating_for_others(tpu: TpuMachine) -> Iterator[None]:
    """Have the server generate tokens that nobody else asked for."""
    over = threading.Event()

    def generate() -> None:
        while not over.wait(0.005):
            if tpu.machine.docker.container:
                tpu.machine.docker.container.tokens += 1

    thread = threading.Thread(target=generate, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


class TestAContainerThatDoesNotComeUp:
    @pytest.mark.parametrize(
        ("behaviour", "word"),
        [
            (Behaviour(dies_with=1, last_output="ValueError: head_dim 512"), "head_dim 512"),
            (Behaviour(dies_with=137), "out of memory"),
            (Behaviour(generates=False), "EngineCore encountered an issue"),
        ],
        ids=["crashes", "out of memory", "healthy but cannot generate"],
    )
    def test_a_container_that_does_not_come_up_gives_way_to_the_last_good_one(
        self, serving: TpuMachine, behaviour: Behaviour, word: str
    ) -> None:
        serving.machine.docker.behaviours["spec-b"] = behaviour
        serving.want("spec-b")
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        tries = serving.machine.actions.count("run spec-b")
        assert tries == 3
        assert serving.taken == [True, False, True]  # spec-b never was
        assert word in json.dumps(serving.said("trouble"))
        assert "spec-a comes back" in serving.errors["rejected"]
        assert serving.status["wanted"] == "spec-b"

    def test_a_container_that_does_not_come_up_within_its_time_is_given_up_at_once(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").healthy = False
        serving.want("spec-b", readyTimeoutSeconds=0.2)
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        assert serving.machine.actions.count("run spec-b") == 1

    def test_a_container_that_does_not_come_up_is_not_tried_again_until_the_attribute_changes(
        self, serving: TpuMachine
    ) -> None:
        serving.machine.docker.behaviour("spec-b").dies_with = 1
        serving.want("spec-b")
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        serving.restart()
        serving.until(lambda: len(serving.said("wanted")) == 3, "the same specification again")
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        assert serving.machine.actions.count("run spec-b") == 3
        serving.machine.docker.behaviour("spec-b").dies_with = None
        serving.serve("spec-b", generation="2")
        assert not serving.errors

    def test_a_container_that_does_not_come_up_with_nothing_to_go_back_to_is_tried_on_and_on(
        self, tpu: TpuMachine
    ) -> None:
        tpu.machine.docker.behaviour("spec-a").dies_with = 1
        tpu.want("spec-a")
        tpu.start()
        tpu.until(lambda: tpu.machine.actions.count("run spec-a") >= 5, "five tries")
        assert not tpu.taken
        assert "start" in tpu.errors
        tpu.machine.docker.behaviour("spec-a").dies_with = None
        tpu.until_serving("spec-a")
        assert not tpu.errors

    def test_a_container_that_does_not_come_up_waits_longer_from_try_to_try(self, tpu: TpuMachine) -> None:
        tpu.configure(RESTART_S="0.1", RESTART_CAP_S="0.4")
        tpu.machine.docker.behaviour("spec-a").dies_with = 1
        tpu.want("spec-a")
        tpu.start()
        begun: list[float] = []
        while len(begun) < 4:
            tpu.until(lambda: tpu.machine.actions.count("run spec-a") > len(begun), "the next try")
            begun.append(time.monotonic())
        waits = [later - earlier for earlier, later in itertools.pairwise(begun)]
        assert [wait >= floor for wait, floor in zip(waits, (0.1, 0.2, 0.4), strict=True)] == [True] * 3


class TestAServerThatFails:
    def test_a_server_that_fails_is_out_of_reach_until_it_generates_again(self, serving: TpuMachine) -> None:
        before = serving.container.id
        serving.machine.docker.behaviour("spec-a").generates = False
        serving.until_refused()
        serving.until_trouble("serving")
        serving.until(lambda: serving.status["stage"] == "unhealthy", "the status to say so")
        serving.machine.docker.behaviour("spec-a").generates = True
        serving.until_serving("spec-a")
        assert serving.container.id == before
        assert not serving.errors

    def test_a_server_that_fails_is_out_of_reach_also_while_an_old_answer_goes_on(self, serving: TpuMachine) -> None:
        with generating_for_others(serving):
            serving.machine.docker.behaviour("spec-a").generates = False
            serving.until_refused()
            asked = serving.container.questions
            serving.until(lambda: serving.container.questions >= asked + 8, "more questions")
        assert serving.taken == [True, False]  # and not True in between, for the old answer's sake

    def test_a_server_is_asked_for_the_model_that_is_wanted_now(self, serving: TpuMachine) -> None:
        before = serving.container.id
        serving.want("spec-a", model="google/gemma-4-tiny")
        serving.until(lambda: "google/gemma-4-tiny" in serving.container.asked, "a question with the other name")
        assert serving.container.id == before

    def test_a_server_that_fails_for_long_is_restarted(self, tpu: TpuMachine) -> None:
        tpu.configure(UNHEALTHY_S="0.2")
        tpu.serve("spec-a")
        before, tpu.container.behaviour = tpu.container.id, Behaviour(generates=False)
        tpu.until(lambda: tpu.machine.docker.container and tpu.container.id != before, "a new container")
        tpu.until_serving("spec-a")

    def test_a_server_that_died_is_missed_long_before_it_would_be_asked_again(self, tpu: TpuMachine) -> None:
        tpu.configure(PROBE_S="600")
        tpu.serve("spec-a")
        tpu.container.end(137)
        tpu.until(lambda: tpu.taken[1:] == [False, True], "the end to be seen, and another container")

    def test_a_server_that_died_is_started_again_without_help(self, serving: TpuMachine) -> None:
        serving.metadata.away = "silent"
        serving.google.fault("GET", "/", status=503, times=10_000)
        serving.machine.docker.refusals |= {"login": "no", "pull": "no"}
        serving.container.end(139)
        serving.until_serving("spec-a")
        assert "exit code 139" in json.dumps(serving.said("trouble"))


class TestLoadIsNotFailure:
    """A server that generates for somebody keeps its callers and its container, however slowly it answers us."""

    @pytest.fixture
    def loaded(self, tpu: TpuMachine) -> Iterator[TpuMachine]:
        """Serves spec-b, which has not proven itself, after spec-a, which has; patience is short."""
        tpu.configure(GENERATION_TIMEOUT_S="0.2", UNHEALTHY_S="2", STABLE_S="60")
        tpu.serve("spec-a")
        tpu.serve("spec-b")
        tpu.machine.actions.clear()
        with generating_for_others(tpu):
            yield tpu

    @pytest.mark.parametrize(
        "behaviour",
        [Behaviour(slow_s=0.3), Behaviour(silent=True), Behaviour(busy=True)],
        ids=[
            "every answer comes late",
            "our question stands at the end of the queue",
            "our question is never answered",
        ],
    )
    def test_load_is_not_failure_of_a_server_that_generates_for_others(
        self, loaded: TpuMachine, behaviour: Behaviour
    ) -> None:
        before, loaded.container.behaviour = loaded.container, behaviour
        looks = before.requests.count("/metrics")
        loaded.until(lambda: before.requests.count("/metrics") >= looks + 8, "some looks")
        assert loaded.machine.actions == []
        assert loaded.container is before
        assert loaded.status["stage"] == "serving"
        assert loaded.status["failures"] == 0
        assert not loaded.said("stop")
        assert "rejected" not in loaded.errors

    def test_load_is_not_failure_of_a_server_whose_health_is_slow_alone(
        self, loaded: TpuMachine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = _Vllm.do_GET

        def late(handler: _Vllm) -> None:
            if handler.path == "/health":
                time.sleep(0.3)
            answer(handler)

        monkeypatch.setattr(_Vllm, "do_GET", late)
        looks = loaded.container.requests.count("/metrics")
        loaded.until(lambda: loaded.container.requests.count("/metrics") >= looks + 12, "some looks")
        assert loaded.machine.actions == []
        assert not loaded.errors

    def test_load_is_not_failure_of_an_idle_server_that_answers_late(self, serving: TpuMachine) -> None:
        serving.container.behaviour.slow_s = 0.12  # longer than the time between two looks
        asked = serving.container.questions
        serving.until(lambda: serving.container.questions >= asked + 2, "some questions")
        assert serving.machine.actions == []
        assert not serving.errors


class TestAServerThatHangs:
    """It listens and generates nothing for anybody, while a request waits: ours."""

    @pytest.mark.parametrize(
        "behaviour",
        [Behaviour(silent=True), Behaviour(deaf=True)],
        ids=["healthy but cannot generate", "its event loop stands still"],
    )
    def test_a_server_that_hangs_is_started_afresh_in_time_and_takes_requests_until_then(
        self, tpu: TpuMachine, behaviour: Behaviour
    ) -> None:
        tpu.configure(GENERATION_TIMEOUT_S="0.3", UNHEALTHY_S="0.4")
        tpu.serve("spec-a")
        tpu.machine.actions.clear()
        hung = tpu.container
        hung.behaviour, begin = behaviour, len(hung.requests)
        tpu.until_trouble("serving", "It goes on taking requests")
        tpu.until(lambda: "run spec-a" in tpu.machine.actions, "a new container")
        tpu.until_serving("spec-a")
        assert tpu.machine.actions[:2] == ["stop", "run spec-a"]
        assert "generated nothing for" in json.dumps(tpu.said("trouble"))
        assert len(hung.requests) - begin < 15  # one question at a time, and each stands for long
