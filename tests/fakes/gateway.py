"""A real HAProxy on the rendered configuration, started as its container starts it, with a DNS server of its own."""

from __future__ import annotations

import functools
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from infra.planning.gateway.container import environment, launch_script
from infra.planning.gateway.haproxy import ALIVE_PATH, render_haproxy
from infra.planning.gateway.members import PLACEHOLDER, GatewayMember
from tests.fakes.dns_zone import FakeZone
from tests.fakes.members import PATIENCE_S
from tests.fakes.ports import ReservedPort

Body = dict[str, Any] | bytes | Iterable[bytes] | None
"""A dictionary is sent as JSON, the rest as it is."""
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))  # Debian's is not on every PATH
OLDEST = (2, 6)
HAPROXY = shutil.which("haproxy", path=PATH)
DOMAIN = "gemma4-test.internal"


@functools.cache
def missing() -> str:
    """Why the gateway cannot run here; empty where it can."""
    if not HAPROXY:
        return "HAProxy is not installed (Debian, Ubuntu: apt-get install haproxy)"
    answer = subprocess.run([HAPROXY, "-v"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", answer)
    if not version or tuple(map(int, version.groups())) < OLDEST:
        return f"{answer.strip() or HAPROXY} is older than {'.'.join(map(str, OLDEST))}, the first that the gateway runs on"
    try:
        socket.create_server(("127.0.0.2", 0)).close()
    except OSError:
        return "this system has 127.0.0.1 only; the members need addresses of their own"
    return ""


class Gateway:
    """HAProxy as the container starts it, before `members`. Every name has its record from the start, as in a stack: an
    address of `addresses`, by host, or the placeholder. `settings` are further ones of the configuration."""

    def __init__(
        self,
        members: Sequence[GatewayMember],
        addresses: Mapping[str, str],
        ready_port: int,
        *,
        requests_each: int = 64,
        awaits: str = ALIVE_PATH,
        **settings: Any,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gateway-"))
        self._forgotten = 0
        hosts = {member.host for member in members}
        self.zone = FakeZone({f"{host}.{DOMAIN}": addresses.get(host, PLACEHOLDER) for host in hosts})
        self._reserved = ReservedPort()
        self.port = self._reserved.number
        configuration = render_haproxy(
            project="my-project",
            domain=DOMAIN,
            members=members,
            requests_each=requests_each,
            port=self.port,
            ready_port=ready_port,
            nameserver=self.zone.address,
            **settings,
        )
        self.process = launch(configuration, self.folder)
        if not self._starts(awaits):
            errors = (self.folder / "stderr").read_text()
            self.close()
            raise RuntimeError(f"HAProxy did not start:\n{errors}")

    def resolve(self, host: str, address: str = PLACEHOLDER) -> None:
        """Let the record of a machine hold another address."""
        self.zone.records[f"{host}.{DOMAIN}"] = address

    def request(
        self, method: str, target: str, body: Body = None, headers: Mapping[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, Any]:
        """Answer and its JSON, if it is JSON."""
        with self.open(method, target, body, headers) as answer:
            data = answer.read()
        is_json = answer.headers.get("Content-Type", "").startswith("application/json") and data
        return answer, json.loads(data) if is_json else data

    def status(self, target: str, method: str = "GET") -> int:
        """The status of an answer alone."""
        return self.request(method, target, {} if method == "POST" else None)[0].status

    @contextmanager
    def open(
        self, method: str, target: str, body: Body = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer as soon as there are headers; what is left unread is thrown away at the end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        try:
            kind = {"Content-Type": "application/json"} if isinstance(body, dict) else {}
            connection.request(method, target, data, {**kind, **(headers or {})})
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def log(self) -> list[dict[str, Any]]:
        """The access log since `forget_log`."""
        return [json.loads(line) for line in self._lines()[self._forgotten :]]

    def forget_log(self) -> None:
        """Leave what has been logged so far, and is JSON, out of `log`."""
        self._forgotten += len(self.log())

    def _lines(self) -> list[str]:
        return [line for line in (self.folder / "stdout").read_text().splitlines(keepends=True) if line.endswith("\n")]

    def listens(self) -> bool:
        """Whether a new connection is accepted."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S).close()
        except ConnectionRefusedError:
            return False
        return True

    def close(self) -> None:
        with suppress(ProcessLookupError):  # it may have ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reserved.close()
        self.zone.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _starts(self, awaited: str) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            with suppress(ConnectionError):
                if self.status(awaited) == 200:
                    return True
            time.sleep(0.01)
        return False


def launch(configuration: str, folder: Path) -> subprocess.Popen[bytes]:
    """The container's command, in a process group of its own; output goes to files in `folder`."""
    with open(folder / "stdout", "ab") as stdout, open(folder / "stderr", "ab") as stderr:
        return subprocess.Popen(
            ["sh", "-c", launch_script()],
            env={"PATH": PATH, **environment(configuration)},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


def until(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> float:
    """Wait until `condition` holds; return the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + within_s, f"not within {within_s} s"
        time.sleep(0.005)
    return time.monotonic() - began
