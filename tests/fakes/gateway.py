"""A real nginx on the rendered configuration, started as its container starts it."""

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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from infra.planning.gateway.nginx import ENV_NAME, VPC_PATIENCE_S, launch_script, render_nginx
from tests.fakes.slices import PATIENCE_S

Body = dict[str, Any] | bytes | Iterable[bytes] | None
"""A dictionary is sent as JSON, the rest as it is."""
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))  # Debian's is not on every PATH
OLDEST = (1, 19, 5)
NGINX = shutil.which("nginx", path=PATH)


@functools.cache
def missing() -> str:
    """Why the gateway cannot run here; empty where it can."""
    if not NGINX:
        return "nginx is not installed (Debian, Ubuntu: apt-get install nginx)"
    answer = subprocess.run([NGINX, "-v"], capture_output=True, text=True, check=False).stderr
    version = re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", answer)
    if not version or tuple(map(int, version.groups())) < OLDEST:
        return f"{answer.strip() or NGINX} is older than {'.'.join(map(str, OLDEST))}, the first that knows -e"
    try:
        socket.create_server(("127.0.0.2", 0)).close()
    except OSError:
        return "this system has 127.0.0.1 only; the slices need addresses of their own"
    return ""


class Gateway:
    """nginx as the container starts it. `slices` maps names to addresses."""

    def __init__(
        self,
        slices: Mapping[str, str],
        server_port: int,
        *,
        in_flight_limit: int = 64,
        patience_s: int = VPC_PATIENCE_S,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gateway-"))
        self.folder.chmod(0o755)  # nginx started as root works as another user
        for _ in range(3):  # somebody may take the port before nginx does
            self.port = free_port()
            scratch = str(self.folder)
            text = render_nginx(
                project="my-project",
                slices=slices,
                in_flight_limit=in_flight_limit,
                server_port=server_port,
                port=self.port,
                scratch=scratch,
            )
            self.process = launch(text, scratch, patience_s)
            if self._starts():
                return
        errors = (self.folder / "stderr").read_text()
        self.close()
        raise RuntimeError(f"nginx did not start:\n{errors}")

    def request(
        self, method: str, target: str, body: Body = None, headers: Mapping[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, Any]:
        """Answer and its JSON, if it is JSON."""
        with self.open(method, target, body, headers) as answer:
            data = answer.read()
        is_json = answer.headers.get("Content-Type", "").startswith("application/json") and data
        return answer, json.loads(data) if is_json else data

    @contextmanager
    def open(
        self, method: str, target: str, body: Body = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer as soon as there are headers; what is left unread is thrown away at the end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        try:
            connection.request(method, target, data, dict(headers or {}))
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def log(self) -> list[dict[str, Any]]:
        """The access log."""
        return [json.loads(line) for line in (self.folder / "stdout").read_text().splitlines()]

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
        shutil.rmtree(self.folder, ignore_errors=True)

    def _starts(self) -> bool:
        """Waits until it answers: a signal that comes before nginx has its workers is lost."""
        listening = self.folder / "nginx.pid"  # not a connection: one to a free port may find itself at the other end
        deadline = time.monotonic() + PATIENCE_S
        while not listening.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return self.request("GET", "/gateway/up")[0].status == 200


def launch(configuration: str, scratch: str, patience_s: int = VPC_PATIENCE_S) -> subprocess.Popen[bytes]:
    """The container's command, in a process group of its own; output goes to files in `scratch`."""
    environment = {"PATH": PATH, ENV_NAME: configuration}
    with open(f"{scratch}/stdout", "ab") as stdout, open(f"{scratch}/stderr", "ab") as stderr:
        return subprocess.Popen(
            ["sh", "-c", launch_script(scratch, patience_s=patience_s)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


def free_port() -> int:
    with socket.create_server(("", 0)) as listener:
        return int(listener.getsockname()[1])
