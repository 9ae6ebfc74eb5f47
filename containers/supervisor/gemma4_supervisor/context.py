"""The clients and settings that all parts of the supervisor use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .accelerators import Accelerators
from .all_reduce_check import AllReduceCheck
from .docker import NAME, Docker
from .log import Log
from .machine_status import MachineStatus
from .metadata_server import MetadataServer, OnMainThread
from .readiness_server import Readiness
from .state import SavedState
from .supervisor_settings import SupervisorSettings


@dataclass(frozen=True)
class Context:
    """Made once, when the process starts. `add_line` takes what a server prints: its name, then as `ServerOutput` says."""

    settings: SupervisorSettings
    log: Log
    status: MachineStatus
    metadata: MetadataServer
    docker: Docker
    accelerators: Accelerators
    all_reduce: AllReduceCheck
    state: SavedState
    readiness: Readiness
    on_main_thread: OnMainThread
    add_line: Callable[[str, str, str, str], None]

    def of_server(self, suffix: str) -> Context:
        """Return this context for one server: log and status carry its name, where the machine has several."""
        if not suffix:
            return self
        name = NAME + suffix
        return replace(self, log=self.log.of_server(name), status=self.status.of_server(name))
