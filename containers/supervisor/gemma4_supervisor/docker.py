"""The docker command line: images, and the one container that serves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .desired_spec import Spec
from .log import Log
from .supervisor_settings import SupervisorSettings

NAME = "gemma4"
HASH, FINGERPRINT = "gemma4.hash", "gemma4.fingerprint"
TOKEN_IN_CONTAINER = "/run/secrets/huggingface-token"  # noqa: S105  a place, not a token
ANSWER_S = 60.0
PULL_S = 3600.0
LAST_LINES = 30

# Words of docker's errors, and what to do about them. The first that is found counts.
REMEDIES = (
    ("cannot connect to the docker daemon", "Docker is not running on this machine."),
    ("failed to connect to the docker api", "Docker is not running on this machine."),
    ("executable file not found", "The image has no program of the name that argv begins with."),
    ("denied", "Grant the slice's service account roles/artifactregistry.reader on the repository."),
    ("403", "Grant the slice's service account roles/artifactregistry.reader on the repository."),
    ("unauthorized", "Grant the slice's service account roles/artifactregistry.reader on the repository."),
    ("manifest unknown", "There is no such image or tag in the registry."),
    ("not found", "There is no such image or tag in the registry."),
    ("no space left", "The boot disk is full: `docker system df` shows with what."),
    ("timeout", "Has the subnet Private Google Access?"),
)


_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+\.\d{9}Z")
_HELP = re.compile(r"(See|Run) 'docker .*--help'")


class DockerError(Exception):
    """Docker's error in one line, with what to do about it where that is known."""


class Abandoned(Exception):
    """Told to stop in the middle: the result is not needed any more."""


@dataclass(frozen=True)
class Container:
    """The container as docker describes it. `exit_code` has no meaning while it runs."""

    id: str
    running: bool
    exit_code: int
    out_of_memory: bool
    fingerprint: str


