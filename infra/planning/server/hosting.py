"""What follows for a server from the place where it runs: where its weights lie, which address it listens at, how much
memory its host has. Each platform gives its own values; memory, start and command read them and know no platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

VPC_ADDRESS = "${VPC_ADDRESS}"
"""The supervisor puts the machine's own address here: the server listens in the VPC and nowhere else."""
SERVER_PORT = "${PORT}"
"""The supervisor puts the server's own port here: a machine may run several."""
IN_MEMORY = "/dev/shm/weights"  # noqa: S108 the machine's memory file system, where tmpfs is the point
SHUTDOWN_S = 30
"""Seconds that requests get to finish when a supervisor tells its server to stop, as it does at each change."""

SPEC = "gemma4-spec"
"""The attribute of a machine that says what to serve."""


@dataclass(frozen=True)
class Hosting:
    """A container's surroundings. The defaults are those of a container about which nothing is known."""

    weights_folder: str = "/mnt/weights"
    """Where the server finds staged checkpoints: a folder, or the bucket itself as gs://."""
    mounts_bucket: bool = False
    """True if that folder is the mounted bucket, read while the server loads; False for a copy, or without a bucket."""
    staged_in_memory: bool = False
    """Whether the copy lies in the host's memory."""
    listens_on: str = "0.0.0.0"  # noqa: S104 inside the container
    port: str = ""
    """What stands in the command until a supervisor puts the server's own port there; empty: the usual port."""
    servers: int = 1
    """Servers that share the host: its memory, and one copy of the weights in it."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Environment variables that the machine calls for."""
    privileged: bool = False
    """Whether the container gets all of the machine instead of its accelerators alone."""
    most_all_reduce: int | None = None
    """The most devices between which vLLM's own all-reduce works; None: vLLM finds out."""
    shutdown_s: int | None = None
    """Seconds that requests get to finish when the server is told to stop; None: vLLM's own default, which is 0."""
    memory_gib: float | None = None
    """Memory of the container or machine; None: unknown, not judged."""
    most_memory_gib: float | None = None
    """The most that `memory_setting` takes."""
    memory_setting: str = ""
    """The setting that chooses `memory_gib`; blank where the machine fixes it."""


UNKNOWN = Hosting()
"""The hosting of a server that is only compared with another one, so that nobody has to know where it would run."""
