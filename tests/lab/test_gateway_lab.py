"""The gateway's real HAProxy before two machines with real supervisors and real vLLM servers, from an empty zone on.

The tests are one story, in their order: nothing is there, both servers start, they serve, go and come back. What is measured is
printed (`-s`).
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import re
import signal
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from infra.planning.gateway.chosen_routing import choose_routing
from infra.planning.gateway.members import PLACEHOLDER
from infra.planning.settings.declarations import GatewaySettings
from tests.fakes.gateway import Gateway, missing, until
from tests.lab import servers
from tests.lab.conftest import BLUE, GREEN, PATIENCE_S, Machines, Start, answering
from tests.lab.machines import VllmMachine
from tests.lab.servers import LAB, START_LIMIT_S
from tests.planning.gateway.test_fairness import by

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(LAB is None, reason=servers.NO_LAB),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
CHAT = "/v1/chat/completions"
IN_S, OUT_S = 2, 3
"""A gateway sends requests at most so long after a member is ready, and none so long after it is not."""
DNS_DEAD_S = 120
SHARE, CALLERS, AT_ONCE = 4, 10, 20


def say(what: str, seconds: float) -> None:
    print(f"\n{what}: {seconds:.2f} s (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")


def asked(tokens: int) -> dict[str, Any]:
    """A request whose answer has exactly so many tokens, streamed."""
    return {
        "model": "gemma",
        "messages": [{"role": "user", "content": "Count."}],
        "stream": True,
        "max_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
    }


def counted(machine: VllmMachine, metric: str) -> float:
    with urllib.request.urlopen(f"{machine.url}/metrics", timeout=10) as answer:
        return sum(
            float(value) for value in re.findall(rf"^{metric}{{.*}} (\S+)$", answer.read().decode(), re.MULTILINE)
        )


def running(machine: VllmMachine) -> float:
    return counted(machine, "vllm:num_requests_running")


def serves_at(gateway: Gateway, name: str) -> str:
    """The specification of the server that answers by a member's name, by its own word; blank where none does."""
    answer, body = gateway.request("GET", f"/members/{name}/v1/models")
    return str(body["data"][1]["id"]) if answer.status == 200 else ""


def stream(gateway: Gateway, tokens: int, caller: str = "", path: str = CHAT) -> tuple[str, bool, int]:
    """The member that answered, whether its stream came to its end, and the status; blank and 0 where none began."""
    try:
        with gateway.open("POST", path, asked(tokens), by(caller) if caller else None) as answer:
            whole = answer.status == 200 and answer.read().rstrip().endswith(b"data: [DONE]")
            return answer.headers.get("X-Member", ""), whole, answer.status
    except (http.client.HTTPException, OSError):
        return "", False, 0


def test_an_empty_zone_answers_503_with_the_time_to_come_back(empty: Gateway) -> None:
    for method, target in (("POST", CHAT), ("GET", "/v1/models"), ("POST", f"/members/blue{CHAT}")):
        answer, body = empty.request(method, target, asked(4) if method == "POST" else None)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
        assert body["error"]["type"] == "ServiceUnavailableError"


def test_a_member_that_is_listed_but_not_ready_gets_no_request(starting: Gateway, machines: Machines) -> None:
    """For as long as the servers load: their addresses are known, and they listen before they are done."""
    statuses: list[int] = []
    before = time.monotonic()
    while not any(machine.is_ready for machine in machines.values()):
        statuses.append(starting.status(CHAT, "POST"))
        assert time.monotonic() - before < START_LIMIT_S, "\n".join(
            line for _, line in machines[BLUE].vllm.printed[-20:]
        )
        time.sleep(0.1)
    say(f"{len(statuses)} requests refused while both servers loaded", time.monotonic() - before)
    assert len(statuses) > 20
    assert {*statuses[:-1]} == {503}


