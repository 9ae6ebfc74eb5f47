"""The stages before the server's container on a machine: the system, NVIDIA's driver, the image on the disk, the weights.

The driver is installed at every boot, and the image is unpacked as fast as the boot disk writes. No start of this kind was
found: each stage has a source of its own (infra/catalog/starts.toml).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from infra.planning.performance.startup import Stage, stage_seconds
from infra.planning.platforms.compute_engine.machines import BootDisk
from infra.planning.units import Band

UNPACKED_BYTES = Band(25e9, 30e9, 36.1e9)
"""A serving image on disk: 25 to 36 GB were seen of images of 9 to 10 GB (third parties, to September 2026)."""
DOCKER_ROOMS = 2
"""Images that must fit the disk at once: the one that serves, and the one that follows it."""
SYSTEM_BYTES = 10e9
"""The system's own partitions, the driver, the supervisor's image and logs. A judgement."""
_MIB = 1 << 20


def machine_stages(weights: Stage, disk: BootDisk) -> Iterator[Stage]:
    """Yield what a machine does before its first container starts; a server that restarts on it finds all of it done."""
    yield Stage("machine", stage_seconds("cos-machine"), "machine", restarts=False)
    yield Stage("NVIDIA driver", stage_seconds("cos-driver"), "machine", restarts=False)
    fetched = stage_seconds("cos-image-fetch")
    unpacked = UNPACKED_BYTES.times(1 / (disk.throughput_mibps * _MIB))
    yield Stage("image pull and unpacking", Band.total((fetched, unpacked)), "registry", restarts=False)
    yield replace(weights, restarts=False)


def least_disk_gb() -> int:
    """Return the smallest disk that holds the system and two serving images, GB."""
    return round((SYSTEM_BYTES + DOCKER_ROOMS * UNPACKED_BYTES.high) / 1e9)
