"""What the place where a server runs decides of the server: where its weights lie, which address it listens at, how much
memory its host has. Each platform says so of itself; memory, start and command ask here and know no platform."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hosting:
    """A container's surroundings. The defaults are those of a container about which nothing is known."""

    weights_folder: str = "/mnt/weights"
    """Where the server finds staged checkpoints: a folder, or the bucket itself as gs://."""
    mounts_bucket: bool = False
    """Whether that folder is the mounted bucket, read while the server loads; False: a copy, or no bucket."""
    staged_in_memory: bool = False
    """Whether the copy lies in the host's memory."""
    listens_on: str = "0.0.0.0"  # noqa: S104 inside the container
    shutdown_s: int | None = None
    """What requests get to finish when the server is told to stop; None: vLLM's own default, nothing."""
    memory_gib: float | None = None
    """Memory of the container or machine; None: unknown, not judged."""
    most_memory_gib: float | None = None
    """The most that `memory_setting` takes."""
    memory_setting: str = ""
    """The setting that chooses `memory_gib`; blank where the machine fixes it."""


UNKNOWN = Hosting()
"""Of a server that is only compared with another one: on which terms it would be hosted has not been asked."""