def test_a_member_is_in_rotation_within_two_seconds_after_it_is_ready(starting: Gateway, machines: Machines) -> None:
    last = next(iter(name for name, machine in machines.items() if not machine.is_ready), GREEN)
    machines[last].until(lambda: machines[last].is_ready, "the other server", START_LIMIT_S)
    say("in rotation after ready", until(lambda: last in answering(starting), within_s=IN_S))
    until(lambda: answering(starting) == {BLUE, GREEN}, within_s=IN_S)


def test_a_stream_comes_in_pieces_and_whole(gateway: Gateway) -> None:
    with gateway.open("POST", CHAT, asked(32)) as answer:
        assert answer.status == 200
        events = [line for line in answer if line.startswith(b"data: ")]
    assert events[-1].strip() == b"data: [DONE]"
    assert len(events) > 16
    assert all(json.loads(event[6:])["object"] == "chat.completion.chunk" for event in events[:-1])


def test_each_name_reaches_its_own_server_and_load_reaches_both(gateway: Gateway, machines: Machines) -> None:
    for name, machine in machines.items():
        assert serves_at(gateway, name) == serves_at(gateway, name[:-2]) == machine.hash
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda _: stream(gateway, 64), range(8)))
    assert sorted(found) == [(BLUE, True, 200)] * 4 + [(GREEN, True, 200)] * 4


def test_a_caller_that_leaves_stops_the_generation(gateway: Gateway, machines: Machines) -> None:
    blue = machines[BLUE]
    before = counted(blue, "vllm:generation_tokens_total")
    with gateway.open("POST", f"/members/blue{CHAT}", asked(4000)) as answer:
        answer.readline()
        until(lambda: running(blue) >= 1, within_s=PATIENCE_S)
    say("generation stopped", until(lambda: running(blue) == 0, within_s=PATIENCE_S))
    assert counted(blue, "vllm:generation_tokens_total") - before < 4000


def test_one_greedy_caller_of_ten_gets_no_more_than_its_share(gateway: Gateway, start: Start) -> None:
    sharing = start(routing=choose_routing(GatewaySettings(perCaller=SHARE)))
    until(lambda: answering(sharing) == {BLUE, GREEN})
    with ThreadPoolExecutor(AT_ONCE + CALLERS) as callers:
        greedy = [callers.submit(stream, sharing, 400, "1") for _ in range(AT_ONCE)]
        others = [callers.submit(stream, sharing, 40, str(number)) for number in range(2, CALLERS + 1)]
        assert [one.result()[1] for one in others] == [True] * (CALLERS - 1)
        statuses = sorted(one.result()[2] for one in greedy)
        assert statuses == [200] * SHARE + [429] * (AT_ONCE - SHARE)
        assert sum(one.result()[1] for one in greedy) == SHARE


def test_a_drained_member_is_out_within_three_seconds_while_its_stream_finishes(
    gateway: Gateway, machines: Machines
) -> None:
    green = machines[GREEN]
    with ThreadPoolExecutor(1) as callers:
        answer = callers.submit(stream, gateway, 800, path=f"/members/green{CHAT}")
        until(lambda: running(green) >= 1, within_s=PATIENCE_S)
        green.metadata.set("gemma4-drain", "true")
        green.until(lambda: not green.is_ready, "the drain to begin", PATIENCE_S)
        say("out of rotation", until(lambda: answering(gateway) == {BLUE}, within_s=OUT_S))
        assert running(green) >= 1
        assert green.status["stage"] == "draining"
        assert answer.result() == (GREEN, True, 200)
    green.until(lambda: green.status["stage"] == "drained", "the drain", PATIENCE_S)
    assert green.address == PLACEHOLDER
    green.metadata.set("gemma4-drain", None)
    green.until(lambda: green.is_ready and green.address == green.host, "the end of the drain", PATIENCE_S)
    say("in rotation after a drain", until(lambda: answering(gateway) == {BLUE, GREEN}, within_s=IN_S))


