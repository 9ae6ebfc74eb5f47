"""The clients and settings that all parts of the supervisor use, and those that the parts of one server use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from .accelerators import Accelerators
from .all_reduce_check import AllReduceCheck
from .docker import NAME, Docker
from .log import Log, ServerLog
from .machine_status import MachineStatus, ServerStatus
from .metadata_server import MetadataServer
from .readiness_server import Readiness
from .server_container import ServerContainer
from .server_output import ServerOutput
from .state import SavedState
from .supervisor_settings import SupervisorSettings


@dataclass(frozen=True)
class Context:
    """Made once, when the process starts. `add_line` takes what a server prints: its name, then as `ServerOutput` says."""

    settings: SupervisorSettings
    log: Log
    status: MachineStatus | ServerStatus
    metadata: MetadataServer
    docker: Docker
    accelerators: Accelerators
    all_reduce: AllReduceCheck
    state: SavedState
    readiness: Readiness
    add_line: Callable[[str, str, str, str], None]

    def server(self, suffix: str) -> ServerContext:
        """Return what the parts of one server use. A machine's only server writes log and status as the machine does."""
        container = ServerContainer(self.docker, self.accelerators, self.settings, suffix)
        name = NAME + suffix if suffix else ""
        log, status = self.log, self.status
        if isinstance(status, MachineStatus) and name:
            log, status = ServerLog(log, name), ServerStatus(status, name)
        output = ServerOutput(container, lambda *line: self.add_line(name, *line))
        shared = {each.name: getattr(self, each.name) for each in fields(self)}
        return ServerContext(
            **{**shared, "log": log, "status": status}, suffix=suffix, container=container, output=output
        )


@dataclass(frozen=True)
class ServerContext(Context):
    """Made once for each server."""

    suffix: str
    container: ServerContainer
    output: ServerOutput
