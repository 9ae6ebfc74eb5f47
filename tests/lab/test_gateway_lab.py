"""The gateway's real HAProxy before two real vLLM servers: streams, a caller that leaves, and a server that is killed."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from infra.planning.gateway.haproxy import READY_PATH
from infra.planning.gateway.members import GatewayMember
from tests.fakes.gateway import Gateway, missing, until
from tests.lab import servers
from tests.lab.servers import LAB, RealVllm

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(LAB is None, reason=servers.NO_LAB),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
CHAT = "/v1/chat/completions"
HOST = "127.0.0.1"
PATIENCE_S = 120
"""Real servers share this machine's cores with whatever else runs."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, RealVllm]]:
    assert LAB
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("gateway-lab")
        started = {name: stack.enter_context(servers.running(LAB / "tiny", folder)) for name in ("blue-a", "green-a")}
        for server in started.values():
            servers.wait_until_healthy(server)
        yield started


@pytest.fixture(scope="module")
def gateway(pair: Mapping[str, RealVllm]) -> Iterator[Gateway]:
    members = [GatewayMember(name, name[:-2], name, port_of(server)) for name, server in pair.items()]
    with (
        readiness(pair) as ready_port,
        closing(Gateway(members, dict.fromkeys(pair, HOST), ready_port, awaits=READY_PATH)) as started,
    ):
        for name in pair:
            until(lambda name=name: started.status(f"/members/{name}/health") == 200)  # type: ignore[misc]
        yield started


def port_of(server: RealVllm) -> int:
    return int(server.url.rpartition(":")[2])


@contextmanager
def readiness(pair: Mapping[str, RealVllm]) -> Iterator[int]:
    """What the machines' supervisors would answer: a server is ready while it is healthy. Yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server = pair.get(self.path.removeprefix("/ready/"))
            self.send_response(404 if server is None else 200 if healthy(server) else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    listener = ThreadingHTTPServer((HOST, 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    yield listener.server_address[1]
    listener.shutdown()
    listener.server_close()


def healthy(server: RealVllm) -> bool:
    try:
        with urllib.request.urlopen(f"{server.url}/health", timeout=0.7) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def refuses(server: RealVllm) -> bool:
    """Whether nothing listens any more at the server's port."""
    with socket.socket() as caller:
        return caller.connect_ex((HOST, port_of(server))) != 0


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


def counted(server: RealVllm, metric: str) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        return sum(
            float(value) for value in re.findall(rf"^{metric}{{.*}} (\S+)$", answer.read().decode(), re.MULTILINE)
        )


def running(server: RealVllm) -> float:
    return counted(server, "vllm:num_requests_running")


def stream(gateway: Gateway, tokens: int) -> tuple[str, bool]:
    """The member that answered, and whether its stream came to its end; blank where none began to."""
    try:
        with gateway.open("POST", CHAT, asked(tokens)) as answer:
            member = answer.headers.get("X-Member", "")
            return member, answer.status == 200 and answer.read().rstrip().endswith(b"data: [DONE]")
    except (http.client.HTTPException, OSError):
        return "", False


def test_a_stream_comes_in_pieces_and_whole(gateway: Gateway) -> None:
    with gateway.open("POST", CHAT, asked(32)) as answer:
        assert answer.status == 200
        events = [line for line in answer if line.startswith(b"data: ")]
    assert events[-1].strip() == b"data: [DONE]"
    assert len(events) > 16
    assert all(json.loads(event[6:])["object"] == "chat.completion.chunk" for event in events[:-1])


def test_each_name_reaches_its_own_server_and_load_reaches_both(gateway: Gateway, pair: Mapping[str, RealVllm]) -> None:
    before = {name: counted(server, "vllm:request_success_total") for name, server in pair.items()}
    with gateway.open("POST", f"/members/green{CHAT}", asked(4)) as answer:
        answer.read()
    after = {name: counted(server, "vllm:request_success_total") for name, server in pair.items()}
    assert {name: after[name] - before[name] for name in pair} == {"blue-a": 0, "green-a": 1}
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda _: stream(gateway, 64), range(8)))
    assert sorted(found) == [("blue-a", True)] * 4 + [("green-a", True)] * 4


def test_a_caller_that_leaves_stops_the_generation(gateway: Gateway, pair: Mapping[str, RealVllm]) -> None:
    server = pair["blue-a"]
    before = counted(server, "vllm:generation_tokens_total")
    with gateway.open("POST", f"/members/blue{CHAT}", asked(4000)) as answer:
        answer.readline()
        until(lambda: running(server) == 1, within_s=PATIENCE_S)
    until(lambda: running(server) == 0, within_s=PATIENCE_S)
    assert counted(server, "vllm:generation_tokens_total") - before < 4000


def test_kill_fails_only_what_that_server_was_answering(gateway: Gateway, pair: Mapping[str, RealVllm]) -> None:
    """Last: one of the two servers does not come back. What reaches it while its process still dies counts as sent."""
    with ThreadPoolExecutor(8) as callers:
        load = [callers.submit(stream, gateway, 200) for _ in range(8)]
        until(lambda: [running(server) for server in pair.values()] == [4, 4], within_s=PATIENCE_S)
        os.killpg(pair["green-a"].pid, signal.SIGKILL)
        found = [one.result() for one in load]
        until(lambda: refuses(pair["green-a"]), within_s=PATIENCE_S)
        later = [callers.submit(stream, gateway, 4) for _ in range(20)]
    assert sorted(whole for _, whole in found) == [False] * 4 + [True] * 4
    assert {member for member, whole in found if whole} == {"blue-a"}
    assert [one.result() for one in later] == [("blue-a", True)] * 20
    assert gateway.status("/members/green/health") == 503
