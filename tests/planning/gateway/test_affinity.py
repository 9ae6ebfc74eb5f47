"""Affinity with a real HAProxy before four members: where requests go that belong together, and all others."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from infra.planning.gateway.affinity import LOAD_FACTOR_PERCENT, Affinity
from infra.planning.gateway.chosen_routing import choose_routing
from infra.planning.gateway.members import GatewayMember
from infra.planning.settings.declarations import GatewaySettings
from scripts.simulate_affinity import LeastConnections, Ring
from tests.fakes.gateway import Gateway, missing, until
from tests.fakes.members import PATIENCE_S, FakeMember, members_called
from tests.planning.gateway.conftest import in_background

CHAT = "/v1/chat/completions"
NAMES = ("one", "two", "three", "four")
Say = Callable[[int], tuple[dict[str, Any], dict[str, str]]]
"""Body and headers of a request of that conversation."""


def chat(*texts: Any, instructions: str = "") -> dict[str, Any]:
    """A request with these messages, of a user and an assistant in turn."""
    said = [{"role": role, "content": text} for role, text in zip(itertools.cycle(("user", "assistant")), texts)]
    return {
        "model": "gemma",
        "messages": [{"role": "system", "content": instructions}, *said] if instructions else said,
    }


@pytest.fixture(scope="module")
def machines() -> Iterator[Sequence[FakeMember]]:
    if missing():
        pytest.skip(missing())
    with members_called(*NAMES) as members:
        yield members


@pytest.fixture(scope="module")
def gateways(machines: Sequence[FakeMember]) -> Iterator[Callable[[Affinity], Gateway]]:
    """A gateway for each affinity, started when it is first asked for."""
    started: dict[Affinity, Gateway] = {}
    with ExitStack() as ends:

        def start(affinity: Affinity) -> Gateway:
            if affinity not in started:
                started[affinity] = gateway = Gateway(
                    [GatewayMember(one.name, one.name, one.name, one.port) for one in machines],
                    {one.name: one.address for one in machines},
                    machines[0].ready_port,
                    routing=choose_routing(GatewaySettings(affinity=affinity)),
                )
                ends.callback(gateway.close)
            return started[affinity]

        yield start


@pytest.fixture(params=["prefix"])
def gateway(
    request: pytest.FixtureRequest, gateways: Callable[[Affinity], Gateway], machines: Sequence[FakeMember]
) -> Gateway:
    """Before four members that are idle and ready."""
    for machine in machines:
        machine.start()
    found: Gateway = gateways(request.param)
    for name in NAMES:
        until(functools.partial(is_known, found, name))
    for machine in machines:
        machine.start()
    return found


def is_known(gateway: Gateway, name: str) -> bool:
    return gateway.status(f"/members/{name}/health") == 200


def with_affinity(affinity: Affinity) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("gateway", [affinity], indirect=True)


def asked(gateway: Gateway, body: Any, headers: dict[str, str] | None = None) -> str:
    """The member that answered."""
    answer, _ = gateway.request("POST", CHAT, body, headers)
    assert answer.status == 200
    return str(answer.headers["X-Member"])


CONVERSATIONS: dict[str, Say] = {
    "header": lambda n: (chat("hello"), {"X-Session-Id": f"session {n}"}),
    "cache key": lambda n: ({**chat("hello"), "prompt_cache_key": f"user-{n}"}, {}),
    "first message": lambda n: (chat(f"question {n}"), {}),
    "parts": lambda n: (chat([{"type": "text", "text": f"question {n}"}]), {}),
    "after instructions": lambda n: (chat(f"question {n}", instructions="Be brief."), {}),
    "longer than a buffer": lambda n: (chat(f"question {n} " + 300_000 * "x"), {}),
}


class TestAConversation:
    @pytest.mark.parametrize("kind", CONVERSATIONS)
    def test_stays_with_one_member_and_others_are_with_others(self, gateway: Gateway, kind: str) -> None:
        members = [{asked(gateway, *CONVERSATIONS[kind](number)) for _ in range(3)} for number in range(16)]
        assert {len(one) for one in members} == {1}
        assert len(set.union(*members)) > 1

    @pytest.mark.parametrize("instructions", ["", "Be brief."], ids=["plain", "instructed"])
    def test_stays_while_it_grows(self, gateway: Gateway, instructions: str) -> None:
        for number in range(12):
            said = [text for turn in range(4) for text in (f"question {number}, {turn}", f"answer {turn}")]
            grown = [chat(*said[:length], instructions=instructions) for length in (1, 3, 5, 7)]
            assert len({asked(gateway, body) for body in grown}) == 1

    def test_is_known_by_its_header_before_its_body(self, gateway: Gateway) -> None:
        keys = [f"session {number}" for number in range(12)]
        members = [asked(gateway, chat("hello"), {"X-Session-Id": key}) for key in keys]
        others = [
            asked(gateway, {**chat(f"{key}?"), "prompt_cache_key": key[::-1]}, {"X-Session-Id": key}) for key in keys
        ]
        assert members == others

    @with_affinity("session")
    def test_is_not_known_by_its_messages_where_only_sessions_count(self, gateway: Gateway) -> None:
        assert len({asked(gateway, chat("hello")) for _ in range(40)}) == len(NAMES)
        for kind in ("header", "cache key"):
            assert len({asked(gateway, *CONVERSATIONS[kind](1)) for _ in range(6)}) == 1

    def test_goes_where_its_path_says_whatever_its_key(self, gateway: Gateway) -> None:
        for name in NAMES:
            answer, _ = gateway.request("POST", f"/members/{name}{CHAT}", chat("hello"), {"X-Session-Id": "one"})
            assert answer.headers["X-Member"] == name


class TestARequestWithoutAKey:
    @pytest.mark.parametrize(
        "body",
        [b"", b"no JSON", b"[]", {"messages": []}, {"prompt": "hello"}, {"prompt_cache_key": None}, chat(None)],
        ids=["empty", "text", "list", "no message", "prompt", "null", "null content"],
    )
    def test_goes_to_every_member_in_time(self, gateway: Gateway, body: Any) -> None:
        assert len({asked(gateway, body) for _ in range(40)}) == len(NAMES)

    def test_has_a_header_that_is_empty_or_too_long_to_be_one(self, gateway: Gateway) -> None:
        for key in ("", "x" * 257):
            assert len({asked(gateway, {}, {"X-Session-Id": key}) for _ in range(40)}) == len(NAMES)


class TestTheRing:
    def test_is_the_one_that_the_simulation_computes(self, gateway: Gateway) -> None:
        ring, keys = Ring(len(NAMES)), [f"session {number}" for number in range(150)]
        assert [asked(gateway, {}, {"X-Session-Id": key}) for key in keys] == [
            NAMES[ring.choose(key, [0] * len(NAMES))] for key in keys
        ]

    def test_passes_on_as_the_simulation_does_what_is_in_great_demand(
        self, gateway: Gateway, machines: Sequence[FakeMember]
    ) -> None:
        for machine in machines:
            machine.gate.clear()
        ring, in_flight, waiting = Ring(len(NAMES)), [0] * len(NAMES), []
        for number in range(1, 31):
            waiting.append(in_background(lambda: gateway.request("POST", CHAT, {}, {"X-Session-Id": "in demand"})))
            expected = ring.choose("in demand", in_flight)
            machines[expected].arrived.get(timeout=PATIENCE_S)
            in_flight[expected] += 1
            assert max(in_flight) <= math.ceil(number * LOAD_FACTOR_PERCENT / 100 / len(NAMES))
        assert sum(count > 0 for count in in_flight) > 1
        for machine in machines:
            machine.gate.set()
        answers = [finish()[0].headers["X-Member"] for finish in waiting]
        assert Counter(answers) == {name: count for name, count in zip(NAMES, in_flight, strict=True) if count}

    def test_moves_only_the_keys_of_a_member_that_drains_and_gives_them_back(
        self, gateway: Gateway, machines: Sequence[FakeMember]
    ) -> None:
        keys = [f"session {number}" for number in range(60)]

        def spread() -> list[str]:
            return [asked(gateway, {}, {"X-Session-Id": key}) for key in keys]

        before = spread()
        machines[0].ready = False
        until(lambda: gateway.status(f"/members/{NAMES[0]}/health") == 503)
        without = spread()
        assert NAMES[0] in before
        assert NAMES[0] not in without
        assert [now for was, now in zip(before, without, strict=True) if was != NAMES[0]] == [
            was for was in before if was != NAMES[0]
        ]
        machines[0].ready = True
        until(lambda: gateway.status(f"/members/{NAMES[0]}/health") == 200)
        assert spread() == before


class TestWhatIsRead:
    @pytest.mark.parametrize("size", [1000, 8_000, 16_000, 20_000, 33_000, 270_000, 3_000_000])
    def test_arrives_whole(self, gateway: Gateway, machines: Sequence[FakeMember], size: int) -> None:
        text = bytes(32 + number * 7 % 90 for number in range(size)).replace(b'"', b"q").replace(b"\\", b"b").decode()
        body = json.dumps(chat("first", "x", text)).encode()
        name = asked(gateway, body)
        (member,) = (one for one in machines if one.name == name)
        arrived = b""
        while len(arrived) < len(body):
            arrived += member.received.get(timeout=PATIENCE_S)
        assert arrived == body

    def test_delays_no_event_of_a_stream(self, gateway: Gateway, machines: Sequence[FakeMember]) -> None:
        with gateway.open("POST", CHAT, {**chat("hello"), "stream": True}) as answer:
            (member,) = (one for one in machines if one.name == answer.headers["X-Member"])
            for number in range(5):
                member.chunk.release()
                assert (answer.readline(), answer.readline()) == (f"data: {number}\n".encode(), b"\n")
            member.chunk.release()
            assert answer.read() == b"data: [DONE]\n\n"


class TestWithoutAffinity:
    @with_affinity("none")
    def test_the_least_busy_member_is_next_whatever_the_key(
        self, gateway: Gateway, machines: Sequence[FakeMember]
    ) -> None:
        for machine in machines:
            machine.gate.clear()
        router, in_flight, waiting = LeastConnections(len(NAMES)), [0] * len(NAMES), []
        body, headers = CONVERSATIONS["header"](1)
        for _ in range(12):
            waiting.append(in_background(lambda: gateway.request("POST", CHAT, body, headers)))
            in_flight[router.choose("", in_flight)] += 1
            until(lambda: sum(one.arrived.qsize() for one in machines) == sum(in_flight))
            assert sorted(one.arrived.qsize() for one in machines) == sorted(in_flight)
        for machine in machines:
            machine.gate.set()
        assert {finish()[0].status for finish in waiting} == {200}
