"""Where things are and how often they are looked at. Nothing here depends on what is served."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "GEMMA4_"
_READERS: Mapping[str, type] = {"str": str, "int": int, "float": float, "Path": Path}


@dataclass(frozen=True)
class SupervisorSettings:
    """Names ending in `_s` are seconds. Each may be set in the environment as GEMMA4_<NAME>; the unit sets none."""

    metadata_host: str = "metadata.google.internal"
    storage_url: str = "https://storage.googleapis.com"
    secrets_url: str = "https://secretmanager.googleapis.com"
    log_url: str = "https://logging.googleapis.com"
    state_dir: Path = Path("/var/lib/gemma4")
    """Survives a reboot: the program and what it has to remember."""
    run_dir: Path = Path("/run/gemma4")
    """Does not: status, and what must never reach a disk."""
    weights_root: Path = Path("/dev/shm/weights")  # noqa: S108  memory is the point
    unit_dir: Path = Path("/etc/systemd/system")
    device_dir: Path = Path("/dev")

    watch_s: float = 60
    """How long the metadata server holds a question for a change open; the client waits ten seconds more."""
    retry_s: float = 2
    retry_cap_s: float = 300
    """First and longest wait between tries to fetch something. They never end: an idle slice is paid for as well."""
    restart_s: float = 5
    restart_cap_s: float = 300
    """First and longest wait between starts of a container that does not stay."""
    start_tries: int = 3
    """Failed starts of a new specification before the last good one comes back."""
    start_poll_s: float = 1
    probe_s: float = 10
    generation_timeout_s: float = 60
    """How long an answer of a server may take that was well before: a loaded one needs half a minute for `/health`."""
    unhealthy_s: float = 180
    """How long a running server may answer with errors, its port closed, or generate nothing while a request waits,
    before it is started afresh. A question to a silent one waits as long."""
    stable_s: float = 600
    """Serving for so long proves a specification: earlier failures are forgotten, and it is the one to go back to."""
    settle_s: float = 5
    """Longest wait for callers to leave before a stop: a second more than the gateway keeps idle connections."""
    report_s: float = 10
    report_cap_s: float = 60
    """Shortest and longest time between two reports through the metadata server, which takes few a minute. One comes at
    least so often even if nothing has changed: who reads an older one knows that the supervisor is gone."""
    log_s: float = 5
    log_cap_s: float = 300
    """Time between two requests to Cloud Logging, and the longest one while it takes nothing."""
    maintenance_s: float = 60
    """How often Google's plans for the machine are asked for."""
    image_gib: float = 40
    """What the boot disk must have free for a pull: vllm-tpu is 20 to 26 GB unpacked (sizes in tpu-inference's pull request
    1245), and its compressed layers, some 10 GB, stand beside that meanwhile."""
    streams: int = 16
    range_mib: int = 64
    """Connections to the bucket, and what one of them fetches at a time."""

    @property
    def memory(self) -> Path:
        """Where weights stand, and what else a server keeps in memory."""
        return self.weights_root.parent

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> SupervisorSettings:
        """The defaults, but for what the environment sets."""
        chosen = {}
        for field in dataclasses.fields(cls):
            text = environ.get(PREFIX + field.name.upper())
            if text is not None:
                chosen[field.name] = _READERS[str(field.type)](text)
        return cls(**chosen)
