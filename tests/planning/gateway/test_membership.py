"""How fast a real HAProxy follows readiness and addresses, and what it does with names that nobody answers for."""

from __future__ import annotations

import pytest

from infra.planning.gateway.haproxy import METRICS_PATH, READY_PATH
from tests.fakes.dns_zone import Mode
from tests.fakes.gateway import Gateway, until
from tests.fakes.members import FakeMember
from tests.planning.gateway.conftest import BLUE, GREEN, Start

CHAT = "/v1/chat/completions"


def answering(gateway: Gateway, times: int = 6) -> set[str]:
    """Names of those who answer balanced requests; `-`: nobody."""
    return {gateway.request("GET", "/v1/models")[0].headers.get("X-Member", "-") for _ in range(times)}


class TestReadiness:
    def test_a_member_is_in_rotation_within_two_seconds_and_out_within_three_while_its_streams_finish(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember
    ) -> None:
        green.ready = False
        until(lambda: answering(gateway) == {BLUE}, within_s=3)
        green.ready = True
        until(lambda: answering(gateway) == {BLUE, GREEN}, within_s=2)
        with gateway.open("POST", f"/members/green{CHAT}", {"stream": True}) as stream:
            green.chunk.release()
            assert stream.readline() == b"data: 0\n"
            green.ready = False
            until(lambda: answering(gateway) == {BLUE}, within_s=3)
            green.chunk.release(5)
            assert stream.read().endswith(b"data: [DONE]\n\n")

    def test_a_member_that_is_listed_but_not_ready_gets_no_request_from_a_fresh_gateway(
        self, start: Start, gateway: Gateway, green: FakeMember
    ) -> None:
        green.ready = False
        fresh = start(awaits=READY_PATH)
        assert answering(fresh, 20) == {BLUE}
        assert green.seen == []

    def test_a_machine_of_another_name_at_the_address_gets_nothing(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember
    ) -> None:
        """Blue-b has died, and nobody has cleaned its record: its address went to green, which is ready."""
        gateway.resolve("blue-b", green.address)
        asked = gateway.zone.asked
        until(lambda: gateway.zone.asked > asked + 20)
        assert gateway.status("/members/blue-b/v1/models") == 503
        assert {gateway.request("GET", "/members/blue/v1/models")[1]["data"][0]["id"] for _ in range(6)} == {BLUE}

    def test_a_machine_that_takes_another_name_is_out(self, gateway: Gateway, green: FakeMember) -> None:
        green.answers_for = "amber-a"
        until(lambda: answering(gateway) == {BLUE}, within_s=3)

    def test_an_empty_zone_answers_503_with_the_time_to_come_back(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember
    ) -> None:
        for machine in (blue, green):
            gateway.resolve(machine.name)
        until(lambda: answering(gateway) == {"-"}, within_s=3)
        for method, target in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/members/blue/health")):
            answer, body = gateway.request(method, target, b"x" * 300_000 if method == "POST" else None)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
            assert answer.headers["Content-Type"] == "application/json"
            assert (body["error"]["type"], body["error"]["code"]) == ("ServiceUnavailableError", 503)


class TestAddresses:
    def test_a_change_is_followed_within_two_seconds(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember
    ) -> None:
        """The machine called blue-a is replaced by one at another address, whose supervisor answers to that name."""
        green.answers_for, blue.ready = BLUE, False
        gateway.resolve(BLUE, green.address)

        def follows() -> bool:
            answer, body = gateway.request("GET", f"/members/{BLUE}/v1/models")
            return answer.status == 200 and body["data"][0]["id"] == GREEN

        until(follows, within_s=2)

    @pytest.mark.parametrize("mode", ["silent", "fails", "refuses", "denies"])
    def test_a_dns_server_that_gives_no_address_changes_nothing(
        self, gateway: Gateway, blue: FakeMember, green: FakeMember, mode: Mode
    ) -> None:
        """For an hour: `hold` says so. Here for as long as three questions take."""
        gateway.zone.mode = mode
        asked = gateway.zone.asked
        until(lambda: gateway.zone.asked > asked + 24)
        assert answering(gateway) == {BLUE, GREEN}

    def test_readiness_counts_while_dns_is_dead(self, gateway: Gateway, green: FakeMember) -> None:
        gateway.zone.mode = "silent"
        green.ready = False
        until(lambda: answering(gateway) == {BLUE}, within_s=3)
        green.ready = True
        until(lambda: answering(gateway) == {BLUE, GREEN}, within_s=2)


class TestTheGatewaysOwnState:
    def test_it_is_ready_when_a_member_is_or_when_none_has_been_for_longer_than_a_vpc_takes(
        self, start: Start, blue: FakeMember, green: FakeMember
    ) -> None:
        blue.ready = green.ready = False
        gateway = start(patience_s=3600)
        until(lambda: answering(gateway) == {"-"})
        assert gateway.status(READY_PATH) == 503
        assert start(patience_s=0).status(READY_PATH) == 200
        blue.ready = True
        until(lambda: gateway.status(READY_PATH) == 200)

    def test_its_metrics_say_who_is_up(self, alone: Gateway) -> None:
        text = alone.request("GET", METRICS_PATH)[1].decode()
        for name, up in ((BLUE, 1), (GREEN, 0)):
            assert f'haproxy_server_status{{proxy="members",server="{name}",state="UP"}} {up}' in text
