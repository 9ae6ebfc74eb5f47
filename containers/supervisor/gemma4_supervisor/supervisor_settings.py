"""The supervisor's own settings: addresses, folders, intervals and limits. None depends on the model that is served."""

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
    dns_url: str = "https://dns.googleapis.com"
    state_dir: Path = Path("/var/lib/gemma4")
    """Survives a reboot: the program and its state."""
    run_dir: Path = Path("/run/gemma4")
    """Does not survive a reboot: the status, and secrets, which must never be written to a disk."""
    weights_root: Path = Path("/dev/shm/weights")  # noqa: S108  memory is the point
    unit_dir: Path = Path("/etc/systemd/system")
    started_by: str = "systemd"
    """What starts this program again when it ends: `systemd` itself, by a unit that the program installs, or `container`,
    where the machine's startup script has written a unit that runs the program in one."""
    device_dir: Path = Path("/dev")
    ready_address: str = ""
    ready_port: int = 8090
    """Where gateways ask which servers take requests; on every address of the machine where the address is blank."""
    ready_fd: int = -1
    """The socket that listens there, where the process was another version of this program before."""

    watch_s: float = 60
    """How long one request to the metadata server waits for a change; the client waits ten seconds more."""
    retry_s: float = 2
    retry_cap_s: float = 300
    """First and longest wait between tries to fetch something. There is no last try: an idle slice is paid for as well."""
    restart_s: float = 5
    restart_cap_s: float = 300
    """First and longest wait between starts of a container that does not stay up."""
    start_tries: int = 3
    """Failed starts of a new specification before the last good one comes back."""
    start_poll_s: float = 1
    probe_s: float = 10
    generation_timeout_s: float = 60
    """How long an answer of a healthy server may take: under load `/health` alone may take half a minute."""
    unhealthy_s: float = 180
    """How long a running server may answer with errors, out of reach, or generate nothing while a request waits,
    before it is restarted. A question to a silent one waits as long."""
    all_reduce_s: float = 300
    """Longest time for the check of a server's GPUs: three minutes to load torch, one for the sums, and one for docker."""
    stable_s: float = 600
    """Serving for so long proves a specification: earlier failures are forgotten, and it is the last good one."""
    roll_s: float = 30
    """How long a changed server must have served before the next one of its machine is changed."""
    leave_s: float = 3
    """How long a gateway may still send requests after it was told not to: it asks every second, and believes the second
    answer."""
    drain_cap_s: float = 3600
    """Longest wait of a machine that is drained for the requests that it has: as long as the gateway lets one take."""
    record_s: float = 300
    record_retry_cap_s: float = 60
    """Time between two looks at the machine's record, and the longest one while it cannot be written."""
    record_last_s: float = 5
    """Longest wait of a machine that goes down for its record to be written."""
    alive_s: float = 300
    """The main loop turns at least so often: docker has a minute for each of the few commands of one turn."""
    report_s: float = 10
    report_cap_s: float = 60
    """Shortest and longest time between two reports through the metadata server, which accepts few a minute. A report is
    sent at least so often even if nothing has changed: an older one means that the supervisor is gone."""
    log_s: float = 5
    log_cap_s: float = 300
    """Time between two requests to Cloud Logging, and the longest one while it accepts nothing."""
    image_gib: float = 40
    """Space that the boot disk must have for a pull: vllm-tpu is 20 to 26 GB unpacked (sizes in tpu-inference's pull request
    1245), and its compressed layers take some 10 GB beside that meanwhile."""
    streams: int = 16
    range_mib: int = 64
    """Connections to the bucket, and how much one of them fetches at a time."""

    @property
    def memory(self) -> Path:
        """The folder in memory that has the weights, and what else a server keeps there."""
        return self.weights_root.parent

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> SupervisorSettings:
        """Return the defaults, replaced where the environment sets a value."""
        chosen = {}
        for field in dataclasses.fields(cls):
            text = environ.get(PREFIX + field.name.upper())
            if text is not None:
                chosen[field.name] = _READERS[str(field.type)](text)
        return cls(**chosen)
