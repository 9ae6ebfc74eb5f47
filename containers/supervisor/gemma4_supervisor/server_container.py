"""The container of one server (`gemma4`, with the server's suffix where its machine has several), and what it prints."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .accelerators import Accelerators
from .all_reduce_check import without_peers
from .desired_spec import ServerPlace, Spec
from .docker import ANSWER_S, FINGERPRINT, HASH, NAME, Docker, DockerError
from .supervisor_settings import SupervisorSettings

TOKEN_IN_CONTAINER = "/run/secrets/huggingface-token"  # noqa: S105  a place, not a token
COMPILED = f"{NAME}-cache:/root/.cache"
"""A volume with what vLLM has compiled for GPUs, of all servers and starts. Docker keeps it where programs may be executed,
which the machine's /dev/shm may forbid."""
LAST_LINES = 30
MOST_LINES = 500
"""Read at once. Where a server has printed more, the oldest are skipped; docker has all."""
FIRST_LINES = 100
"""Read of a container that ran before this process."""
_SEVERITY = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_OWN_PROBE = re.compile(r'"GET /(health|metrics) HTTP/[\d.]+" 200')
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+\.\d{9}Z")


@dataclass(frozen=True)
class Container:
    """The container as docker describes it. `exit_code` has no meaning while it runs."""

    id: str
    running: bool
    exit_code: int
    out_of_memory: bool
    fingerprint: str


class ServerContainer:
    """Shared by all threads."""

    def __init__(self, docker: Docker, accelerators: Accelerators, settings: SupervisorSettings, suffix: str) -> None:
        self._docker, self._accelerators = docker, accelerators
        self._weights_root = settings.weights_root
        self.name = NAME + suffix

    def inspect(self) -> Container | None:
        """Return the container, running or not, None where there is none. Raises DockerError."""
        try:
            text = self._docker.run("container", "inspect", self.name)
        except DockerError as error:
            if "no such container" in str(error).lower():
                return None
            raise
        try:
            (row,) = json.loads(text)
            state, labels = row["State"], row["Config"].get("Labels") or {}
            return Container(
                str(row["Id"]),
                bool(state["Running"]),
                int(state["ExitCode"]),
                bool(state.get("OOMKilled")),
                str(labels.get(FINGERPRINT, "")),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DockerError(f"docker container inspect: the answer cannot be read ({type(error).__name__})") from None

    def start(
        self, spec: Spec, place: ServerPlace, image_id: str, address: str, token_file: Path | None,
        avoids_peers: bool = False,
    ) -> str:  # fmt: skip
        """Run the server in the background; returns the container's id. Raises DockerError, NoDeviceError.

        With `avoids_peers`, its GPUs pass no memory to each other.
        """
        entrypoint, *arguments = spec.command(address, place.port)
        env = dict(spec.env)
        if avoids_peers:
            env, arguments = without_peers(env, arguments)
        options = ["--name", self.name, "--network", "host", "--stop-timeout", str(round(spec.drain_s))]
        options += ["--volume", "/dev/shm:/dev/shm"]  # noqa: S108  compiled programs, downloads
        if self._accelerators.gpus_of(place):
            options += ["--volume", COMPILED]
        if spec.weights:
            options += ["--volume", f"{self._weights_root}:{self._weights_root}:ro"]
        options += ["--log-driver", "json-file", "--log-opt", "max-size=100m", "--log-opt", "max-file=3"]
        options += ["--label", f"{HASH}={spec.hash}", "--label", f"{FINGERPRINT}={place.fingerprint}"]
        if token_file:
            # As a file: docker inspect and the process list show the environment and the command line.
            options += ["--volume", f"{token_file}:{TOKEN_IN_CONTAINER}:ro"]
            env["HF_TOKEN_PATH"] = TOKEN_IN_CONTAINER
        for name, value in env.items():
            options += ["--env", f"{name}={value}"]
        options += [*self._accelerators.options(spec, place, image_id), "--entrypoint", entrypoint]
        return self._docker.run("run", "--detach", *options, image_id, *arguments).strip()

    def remove(self, drain_s: float, before: Callable[[], None]) -> None:
        """Stop the container, which may take `drain_s`, call `before`, and remove it. Does nothing where there is none."""
        found = self.inspect()
        if found is None:
            return
        if found.running:
            self._docker.run("stop", "-t", str(round(drain_s)), self.name, timeout_s=drain_s + ANSWER_S)
        before()
        self._docker.run("rm", "--force", self.name)

    def lines(self, since: str, most: int) -> list[tuple[str, str]]:
        """Return time and text of the container's last lines, at most `most`, from `since` on where that is not blank.

        Times are RFC 3339 with nine digits. Raises DockerError.
        """
        after = ("--since", since) if since else ()
        text = self._docker.run("logs", "--timestamps", "--tail", str(most), *after, self.name, with_errors=True)
        found: list[tuple[str, str]] = []
        for line in text.split("\n"):
            stamp, _, rest = line.partition(" ")
            if _STAMP.fullmatch(stamp):
                found.append((stamp, rest.rstrip()))
            elif found and line.strip():  # a progress bar that is printed over itself: its last state counts
                found[-1] = (found[-1][0], line.strip())
        return sorted(found)

    def last_output(self) -> str:
        """Return the end of the container's output, empty where docker does not answer."""
        try:
            return self._docker.run("logs", "--tail", str(LAST_LINES), self.name, with_errors=True).strip()
        except DockerError:
            return ""


class ServerOutput:
    """Calls `add` with severity, time and text of each line."""

    def __init__(self, container: ServerContainer, add: Callable[[str, str, str], None]) -> None:
        self._container, self._add = container, add
        self._last = ""
        self._lock = threading.Lock()

    def collect(self) -> None:
        """Read the new lines. Also to be called before a container is removed: its lines go with it."""
        with self._lock:
            try:
                lines = self._container.lines(self._last, MOST_LINES if self._last else FIRST_LINES)
            except DockerError:
                return  # the lines are read at the next call
            read = self._last
            for stamp, text in lines:
                if stamp > read:  # not `self._last`: two lines may have one time
                    self._last = stamp
                    if text and not _OWN_PROBE.search(text):
                        self._add(severity(text), stamp, text)


def severity(line: str) -> str:
    """Return the severity that vLLM writes near the beginning of a line, else DEFAULT, Cloud Logging's word for none."""
    found = _SEVERITY.search(line[:60])
    return found[1] if found else "DEFAULT"
