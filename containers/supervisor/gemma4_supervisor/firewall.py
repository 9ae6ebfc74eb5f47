"""The server's port as callers from other machines find it: open, without new connections, or closed.

Refusing new connections alone does not take a server out of a gateway that keeps connections: measured with nginx
(least_conn, keepalive), a server that failed fast went on drawing two thirds of all requests through the connections
that it had. So a closed port also resets a connection on which a request arrives. Answers under way still get out, as
their readers send nothing but acknowledgements. A refusal by reset makes the gateway turn elsewhere at once.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .log import Log

CHAIN = "GEMMA4"
SEGMENT_WITH_DATA = "81:65535"
"""Length of an IPv4 packet that carries data: 20 bytes of IP header and at most 60 of TCP are not data."""
ESTABLISHED = "01"
COMMAND_S = 20.0

_OUTSIDE = "-p tcp ! -i lo"  # the supervisor's own probe comes through the loopback device, whatever the address
_RESET = "-j REJECT --reject-with tcp-reset"


class FirewallError(Exception):
    """The firewall of the machine cannot be changed."""


class PortFirewall:
    """Keeps its rules in one iptables chain, which is always written as a whole: doing it twice changes nothing."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def open(self, port: int) -> None:
        """Let every caller in. Raises FirewallError, as do the other methods."""
        self._set(port, [], "open")

    def refuse_new_connections(self, port: int) -> None:
        """Refuse new connections; those that are there go on."""
        self._set(port, ["--syn"], "no new connections")

    def close(self, port: int) -> None:
        """Refuse new connections, and new requests on those that are there; answers under way get out."""
        self._set(port, ["--syn", f"-m length --length {SEGMENT_WITH_DATA}"], "closed")

    def _set(self, port: int, refused: Sequence[str], word: str) -> None:
        rules = [f"-A {CHAIN} {_OUTSIDE} --dport {port} {what} {_RESET}" for what in refused]
        _run(
            ["iptables-restore", "--wait", "5", "--noflush"],
            "\n".join(["*filter", f":{CHAIN} - [0:0]", *rules, "COMMIT", ""]),
        )
        jump = ["INPUT", "-j", CHAIN]
        if not _run(["iptables", "--wait", "5", "-C", *jump], may_fail=True):
            _run(["iptables", "--wait", "5", "-I", *jump])
        self._log.info("port", f"Port {port}: {word}.", port=port, state=word)


def remote_connections(port: int, table: Path = Path("/proc/net/tcp")) -> int:
    """Return the number of connections to `port` from other machines."""
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    ends = [(row[1].split(":"), row[2].split(":")) for row in rows if row[3] == ESTABLISHED]
    return sum(int(here[1], 16) == port and here[0] != there[0] for here, there in ends)


def wait_for_callers(port: int, at_most_s: float) -> None:
    """Wait until no other machine is connected: a gateway that was refused drops its idle connections."""
    end = time.monotonic() + at_most_s
    while remote_connections(port) and time.monotonic() < end:
        time.sleep(0.1)


def _run(command: Sequence[str], text: str = "", may_fail: bool = False) -> bool:
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", timeout=COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FirewallError(
            f"{command[0]} cannot be run ({type(error).__name__}); the port cannot be closed."
        ) from None
    if done.returncode and not may_fail:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise FirewallError(f"{command[0]} failed ({reason}); the port cannot be closed.")
    return done.returncode == 0
