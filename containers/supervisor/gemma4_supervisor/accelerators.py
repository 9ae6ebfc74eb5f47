"""Which devices of the machine a server's container gets: TPU chips, or the GPUs that its place names.

A machine has GPUs where the driver has made `/dev/nvidia0`, and TPU chips where there is `/dev/vfio`. Google's driver on
Container-Optimized OS stands in one folder, and docker there knows nothing of GPUs: the devices, the driver's libraries and
their search path are passed one by one, as GKE's device plugin does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .desired_spec import ServerPlace, Spec
from .docker import Docker
from .log import Log

DRIVER = Path("/var/lib/nvidia")
IN_CONTAINER = "/usr/local/nvidia"
LIBRARIES = f"{IN_CONTAINER}/lib64"
SEARCH_PATH = "LD_LIBRARY_PATH"
SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Devices that every process with a GPU needs, whichever GPU it has."""
PINNED = ("--ulimit", "memlock=-1:-1")
"""Chips and GPUs write to pinned memory of the host. It has no limit, as the machine has nothing else to do."""


class NoDeviceError(Exception):
    """A server cannot be started: the machine does not have the devices that it needs."""


class Accelerators:
    """The devices below `device_dir`. With `is_contained`, this machine has GPUs, and its driver was to be installed before
    this program ran."""

    def __init__(self, device_dir: Path, is_contained: bool, docker: Docker, log: Log) -> None:
        self._dir, self._is_contained, self._docker, self._log = device_dir, is_contained, docker, log

    @property
    def gpus(self) -> tuple[int, ...]:
        """The numbers of the machine's GPUs."""
        names = [path.name for path in self._dir.glob("nvidia*")]
        return tuple(sorted(int(found[1]) for name in names if (found := re.fullmatch(r"nvidia(\d+)", name))))

    def gpus_of(self, place: ServerPlace) -> tuple[int, ...]:
        """The numbers of the GPUs that a server has, none on a machine with TPU chips."""
        return (place.devices or self.gpus) if self.gpus else ()

    def options(self, spec: Spec, place: ServerPlace, image_id: str) -> list[str]:
        """Return the options of `docker run` that give the server its devices. Raises DockerError, NoDeviceError."""
        if self.gpus or self._is_contained or place.devices:
            return self._gpu_options(spec, place, image_id)
        return self._chip_options(spec.privileged)

    def _gpu_options(self, spec: Spec, place: ServerPlace, image_id: str) -> list[str]:
        wanted = self.gpus_of(place) or place.devices
        missing = [number for number in wanted if number not in self.gpus]
        if missing or not wanted:
            lacks = ", ".join(str(self._dir / f"nvidia{number}") for number in missing or [0])
            has = f"it has the GPUs {', '.join(map(str, self.gpus))}" if self.gpus else "is the GPUs' driver installed?"
            raise NoDeviceError(f"the machine has no {lacks}; {has}")
        names = [f"nvidia{number}" for number in wanted] + [name for name in SHARED if (self._dir / name).exists()]
        options = [*self._device_options(names), "--ipc", "host", *PINNED]
        for folder in ("lib64", "bin"):
            options += ["--volume", f"{DRIVER}/{folder}:{IN_CONTAINER}/{folder}:ro"]
        search_path = spec.env.get(SEARCH_PATH) or self._docker.image_env(image_id).get(SEARCH_PATH, "")
        parts = [part for part in search_path.split(":") if part]
        search_path = ":".join([*(part for part in parts if part != LIBRARIES), LIBRARIES])
        return [*options, "--env", f"{SEARCH_PATH}={search_path}"]

    def _chip_options(self, privileged: bool) -> list[str]:
        """Return the options for all chips, or for all of the machine where that is asked for or no chip is found."""
        if privileged:
            return ["--privileged"]
        if not (self._dir / "vfio").is_dir():
            text = f"{self._dir}/vfio does not exist; the server is started with --privileged, and sees all devices."
            self._log.warning("privileged", text)
            return ["--privileged"]
        return [*self._device_options(["vfio"]), "--cap-add", "SYS_RESOURCE", *PINNED]

    def _device_options(self, names: Sequence[str]) -> list[str]:
        return [option for name in names for option in ("--device", f"{self._dir}/{name}:/dev/{name}")]
