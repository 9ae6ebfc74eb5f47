"""The docker command line: what every command needs, images, and which containers of servers there are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from .log import Log
from .supervisor_settings import SupervisorSettings

NAME = "gemma4"
"""Of a server's container, before the server's suffix."""
HASH, FINGERPRINT = "gemma4.hash", "gemma4.fingerprint"
ANSWER_S = 60.0
PULL_S = 3600.0
LOOK_S = 0.1
"""How long a command that may be abandoned goes on after that."""

# Words of docker's errors, and what to do about them. The first that is found counts.
REMEDIES = (
    (
        "cannot connect to the docker daemon|failed to connect to the docker api",
        "Docker is not running on this machine.",
    ),
    ("executable file not found", "The image has no program of the name that argv begins with."),
    ("denied|403|unauthorized", "Grant the slice's service account roles/artifactregistry.reader on the repository."),
    ("manifest unknown|not found", "There is no such image or tag in the registry."),
    ("no space left", "The boot disk is full: `docker system df` shows with what."),
    ("timeout", "Has the subnet Private Google Access?"),
)


_HELP = re.compile(r"(See|Run) 'docker .*--help'")


class DockerError(Exception):
    """Docker's error in one line, with what to do about it where that is known."""


class Abandoned(Exception):
    """Told to stop in the middle: the result is not needed any more."""


class Docker:
    """Runs docker commands. Shared by all threads."""

    def __init__(self, settings: SupervisorSettings, log: Log) -> None:
        self._run_dir, self._log = settings.run_dir, log

    def image_id(self, image: str) -> str:
        """Return the id of an image on this machine, blank where it is not here. Raises DockerError."""
        try:
            return self.run("image", "inspect", "--format", "{{.Id}}", image).strip()
        except DockerError as error:
            if "no such image" in str(error).lower():
                return ""
            raise

    def image_env(self, image_id: str) -> Mapping[str, str]:
        """Return the environment that an image gives its containers. Raises DockerError."""
        try:
            lines = json.loads(self.run("image", "inspect", "--format", "{{json .Config.Env}}", image_id)) or []
            return dict(line.split("=", 1) for line in lines)
        except (ValueError, AttributeError) as error:
            raise DockerError(f"docker image inspect: the answer cannot be read ({type(error).__name__})") from None

    def servers(self) -> list[str]:
        """Return the suffixes of all containers that a supervisor has started, running or not. Raises DockerError."""
        names = self.run("ps", "--all", "--filter", f"label={FINGERPRINT}", "--format", "{{.Names}}").split()
        return sorted(name.removeprefix(NAME) for name in names if name.startswith(NAME))

    def pull(self, image: str, registry: str, token: str, abandoned: threading.Event) -> str:
        """Pull an image, logged in to `registry` meanwhile; returns its id. Raises DockerError, Abandoned."""
        with self._login(registry, token) as environ:
            self.run("pull", "--quiet", image, environ=environ, timeout_s=PULL_S, abandoned=abandoned)
        if not (image_id := self.image_id(image)):
            raise DockerError(f"docker pull: {image} is not here although it was pulled")
        return image_id

    def remove_image(self, image_id: str) -> bool:
        """Remove an image; returns False where it stays, as something still uses it."""
        try:
            self.run("image", "rm", image_id)
        except DockerError as error:
            if "no such image" in str(error).lower():
                return True
            self._log.info("image-kept", f"The image {image_id} stays for now: {error}")
            return False
        return True

    @contextmanager
    def _login(self, registry: str, token: str) -> Iterator[Mapping[str, str]]:
        """Yield the environment of a login in a folder of its own, removed afterwards: docker writes the token there."""
        config = tempfile.mkdtemp(prefix="docker-", dir=self._run_dir)
        environ = {"DOCKER_CONFIG": config}
        try:
            if registry:
                self._log.hide(f"oauth2accesstoken:{token}")
                login = ("login", "--username", "oauth2accesstoken", "--password-stdin", f"https://{registry}")
                self.run(*login, environ=environ, text=token)
            yield environ
        finally:
            shutil.rmtree(config, ignore_errors=True)

    def run(
        self, *arguments: str, environ: Mapping[str, str] | None = None, text: str = "",
        timeout_s: float = ANSWER_S, abandoned: threading.Event | None = None, with_errors: bool = False,
    ) -> str:  # fmt: skip
        """Run a docker command; returns its output, with `with_errors` that of both streams. Raises DockerError, Abandoned."""
        command = ["docker", *arguments]
        try:
            code, output, errors = _run_command(command, environ or {}, text, timeout_s, abandoned)
        except OSError as error:
            raise DockerError(f"docker cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise DockerError(f"docker {arguments[0]} has not ended within {timeout_s:.0f} s") from None
        if code:
            raise DockerError(self._log.redacted(reason_with_remedy(arguments[0], errors or output)))
        return output + errors if with_errors else output


def _run_command(
    command: Sequence[str], environ: Mapping[str, str], text: str, timeout_s: float, abandoned: threading.Event | None
) -> tuple[int, str, str]:
    """Run a command; returns exit code, output, errors. Raises Abandoned, subprocess.TimeoutExpired, OSError."""
    pipe, end = subprocess.PIPE, time.monotonic() + timeout_s
    with subprocess.Popen(
        command, env={**os.environ, **environ}, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace"
    ) as process:
        try:
            while True:
                left_s = end - time.monotonic()
                try:
                    output, errors = process.communicate(text, min(left_s, LOOK_S) if abandoned else left_s)
                    return process.returncode, output, errors
                except subprocess.TimeoutExpired:
                    if abandoned and abandoned.is_set():
                        raise Abandoned from None
                    if time.monotonic() >= end:
                        raise
        except BaseException:  # also where this process is told to end: docker's daemon finishes what it has begun
            process.kill()
            raise


def reason_with_remedy(verb: str, text: str) -> str:
    """Return the reason from docker's output, and the remedy where one is known."""
    lines = [line.strip().removeprefix("docker: ") for line in text.splitlines()]
    lines = [line for line in lines if line and not _HELP.match(line)] or ["it failed and printed no reason"]
    reason = next((line for line in lines if line.startswith("Error")), lines[-1])
    reason = re.sub(r"^Error(?: response from daemon)?: ", "", reason)
    remedy = next((fix for signs, fix in REMEDIES if re.search(signs, reason.lower())), "")
    return f"docker {verb}: {reason}" + (f" {remedy}" if remedy else "")
