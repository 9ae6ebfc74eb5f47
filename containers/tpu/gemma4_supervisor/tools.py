"""What all of the supervisor's parts share."""

from __future__ import annotations

from dataclasses import dataclass

from .containers import Docker
from .journal import Journal
from .metadata import Metadata
from .output import Output
from .record import Record
from .settings import Settings
from .status import Status


@dataclass(frozen=True)
class Tools:
    settings: Settings
    journal: Journal
    status: Status
    metadata: Metadata
    docker: Docker
    record: Record
    output: Output
