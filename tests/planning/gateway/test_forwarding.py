"""What a real HAProxy does with requests to members that are ready: where they go, and how they arrive."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.fakes.gateway import Gateway, until
from tests.fakes.members import PATIENCE_S, FakeMember
from tests.planning.gateway.conftest import BLUE, GREEN, in_background

CHAT = "/v1/chat/completions"


class TestAStreamLeavesAsItComes:
    @pytest.mark.parametrize("prefix", ["", "/members/blue", "/slices/blue-a"], ids=["balanced", "group", "by name"])
    def test_each_event_arrives_before_the_next_one_is_sent(
        self, alone: Gateway, blue: FakeMember, prefix: str
    ) -> None:
        with alone.open("POST", prefix + CHAT, {"stream": True}) as answer:
            events = []
            for _ in range(6):
                blue.chunk.release()
                events.append(answer.readline().strip())
                assert answer.readline() == b"\n"
            assert events == [*(f"data: {n}".encode() for n in range(5)), b"data: [DONE]"]
            assert answer.read() == b""

    def test_two_streams_do_not_wait_for_each_other(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember
    ) -> None:
        with (
            gateway.open("POST", f"/members/blue{CHAT}", {"stream": True}) as first,
            gateway.open("POST", f"/members/green{CHAT}", {"stream": True}) as second,
        ):
            for number in range(5):
                for server, answer in ((green, second), (blue, first)):
                    server.chunk.release()
                    assert (answer.readline(), answer.readline()) == (f"data: {number}\n".encode(), b"\n")

    def test_a_request_body_reaches_the_member_before_it_is_complete(self, alone: Gateway, blue: FakeMember) -> None:
        def halves() -> Iterator[bytes]:
            yield b"a" * 1000
            assert blue.received.get(timeout=PATIENCE_S) == b"a" * 1000
            yield b"b" * 1000

        with alone.open("POST", CHAT, halves(), {"Content-Length": "2000"}) as answer:
            assert answer.status == 200

    def test_a_stream_that_was_cut_does_not_look_complete(self, alone: Gateway, blue: FakeMember) -> None:
        with alone.open("POST", CHAT, {"stream": True}) as answer:
            blue.chunk.release()
            assert answer.readline() == b"data: 0\n"
            blue.kill()
            with pytest.raises(http.client.IncompleteRead):
                answer.read()

    def test_a_caller_that_leaves_ends_the_stream_at_the_member(self, alone: Gateway, blue: FakeMember) -> None:
        with alone.open("POST", CHAT, {"stream": True}) as answer:
            blue.chunk.release()
            answer.readline()
            assert not alone.log()
        until(alone.log)  # the member sends nothing more: only the caller's leaving can have ended the request
        blue.chunk.release(4)
        assert blue.left.wait(PATIENCE_S)

    def test_a_caller_that_leaves_before_the_answer_ends_the_request(self, alone: Gateway, blue: FakeMember) -> None:
        blue.gate.clear()
        connection = http.client.HTTPConnection("127.0.0.1", alone.port)
        connection.request("POST", CHAT, b"{}")
        blue.arrived.get(timeout=PATIENCE_S)
        connection.close()
        until(alone.log, within_s=PATIENCE_S / 2)  # the member is still silent, and stays so for PATIENCE_S


class TestNothingThatWasSentIsSentAgain:
    def test_a_request_at_work_is_not_repeated_elsewhere(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember
    ) -> None:
        blue.gate.clear()
        green.gate.clear()
        finish = in_background(lambda: gateway.request("POST", CHAT, {}))
        until(lambda: blue.seen or green.seen)
        busy, other = (blue, green) if blue.seen else (green, blue)
        busy.kill()
        answer, body = finish()
        assert (answer.status, answer.headers["Retry-After"], answer.headers["X-Member"]) == (502, "1", busy.name)
        assert body["error"]["code"] == 502
        assert other.seen == []

    def test_kill_under_load_fails_only_what_the_member_was_answering(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember
    ) -> None:
        blue.gate.clear()
        green.gate.clear()
        load = [in_background(lambda: gateway.request("POST", CHAT, {})) for _ in range(12)]
        until(lambda: len(blue.seen) + len(green.seen) == 12)
        answering = len(blue.seen)
        assert answering == 6
        blue.kill()
        later = [in_background(lambda: gateway.request("POST", CHAT, {})) for _ in range(12)]
        green.gate.set()
        assert sorted(finish()[0].status for finish in load) == [200] * 6 + [502] * answering
        assert [finish()[0].status for finish in later] == [200] * 12

    def test_a_member_that_refuses_connections_costs_nobody_a_request(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember
    ) -> None:
        blue.kill()
        answers = [gateway.request("POST", CHAT, {}) for _ in range(40)]
        assert [(answer.status, body) for answer, body in answers] == [(200, {"member": GREEN})] * 40

    def test_a_member_that_answers_before_the_body_is_whole_is_not_taken_for_dead(self, gateway: Gateway) -> None:
        """vLLM answers a POST to a path that it does not know at once, and resets the rest of a large body."""
        for _ in range(6):
            with suppress(OSError, http.client.HTTPException):  # what becomes of the caller is the network's choice
                gateway.request("POST", "/chat/completions", b"x" * 4_000_000)
        until(lambda: len(gateway.log()) == 6)
        assert [gateway.status("/v1/models") for _ in range(20)] == [200] * 20

    def test_no_request_depends_on_a_connection_that_a_member_may_have_closed(
        self, alone: Gateway, blue: FakeMember
    ) -> None:
        before = blue.connections
        for path in (CHAT, CHAT, f"/members/blue{CHAT}", f"/members/blue{CHAT}"):
            assert alone.status(path, "POST") == 200
        assert [seen["connection"] for seen in blue.seen] == ["close"] * 4
        assert blue.connections == before + 4


class TestAMemberIsReachedByItsName:
    def test_a_group_and_each_of_its_members_by_both_paths(self, gateway: Gateway, green: FakeMember) -> None:
        for prefix in ("members", "slices"):
            for name in ("blue", BLUE):
                assert gateway.request("GET", f"/{prefix}/{name}/v1/models")[1]["data"] == [{"id": BLUE}]
        assert green.seen == []

    def test_nobody_else_ever_answers_for_it(self, gateway: Gateway, blue: FakeMember, green: FakeMember) -> None:
        blue.kill()
        for name in ("blue", BLUE, "blue-b", "red"):
            answer, body = gateway.request("GET", f"/members/{name}/v1/models")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
            assert body["error"]["type"] == "ServiceUnavailableError"
        assert green.seen == []

    @pytest.mark.parametrize(
        ("asked", "got"),
        [
            ("/metrics", "/metrics"),
            ("/v1/a%20b?q=a%20b&r=%2F", "/v1/a%20b?q=a%20b&r=%2F"),
            ("/", "/"),
            ("", "/"),
            ("?q=1", "/?q=1"),
        ],
    )
    def test_path_and_query_arrive_unharmed(self, gateway: Gateway, asked: str, got: str) -> None:
        assert gateway.request("GET", f"/members/blue{asked}")[1]["target"] == got

    @pytest.mark.parametrize("asked", ["/members/blue/x%0d%0aX-Evil:%201", "/x%0d%0aX-Evil:%201"])
    def test_an_encoded_line_end_stays_encoded(self, alone: Gateway, blue: FakeMember, asked: str) -> None:
        alone.request("GET", asked)
        assert "x-evil" not in blue.seen[0]
        assert blue.seen[0][":target"].lower() == "/x%0d%0ax-evil:%201"

    @pytest.mark.parametrize(
        "path", ["/members/purple/v1/models", "/members/", "/slices/bluegreen/health", "/members//v1", "/gateway/up"]
    )
    def test_an_unknown_name_is_not_found(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember, path: str
    ) -> None:
        answer, body = gateway.request("GET", path)
        assert (answer.status, body["error"]["code"]) == (404, 404)
        assert blue.seen == green.seen == []

    def test_the_answer_says_which_member_gave_it(self, gateway: Gateway) -> None:
        for _ in range(4):
            answer, body = gateway.request("GET", "/v1/models")
            assert answer.headers["X-Member"] == body["data"][0]["id"]


class TestWhatAnswersPassesOn:
    def test_an_answer_of_the_member_even_if_it_is_an_error(self, alone: Gateway, blue: FakeMember) -> None:
        for blue.health in (429, 502, 503, 504):
            answer, body = alone.request("GET", "/health")
            assert (answer.status, body) == (blue.health, {"name": BLUE})

    def test_the_callers_token_reaches_neither_member_nor_log(self, alone: Gateway, blue: FakeMember) -> None:
        secret = "Bearer eyJ.a.token"
        headers = {"Authorization": secret, "X-Serverless-Authorization": secret, "X-Mine": "kept"}
        for path in (CHAT, f"/members/blue{CHAT}"):
            assert alone.request("POST", path + "?key=hidden", {}, headers)[0].status == 200
        for seen in blue.seen:
            assert (seen["x-mine"], seen["host"].partition(":")[0]) == ("kept", "127.0.0.1")
            assert not {"authorization", "x-serverless-authorization"} & set(seen)
        until(lambda: len(alone.log()) == 2)
        written = "".join((alone.folder / name).read_text() for name in ("stdout", "stderr"))
        assert "eyJ" not in written
        assert "hidden" not in written