def test_a_change_of_address_is_followed_within_two_seconds(gateway: Gateway, machines: Machines) -> None:
    """Each machine takes the other's name: for the gateway, both members are at another address."""
    blue, green = machines.values()
    for one, other in ((GREEN, BLUE), (BLUE, GREEN)):
        blue.rename(one)
        green.rename(other)
        for machine in (blue, green):
            machine.until(lambda machine=machine: machine.address == machine.host, "its record", PATIENCE_S)  # type: ignore[misc]

        def follows(name: str, machine: VllmMachine) -> bool:
            return serves_at(gateway, name) == machine.hash

        seconds = until(functools.partial(follows, one, blue), within_s=IN_S)
        say("address followed", seconds + until(functools.partial(follows, other, green), within_s=IN_S - seconds))


def test_a_dead_dns_server_changes_nothing(gateway: Gateway) -> None:
    gateway.zone.mode = "silent"
    found = []
    end = time.monotonic() + DNS_DEAD_S
    while time.monotonic() < end:
        found.append(stream(gateway, 4))
        time.sleep(0.5)
    gateway.zone.mode = "answers"
    say(f"{len(found)} requests without DNS", DNS_DEAD_S)
    assert {*found} == {(BLUE, True, 200), (GREEN, True, 200)}


def test_a_changed_specification_cuts_no_stream(gateway: Gateway, machines: Machines) -> None:
    """The supervisor stops the server once gateways know; vLLM itself finishes what it answers."""
    green = machines[GREEN]
    before = green.vllm
    with ThreadPoolExecutor(1) as callers:
        answer = callers.submit(stream, gateway, 800, path=f"/members/green{CHAT}")
        until(lambda: running(green) >= 1, within_s=PATIENCE_S)
        green.want(green.hash, **{**json.loads(green.metadata.attributes["gemma4-spec"]), "env": {"CHANGED": "1"}})
        green.until(lambda: not green.is_ready, "the server to be told", PATIENCE_S)
        until(lambda: answering(gateway) == {BLUE}, within_s=OUT_S)
        green.until(lambda: "stop" in green.machine.actions, "the server to be stopped", PATIENCE_S)
        assert not answer.done()
        later = [stream(gateway, 4) for _ in range(10)]
        assert answer.result() == (GREEN, True, 200)
    assert later == [(BLUE, True, 200)] * 10
    green.until(lambda: green.is_ready and green.vllm is not before, "the next server", START_LIMIT_S)
    say("in rotation with the next server", until(lambda: answering(gateway) == {BLUE, GREEN}, within_s=IN_S))


def test_kill_fails_only_what_that_server_was_answering_and_it_comes_back(gateway: Gateway, machines: Machines) -> None:
    """What reaches it while its process still dies counts as sent."""
    green = machines[GREEN]
    with ThreadPoolExecutor(8) as callers:
        load = [callers.submit(stream, gateway, 200) for _ in range(8)]
        until(lambda: [running(machine) for machine in machines.values()] == [4, 4], within_s=PATIENCE_S)
        killed = green.vllm.process
        assert killed
        os.killpg(killed.pid, signal.SIGKILL)
        found = [one.result() for one in load]
        until(lambda: killed.poll() is not None, within_s=PATIENCE_S)
        later = [callers.submit(stream, gateway, 4) for _ in range(20)]
    assert sorted(whole for _, whole, _ in found) == [False] * 4 + [True] * 4
    assert {member for member, whole, _ in found if whole} == {BLUE}
    assert [one.result() for one in later] == [(BLUE, True, 200)] * 20
    assert gateway.status("/members/green/health") == 503
    began = time.monotonic()
    green.until(lambda: green.is_ready, "the server to be back", START_LIMIT_S)
    say("a new server after the kill", time.monotonic() - began)
    until(lambda: answering(gateway) == {BLUE, GREEN}, within_s=IN_S)