class Docker:
    """Runs docker commands. Shared by all threads."""

    def __init__(self, settings: SupervisorSettings, log: Log) -> None:
        self._run_dir, self._weights_root = settings.run_dir, settings.weights_root
        self._device_dir = settings.device_dir
        self._log = log

    def container(self) -> Container | None:
        """Return the container named gemma4, running or not, None where there is none. Raises DockerError."""
        try:
            text = self._docker("container", "inspect", NAME)
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

    def start(self, spec: Spec, image_id: str, address: str, token_file: Path | None) -> str:
        """Run the server in the background; returns the container's id. Raises DockerError."""
        entrypoint, *arguments = spec.command(address)
        options = ["--name", NAME, "--network", "host", "--stop-timeout", str(round(spec.drain_s))]
        options += [*self._rights(spec), "--volume", "/dev/shm:/dev/shm"]  # noqa: S108  compiled programs, downloads
        if spec.weights:
            options += ["--volume", f"{self._weights_root}:{self._weights_root}:ro"]
        options += ["--log-driver", "json-file", "--log-opt", "max-size=100m", "--log-opt", "max-file=3"]
        options += ["--label", f"{HASH}={spec.hash}", "--label", f"{FINGERPRINT}={spec.fingerprint}"]
        env = dict(spec.env)
        if token_file:
            # As a file: docker inspect and the process list show the environment and the command line.
            options += ["--volume", f"{token_file}:{TOKEN_IN_CONTAINER}:ro"]
            env["HF_TOKEN_PATH"] = TOKEN_IN_CONTAINER
        env_file = self._run_dir / "container.env"
        write_private(env_file, "".join(f"{name}={value}\n" for name, value in env.items()))
        options += ["--env-file", str(env_file), "--entrypoint", entrypoint]
        try:
            return self._docker("run", "--detach", *options, image_id, *arguments).strip()
        finally:
            env_file.unlink(missing_ok=True)

    def _rights(self, spec: Spec) -> list[str]:
        """Return the options that give the server the chips, and memory that these may write to.

        All of the machine where the specification asks for it, or where no chip is found.
        """
        if spec.privileged:
            return ["--privileged"]
        if (self._device_dir / "vfio").is_dir():  # v5e and later
            devices = ["vfio"]
        else:
            devices = sorted(path.name for path in self._device_dir.glob("accel*"))  # before
        if not devices:
            text = f"Neither {self._device_dir}/vfio nor {self._device_dir}/accel* exists; the server is started with"
            self._log.warning("privileged", f"{text} --privileged, and sees whatever devices this machine has.")
            return ["--privileged"]
        options = [
            option for device in devices for option in ("--device", f"{self._device_dir}/{device}:/dev/{device}")
        ]
        # The chips write to pinned memory of the host. It has no limit, as the machine has nothing else to do.
        return [*options, "--cap-add", "SYS_RESOURCE", "--ulimit", "memlock=-1:-1"]

    def remove(self, drain_s: float, before: Callable[[], None]) -> None:
        """Stop the container, which may take `drain_s`, call `before`, and remove it. Does nothing where there is none."""
        found = self.container()
        if found is None:
            return
        if found.running:
            self._docker("stop", "-t", str(round(drain_s)), NAME, timeout_s=drain_s + ANSWER_S)
        before()
        self._docker("rm", "--force", NAME)

    def lines(self, since: str, most: int) -> list[tuple[str, str]]:
        """Return time and text of the container's last lines, at most `most`, from `since` on where that is not blank.

        Times are RFC 3339 with nine digits. Raises DockerError.
        """
        after = ("--since", since) if since else ()
        text = self._docker("logs", "--timestamps", "--tail", str(most), *after, NAME, with_errors=True)
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
            return self._docker("logs", "--tail", str(LAST_LINES), NAME, with_errors=True).strip()
        except DockerError:
            return ""

    def image_id(self, image: str) -> str:
        """Return the id of an image on this machine, blank where it is not here. Raises DockerError."""
        try:
            return self._docker("image", "inspect", "--format", "{{.Id}}", image).strip()
        except DockerError as error:
            if "no such image" in str(error).lower():
                return ""
            raise

    def pull(self, image: str, registry: str, token: str, abandoned: threading.Event) -> str:
        """Pull an image, logged in to `registry` meanwhile; returns its id. Raises DockerError, Abandoned."""
        with self._login(registry, token) as environ:
            self._docker("pull", "--quiet", image, environ=environ, timeout_s=PULL_S, abandoned=abandoned)
        if not (image_id := self.image_id(image)):
            raise DockerError(f"docker pull: {image} is not here although it was pulled")
        return image_id

    def remove_image(self, image_id: str) -> bool:
        """Remove an image; returns False where it stays, as something still uses it."""
        try:
            self._docker("image", "rm", image_id)
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
                self._docker(*login, environ=environ, text=token)
            yield environ
        finally:
            shutil.rmtree(config, ignore_errors=True)

    def _docker(
        self, *arguments: str, environ: Mapping[str, str] | None = None, text: str = "",
        timeout_s: float = ANSWER_S, abandoned: threading.Event | None = None, with_errors: bool = False,
    ) -> str:  # fmt: skip
        command = ["docker", *arguments]
        try:
            code, output, errors = run_command(command, environ or {}, text, timeout_s, abandoned)
        except OSError as error:
            raise DockerError(f"docker cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise DockerError(f"docker {arguments[0]} has not ended within {timeout_s:.0f} s") from None
        if code:
            raise DockerError(self._log.redacted(reason_with_remedy(arguments[0], errors or output)))
        return output + errors if with_errors else output


def run_command(
    command: Sequence[str], environ: Mapping[str, str], text: str, timeout_s: float, abandoned: threading.Event | None
) -> tuple[int, str, str]:
    """Run a command; returns exit code, output, errors. Raises Abandoned, subprocess.TimeoutExpired, OSError."""
    environ = {**os.environ, **environ}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace"
    ) as process:
        over = threading.Event()

        def end_when_abandoned() -> None:
            while abandoned and not over.is_set():
                if abandoned.wait(0.1):
                    process.terminate()
                    return

        if abandoned:
            threading.Thread(target=end_when_abandoned, daemon=True).start()
        try:
            output, errors = process.communicate(text, timeout=timeout_s)
        except BaseException:  # also where this process is told to end: docker's daemon finishes what it has begun
            process.kill()
            raise
        finally:
            over.set()
    if abandoned and abandoned.is_set() and process.returncode:
        raise Abandoned
    return process.returncode, output, errors


def reason_with_remedy(verb: str, text: str) -> str:
    """Return the reason from docker's output, and the remedy where one is known."""
    lines = [line.strip().removeprefix("docker: ") for line in text.splitlines()]
    lines = [line for line in lines if line and not _HELP.match(line)] or ["it failed and printed no reason"]
    reason = next((line for line in lines if line.startswith("Error")), lines[-1])
    reason = re.sub(r"^Error(?: response from daemon)?: ", "", reason)
    remedy = next((fix for sign, fix in REMEDIES if sign in reason.lower()), "")
    return f"docker {verb}: {reason}" + (f" {remedy}" if remedy else "")


def write_private(path: Path, text: str) -> None:
    """Write a file that only root can read, whole or not at all."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
