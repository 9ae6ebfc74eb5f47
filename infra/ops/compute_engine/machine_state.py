"""The state of one machine: what its managed group says, what Google says of the machine, and what its supervisor says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from infra.google.supervisor_report import SupervisorReport


@dataclass(frozen=True)
class MachineState:
    """Times are None, and texts blank, where they are not known."""

    name: str
    """As in `machine.names`."""
    id: str
    """Of group and machine."""
    action: str = ""
    """What the group does about it: NONE, CREATING, RECREATING …; blank where there is no group."""
    error: str = ""
    """Why the group could not make it, the last time that it tried."""
    health: str = ""
    """What Google's check of the supervisor says."""
    owned: bool = True
    """Whether the machine carries this stack's labels."""
    status: str = ""
    """Of the machine; blank while there is none."""
    zone: str = ""
    machine_type: str = ""
    address: str = ""
    age_s: float | None = None
    """Since the machine was made, which a repair does anew."""
    ends_at: str = ""
    """Moment (RFC 3339) when Google ends it; blank where it does not."""
    left_s: float | None = None
    supervisor: SupervisorReport = field(default_factory=SupervisorReport)
    servers: Mapping[str, str] = field(default_factory=dict)
    """Stage of each server on the machine, by its container's name; empty where nothing was heard."""
    unrouted: str = ""
    """Why the gateway sends it nothing though it serves, as the end of a sentence; empty where it does or nobody knows."""
    serving: bool = False
    """The machine is there, owned, heard from, all its servers serve the planned specification, and it is sent requests."""
    next: str = ""
    """What to do."""
