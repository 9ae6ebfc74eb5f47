"""Fairness with a real HAProxy: how much one caller may have, who a caller is, and whose requests go first."""

from __future__ import annotations

import base64
import functools
import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.planning.gateway.chosen_routing import choose_routing
from infra.planning.gateway.fairness import RETRY_AFTER_S, UNSURE, fairness_routing
from infra.planning.settings.declarations import GatewaySettings
from tests.fakes.gateway import Gateway, until
from tests.fakes.members import PATIENCE_S, FakeMember
from tests.planning.gateway.conftest import Start, in_background, settle

CHAT = "/v1/chat/completions"
SHARE = 4
PREFERRED, USUAL = "104857600000000000000", "104857600000000000001"


def token(sub: object, **claims: object) -> str:
    """An identity token as Cloud Run passes it on, its signature taken out."""
    parts = ({"alg": "RS256"}, {"iss": "https://accounts.google.com", "sub": sub, **claims})
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return f"{head}.{body}.SIGNATURE_REMOVED_BY_GOOGLE"


def by(sub: str) -> dict[str, str]:
    """The header of a caller."""
    return {"Authorization": f"Bearer {token(sub)}"}


@pytest.fixture(scope="module")
def sharing(start: Start) -> Gateway:
    return start(routing=choose_routing(GatewaySettings(perCaller=SHARE)))


@pytest.fixture
def shared(sharing: Gateway, blue: FakeMember, green: FakeMember) -> Gateway:
    """A gateway that lets each caller have four requests in flight."""
    settle(sharing, blue, green)
    return sharing


class TestTheShareOfACaller:
    @pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", f"/members/blue{CHAT}", f"//v1{CHAT}"])
    def test_is_all_that_a_greedy_one_of_ten_gets(
        self, shared: Gateway, blue: FakeMember, green: FakeMember, path: str
    ) -> None:
        blue.gate.clear()
        green.gate.clear()
        greedy = [in_background(lambda: shared.request("POST", path, {}, by("1"))) for _ in range(20)]
        until(lambda: len(shared.log()) == 20 - SHARE)
        others = [in_background(functools.partial(shared.request, "POST", CHAT, {}, by(str(n)))) for n in range(2, 11)]
        until(lambda: blue.arrived.qsize() + green.arrived.qsize() == SHARE + len(others))
        blue.gate.set()
        green.gate.set()
        answers = [finish() for finish in greedy]
        refused = [(answer, body) for answer, body in answers if answer.status == 429]
        assert len(refused) == 20 - SHARE
        for answer, body in refused:
            assert answer.headers["Retry-After"] == str(RETRY_AFTER_S)
            assert f"{SHARE} requests in flight" in body["error"]["message"]
        assert {finish()[0].status for finish in others} == {200}

    def test_is_free_again_when_its_requests_have_ended(self, shared: Gateway) -> None:
        assert [shared.request("POST", CHAT, {}, by("1"))[0].status for _ in range(3 * SHARE)] == [200] * 3 * SHARE

    def test_counts_streams_until_they_end(self, shared: Gateway, blue: FakeMember, green: FakeMember) -> None:
        def statuses(count: int) -> list[int]:
            return [shared.request("POST", CHAT, {}, by("1"))[0].status for _ in range(count)]

        opened = [shared.open("POST", CHAT, {"stream": True}, by("1")) for _ in range(SHARE)]
        streams = [one.__enter__() for one in opened]
        assert statuses(1) == [429]
        opened[0].__exit__(None, None, None)  # a caller that leaves
        until(lambda: statuses(1) == [200])
        for one in opened[1:]:
            one.__exit__(None, None, None)
        assert len(streams) == SHARE

    def test_leaves_what_generates_nothing_alone(self, shared: Gateway, blue: FakeMember, green: FakeMember) -> None:
        blue.gate.clear()
        green.gate.clear()
        held = [in_background(lambda: shared.request("POST", CHAT, {}, by("1"))) for _ in range(SHARE)]
        until(lambda: blue.arrived.qsize() + green.arrived.qsize() == SHARE)
        assert shared.request("GET", "/v1/models", None, by("1"))[0].status == 200
        blue.gate.set()
        green.gate.set()
        assert {finish()[0].status for finish in held} == {200}


FORGED = token("9")
REAL = token("1")
WHO: dict[str, tuple[list[tuple[str, str]], str]] = {
    "its token": ([("Authorization", f"Bearer {REAL}")], "1"),
    "in small letters": ([("authorization", f"bearer {REAL}")], "1"),
    "checked before Authorization": (
        [("X-Serverless-Authorization", f"Bearer {REAL}"), ("Authorization", f"Bearer {FORGED}")],
        "1",
    ),
    "in whatever order": (
        [("Authorization", f"Bearer {FORGED}"), ("X-Serverless-Authorization", f"Bearer {REAL}")],
        "1",
    ),
    "an own key beside it": (
        [("X-Serverless-Authorization", f"Bearer {REAL}"), ("Authorization", "Bearer sk-own")],
        "1",
    ),
    "nobody": ([], UNSURE),
    "no token": ([("Authorization", "Bearer sk-own")], UNSURE),
    "another scheme": ([("Authorization", f"Basic {FORGED}")], UNSURE),
    "a scheme that Cloud Run may pass over": (
        [("X-Serverless-Authorization", f"Basic {FORGED}"), ("Authorization", f"Bearer {REAL}")],
        UNSURE,
    ),
    "twice": ([("Authorization", f"Bearer {REAL}"), ("Authorization", f"Bearer {FORGED}")], UNSURE),
    "twice before Authorization": (
        [("X-Serverless-Authorization", f"Bearer {REAL}"), ("X-Serverless-Authorization", f"Bearer {FORGED}")],
        UNSURE,
    ),
    "two in one": ([("Authorization", f"Bearer {REAL}, Bearer {FORGED}")], UNSURE),
    "no sub": ([("Authorization", f"Bearer {token(None)}")], UNSURE),
    "longer than what is counted by": ([("Authorization", f"Bearer {token('1' * 65)}")], UNSURE),
}


