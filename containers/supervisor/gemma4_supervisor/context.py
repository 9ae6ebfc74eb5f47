"""The clients and settings that all parts of the supervisor use."""

from __future__ import annotations

from dataclasses import dataclass

from .docker import Docker
from .log import Log
from .machine_status import MachineStatus
from .metadata_server import MetadataServer
from .readiness_server import Readiness
from .server_output import ServerOutput
from .state import SavedState
from .supervisor_settings import SupervisorSettings


@dataclass(frozen=True)
class Context:
    """Made once, when the process starts."""

    settings: SupervisorSettings
    log: Log
    status: MachineStatus
    metadata: MetadataServer
    docker: Docker
    state: SavedState
    output: ServerOutput
    readiness: Readiness
