"""Checks once a boot whether the GPUs of a server can add up numbers over PCIe: `all_reduce_program` in the serving image.

A server with tensor parallelism does nothing else all day. Where peer-to-peer does not work, a server would hang or serve
wrong text, so it is then started with the two settings that avoid it, and slower.
"""

from __future__ import annotations

import contextlib
import json
import pkgutil
import threading
from collections.abc import Mapping, Sequence

from .accelerators import Accelerators
from .desired_spec import ServerPlace, Spec
from .docker import Docker, DockerError
from .log import Log
from .supervisor_settings import SupervisorSettings
from .whole_file import write_whole

PROGRAM = "all_reduce_program.py"
SUMS_ARE_RIGHT = "pass"
SAFE_FLAG = "--disable-custom-all-reduce"
LEVEL, OFF = "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"


class AllReduceCheck:
    """Shared by all threads. Verdicts are kept in a file that does not outlive the boot."""

    def __init__(self, settings: SupervisorSettings, docker: Docker, accelerators: Accelerators, log: Log) -> None:
        self._docker, self._accelerators, self._log = docker, accelerators, log
        self._limit_s = settings.all_reduce_s
        self._file = settings.run_dir / "all-reduce.json"
        self._lock = threading.Lock()

    def problem(self, spec: Spec, place: ServerPlace, image_id: str) -> str:
        """Return what is wrong between the GPUs of a server, blank where nothing is. Raises DockerError, NoDeviceError.

        It takes minutes at most, when this group of GPUs is used for the first time since the boot with this image.
        """
        gpus = self._accelerators.gpus_of(place)
        ranks = min(len(gpus), tensor_parallel(spec.argv))
        if ranks < 2 or spec.env.get(OFF) == "1":
            return ""
        key = f"{image_id} {','.join(map(str, gpus))} {ranks}"
        verdict = self._kept().get(key)
        if verdict is None:
            verdict = self._run(spec, place, image_id, ranks)
            with self._lock:
                write_whole(self._file, json.dumps({**self._kept(), key: verdict}))
            self._log.info("all-reduce", f"All-reduce of the GPUs {', '.join(map(str, gpus))}: {verdict}.", gpus=gpus)
        if verdict == SUMS_ARE_RIGHT:
            return ""
        return f"The GPUs {', '.join(map(str, gpus))} cannot add up numbers from GPU to GPU ({verdict})"

    def _run(self, spec: Spec, place: ServerPlace, image_id: str, ranks: int) -> str:
        """Return the verdict of the program; a container that does not end counts as one that hangs."""
        name = f"all-reduce{place.suffix}"
        self._remove(name)  # of a supervisor that was killed
        options = self._accelerators.options(spec, place, image_id)
        for key in [key for key in spec.env if key.startswith("NCCL_")]:
            options += ["--env", f"{key}={spec.env[key]}"]
        program = (pkgutil.get_data(__package__, PROGRAM) or b"").decode()
        command = ("run", "--rm", "--name", name, "--network", "host", *options, "--entrypoint", "python3", image_id)
        try:
            output = self._docker.run(*command, "-c", program, str(ranks), timeout_s=self._limit_s)
        except DockerError as error:
            if "has not ended" not in str(error):
                raise
            self._remove(name)
            return "it hangs, and so does its container"
        lines = output.split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")

    def _remove(self, name: str) -> None:
        with contextlib.suppress(DockerError):  # there is none
            self._docker.run("rm", "--force", name)

    def _kept(self) -> dict[str, str]:
        try:
            kept: dict[str, str] = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return kept


def without_peers(env: Mapping[str, str], arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return environment and arguments of a server that must not pass memory from GPU to GPU."""
    kept = [argument for argument in arguments if argument != SAFE_FLAG]
    return {**{key: value for key, value in env.items() if key != LEVEL}, OFF: "1"}, [*kept, SAFE_FLAG]


def tensor_parallel(argv: Sequence[str]) -> int:
    """Return over how many GPUs a command divides each layer; 1 where it does not say."""
    for flag, value in zip(argv, (*argv[1:], ""), strict=True):
        name, _, joined = flag.partition("=")
        if name in ("--tensor-parallel-size", "-tp") and (joined or value).isdigit():
            return int(joined or value)
    return 1