class TestWhoACallerIs:
    @pytest.mark.parametrize("case", WHO)
    def test_is_what_cloud_run_has_checked(self, shared: Gateway, case: str) -> None:
        headers, caller = WHO[case]
        connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=PATIENCE_S)
        connection.putrequest("POST", CHAT)
        for name, value in [*headers, ("Content-Length", "2")]:
            connection.putheader(name, value)
        connection.endheaders(b"{}")
        connection.getresponse().read()
        connection.close()
        until(shared.log)
        assert [line["caller"] for line in shared.log()] == [caller]

    def test_reaches_no_member(self, shared: Gateway, blue: FakeMember, green: FakeMember) -> None:
        shared.request("POST", CHAT, {}, {**by("1"), "X-Serverless-Authorization": f"Bearer {REAL}"})
        (seen,) = (*blue.seen, *green.seen)
        assert not [name for name in seen if "authorization" in name]

    def test_is_logged_only_where_it_matters(self, gateway: Gateway) -> None:
        gateway.request("POST", CHAT, {}, by("1"))
        until(gateway.log)
        assert "caller" not in gateway.log()[0]


Queue = Callable[[str, str], Callable[[], Any]]


@pytest.fixture(scope="module")
def preferring(start: Start) -> Gateway:
    settings = GatewaySettings(perServer=1, priority=(PREFERRED,), queueTimeout="60s")
    return start(["blue-a"], routing=choose_routing(settings))


@pytest.fixture
def queue(preferring: Gateway, blue: FakeMember) -> Queue:
    """Sends a request of a caller to a gateway whose one member is busy with the first, and comes back when it waits."""
    settle(preferring, blue)
    sent: list[str] = []

    def send(caller: str, target: str) -> Callable[[], Any]:
        finish = in_background(lambda: preferring.request("POST", target, {"stream": True}, by(caller)))
        sent.append(target)
        until(lambda: blue.arrived.qsize() + queued(preferring) == len(sent))
        return finish

    return send


class TestPriority:
    def test_lets_the_preferred_wait_less_and_all_get_their_answers(self, blue: FakeMember, queue: Queue) -> None:
        callers = [USUAL] * 6 + [PREFERRED] * 2 + [USUAL] + [PREFERRED]
        sent = [queue(caller, f"{CHAT}?n={number}") for number, caller in enumerate(callers)]
        blue.chunk.release(6 * len(sent))  # six events each
        assert {finish()[0].status for finish in sent} == {200}
        order = [int(blue.arrived.get(timeout=PATIENCE_S).rpartition("=")[2]) for _ in sent]
        # The first was at work already; the preferred are next, each kind in the order in which it came.
        assert order == [0, 6, 7, 9, 1, 2, 3, 4, 5, 8]

    def test_overtakes_nothing_that_came_longer_ago_than_half_of_the_longest_wait(self) -> None:
        for longest, ahead_ms in (("10s", 5000), ("30s", 15_000), ("15m", 450_000)):
            settings = GatewaySettings(perServer=1, priority=(PREFERRED,), queueTimeout=longest)
            (line,) = (line for line in fairness_routing(settings).frontend if "priority" in line)
            assert f"set-priority-offset int(-{ahead_ms}) " in line

    def test_leaves_nobody_waiting_for_longer_than_the_bound(
        self, start: Start, blue: FakeMember, green: FakeMember
    ) -> None:
        settings = GatewaySettings(perServer=1, priority=(PREFERRED,), queueTimeout="1s")
        gateway = start(["blue-a"], routing=choose_routing(settings))
        settle(gateway, blue)
        blue.gate.clear()
        at_work = in_background(lambda: gateway.request("POST", CHAT, {}, by(PREFERRED)))
        blue.arrived.get(timeout=PATIENCE_S)
        answer, body = gateway.request("POST", CHAT, {}, by(USUAL))
        assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
        assert body["error"]["type"] == "ServiceUnavailableError"
        blue.gate.set()
        assert at_work()[0].status == 200
        assert [line["waitMs"] >= 1000 for line in gateway.log() if line["httpRequest"]["status"] == 503] == [True]

    def test_holds_no_more_than_what_is_let_in(self, start: Start, blue: FakeMember, green: FakeMember) -> None:
        gateway = start(["blue-a"], requests_each=3, routing=choose_routing(GatewaySettings(perServer=1)))
        settle(gateway, blue)
        blue.gate.clear()
        held = [in_background(lambda: gateway.request("POST", CHAT, {})) for _ in range(3)]
        until(lambda: blue.arrived.qsize() + queued(gateway) == 3)
        assert blue.arrived.qsize() == 1
        answer, _ = gateway.request("POST", CHAT, {})
        assert (answer.status, answer.headers["Retry-After"]) == (429, "5")
        blue.gate.set()
        assert {finish()[0].status for finish in held} == {200}


def queued(gateway: Gateway) -> int:
    """Requests that wait at the gateway for a member."""
    _, text = gateway.request("GET", "/gateway/metrics")
    lines = [line for line in text.decode().splitlines() if line.startswith("haproxy_backend_current_queue")]
    servers = [line for line in text.decode().splitlines() if line.startswith("haproxy_server_current_queue")]
    return sum(int(float(line.rpartition(" ")[2])) for line in (*lines, *servers) if 'proxy="members"' in line)
