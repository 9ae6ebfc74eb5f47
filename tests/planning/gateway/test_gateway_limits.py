"""What a real HAProxy refuses, and what it balances by."""

from __future__ import annotations

import pytest

from infra.planning.gateway.haproxy import ALIVE_PATH, MOST_BODY_BYTES
from infra.planning.gateway.members import gateway_members
from tests.fakes.gateway import Gateway, until
from tests.fakes.members import PATIENCE_S, FakeMember
from tests.planning.gateway.conftest import Start, in_background, settle

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def narrow(start: Start) -> Gateway:
    """A gateway that lets in two requests for each member that is ready."""
    return start(requests_each=2)


class TestRoom:
    @pytest.mark.parametrize(("ready", "room"), [(2, 4), (1, 2)])
    def test_is_what_the_ready_members_hold_and_the_next_request_is_told_to_come_back(
        self, narrow: Gateway, blue: FakeMember, green: FakeMember, ready: int, room: int
    ) -> None:
        settle(narrow, blue, green)
        if ready == 1:
            green.ready = False
            until(lambda: narrow.status("/members/green/health") == 503)
        blue.gate.clear()
        green.gate.clear()
        waiting = [in_background(lambda: narrow.request("POST", CHAT, {})) for _ in range(room)]
        for _ in range(room // ready):
            for member in (blue, green)[:ready]:
                member.arrived.get(timeout=PATIENCE_S)
        answer, body = narrow.request("POST", CHAT, {})
        assert (answer.status, answer.headers["Retry-After"]) == (429, "5")
        assert body["error"]["type"] == "RateLimitError"
        assert narrow.status("/members/blue/v1/models") == 200  # a name has room of its own, as much as its members
        assert narrow.status(ALIVE_PATH) == 200
        blue.gate.set()
        green.gate.set()
        assert [finish()[0].status for finish in waiting] == [200] * room
        until(lambda: narrow.status(CHAT, "POST") == 200)

    def test_of_a_name_is_bounded_too(self, narrow: Gateway, blue: FakeMember, green: FakeMember) -> None:
        settle(narrow, blue, green)
        blue.gate.clear()
        waiting = [in_background(lambda: narrow.request("POST", f"/members/blue{CHAT}", {})) for _ in range(2)]
        for _ in waiting:
            blue.arrived.get(timeout=PATIENCE_S)
        assert narrow.status(f"/members/blue{CHAT}", "POST") == 429
        blue.gate.set()
        assert [finish()[0].status for finish in waiting] == [200, 200]

    def test_the_member_with_the_fewest_requests_gets_the_next(self, gateway: Gateway) -> None:
        with gateway.open("POST", CHAT, {"stream": True}) as stream:
            busy = stream.headers["X-Member"]
            answers = [gateway.request("POST", CHAT, {})[1]["member"] for _ in range(6)]
            assert len(answers) == 6
            assert busy not in answers


class TestBodies:
    @pytest.mark.parametrize("path", [CHAT, f"/members/blue{CHAT}"])
    def test_one_over_32_mib_is_refused_in_json(self, gateway: Gateway, path: str) -> None:
        answer, body = gateway.request("POST", path, None, {"Content-Length": str(MOST_BODY_BYTES + 1)})
        assert (answer.status, body["error"]["code"]) == (413, 413)
        assert gateway.request("POST", path, b"x" * MOST_BODY_BYTES)[0].status == 200

    def test_no_caller_is_left_with_a_connection_whose_body_was_not_read(self, gateway: Gateway) -> None:
        headers = {"Content-Length": "1000"}  # and no body: what is decided before it comes
        for path, status in (("/members/x/v1", 404), (f"/members/red{CHAT}", 503)):
            answer = gateway.request("POST", path, None, headers)[0]
            assert (answer.status, answer.headers["Connection"]) == (status, "close")


def test_every_server_of_a_machine_is_a_member_of_its_own(blue: FakeMember) -> None:
    """One whose port is closed takes nothing from the others of its machine."""
    blue.start()
    members = gateway_members([], ports=[blue.port, blue.port + 1], turns=())
    blue.answers_for = "blue-0"
    gateway = Gateway(members, {"blue": blue.address}, blue.ready_port)
    try:
        until(lambda: gateway.status("/members/blue-0/v1/models") == 200)
        until(lambda: gateway.status("/members/blue-1/v1/models") == 503)
        assert [gateway.status("/v1/models") for _ in range(6)] == [200] * 6
        assert gateway.request("GET", "/v1/models")[0].headers["X-Member"] == "blue-0"
    finally:
        gateway.close()
