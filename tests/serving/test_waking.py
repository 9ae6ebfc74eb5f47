"""A server that has scaled to zero is started by asking for it; one that is not there is not waited for."""

from __future__ import annotations

import pytest

from infra.serving.client import ServingClient
from infra.serving.readiness import POLL_S
from infra.serving.server_errors import AnswerError
from infra.serving.waking import until_awake
from tests.fakes.vllm import FakeVllm, Mode


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("mode", ["loading", "cut", "busy"])
def test_it_is_asked_until_it_answers(mode: Mode) -> None:
    clock, said = Clock(), list[str]()
    with FakeVllm() as fake:
        fake.mode, fake.refusals_left = mode, 3
        waited = until_awake(ServingClient(fake.url), progress=said.append, clock=clock, sleep=clock.sleep)
    expected = 0 if mode == "busy" else 3  # a busy one says that it is healthy
    assert (waited, len(said)) == (expected * POLL_S, expected)


def test_the_wait_has_an_end() -> None:
    clock = Clock()
    with FakeVllm() as fake:
        fake.mode, fake.refusals_left = "loading", -1
        with pytest.raises(AnswerError, match="503"):
            until_awake(ServingClient(fake.url), limit_s=60, clock=clock, sleep=clock.sleep)
    assert clock.now == pytest.approx(60, abs=2 * POLL_S)


@pytest.mark.parametrize("mode", ["forbidden"])
def test_a_refused_token_is_final(mode: Mode) -> None:
    clock = Clock()
    with FakeVllm() as fake:
        fake.mode, fake.refusals_left = mode, -1
        with pytest.raises(AnswerError):
            until_awake(ServingClient(fake.url), clock=clock, sleep=clock.sleep)
    assert clock.now == 0


def test_nobody_at_the_address_is_final() -> None:
    clock = Clock()
    with pytest.raises(AnswerError):
        until_awake(ServingClient("http://127.0.0.1:9"), clock=clock, sleep=clock.sleep)
    assert clock.now == 0
