"""The port with the kernel's own firewall between two network namespaces: what a caller sees of each of its states.

Needs root, `ip` and `iptables`; skipped elsewhere. The rules as text are tested with the rest of the supervisor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.projects import ROOT

CALLER, SLICE, ADDRESS = f"gemma4-caller-{os.getpid()}", f"gemma4-slice-{os.getpid()}", "10.213.7.2"

SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        chunks = 15 if self.path == "/stream" else 1
        self.send_response(200)
        self.send_header("Content-Length", str(chunks))
        self.end_headers()
        for number in range(chunks):
            time.sleep(0.1 * (chunks > 1))
            self.wfile.write(b"x")
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("0.0.0.0", 8000), Handler)
print("ready", flush=True)
server.serve_forever()
"""
# Reads commands, one a line, and prints what became of each: a kept connection, a stream, a new connection.
CLIENT = """
import http.client, sys, threading
BODY = b"{" + b" " * 200 + b"}"
def ask(connection, path="/"):
    connection.request("POST", path, BODY)
    return connection.getresponse()
kept = http.client.HTTPConnection(sys.argv[1], 8000, timeout=3)
streaming = None
for command in map(str.strip, sys.stdin):
    try:
        if command == "stream":
            streaming = ask(http.client.HTTPConnection(sys.argv[1], 8000, timeout=3), "/stream")
            print("begun", flush=True)
        elif command == "rest":
            print(len(streaming.read()), flush=True)
        elif command == "kept":
            print(len(ask(kept).read()), flush=True)
        else:
            print(len(ask(http.client.HTTPConnection(sys.argv[1], 8000, timeout=3)).read()), flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
"""
SET_FIREWALL = """
import io, sys
from containers.supervisor.gemma4_supervisor.firewall import PortFirewall, remote_connections
from containers.supervisor.gemma4_supervisor.log import Log
getattr(PortFirewall(Log(io.StringIO())), sys.argv[1])(8000)
print(remote_connections(8000))
"""


def in_namespace(name: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", name, *command]


def python(name: str, code: str, *arguments: str) -> subprocess.Popen[str]:
    command = in_namespace(name, sys.executable, "-c", code, *arguments)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


class Caller:
    """Another machine that calls the server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, command: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def set_firewall(act: str) -> int:
    """Set the firewall of the port; returns how many connections it sees from other machines."""
    command = in_namespace(SLICE, sys.executable, "-c", SET_FIREWALL, act)
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture
def caller() -> Iterator[Caller]:
    if os.geteuid() or not shutil.which("ip") or not shutil.which("iptables"):
        pytest.skip("needs root, ip and iptables")
    steps = [
        f"ip netns add {CALLER}",
        f"ip netns add {SLICE}",
        f"ip -n {CALLER} link add eth0 type veth peer name eth0 netns {SLICE}",
        f"ip -n {CALLER} addr add 10.213.7.1/24 dev eth0",
        f"ip -n {SLICE} addr add {ADDRESS}/24 dev eth0",
        *(f"ip -n {name} link set {device} up" for name in (CALLER, SLICE) for device in ("eth0", "lo")),
    ]
    for step in steps:
        if subprocess.run(step.split(), capture_output=True, check=False).returncode:
            _remove()
            pytest.skip(f"this machine does not allow: {step}")
    server = python(SLICE, SERVER)
    assert server.stdout
    assert server.stdout.readline() == "ready\n"
    client = python(CALLER, CLIENT, ADDRESS)
    yield Caller(client)
    for process in (client, server):
        process.kill()
        process.communicate()
    _remove()


def _remove() -> None:
    for name in (CALLER, SLICE):
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


class TestThePort:
    def test_the_port_open_takes_everybody(self, caller: Caller) -> None:
        assert set_firewall("open") == 0
        assert caller("new") == caller("kept") == "1"
        assert set_firewall("open") >= 1

    def test_the_port_closing_refuses_new_callers_and_serves_the_old(self, caller: Caller) -> None:
        assert caller("kept") == "1"
        set_firewall("refuse_new_connections")
        assert caller("new") == "ConnectionRefusedError"
        assert caller("kept") == "1"

    def test_the_port_closed_refuses_requests_on_kept_connections_too_and_lets_answers_out(
        self, caller: Caller
    ) -> None:
        assert caller("kept") == "1"
        assert caller("stream") == "begun"
        set_firewall("close")
        assert caller("new") == "ConnectionRefusedError"
        assert caller("kept") == "ConnectionResetError"
        assert caller("rest") == "15"

    def test_the_port_closed_is_open_to_the_machine_itself_by_any_of_its_addresses(self, caller: Caller) -> None:
        set_firewall("close")
        for address in ("127.0.0.1", ADDRESS):
            inside = python(SLICE, CLIENT, address)
            output, _ = inside.communicate("new\n")
            assert output == "1\n"

    def test_the_port_opens_again_after_any_number_of_closings(self, caller: Caller) -> None:
        for act in ("close", "close", "refuse_new_connections", "open", "open"):
            set_firewall(act)
        assert caller("new") == "1"
        rules = subprocess.run(
            in_namespace(SLICE, "iptables", "-S", "INPUT"), capture_output=True, text=True, check=True
        ).stdout
        assert rules.count("-j GEMMA4") == 1
