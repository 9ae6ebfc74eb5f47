"""The status of one TPU slice: what Google says, what the supervisor on its machine says, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass, field

from infra.google.supervisor_report import SupervisorReport


@dataclass(frozen=True)
class SliceStatus:
    """Times are None, and moments (RFC 3339) blank, where they are not known. A `…_guessed` moment follows from settings,
    because Google's record does not say it."""

    name: str
    """As in `tpu.slices`."""
    id: str
    host: str = ""
    """The label of its machine in the stack's zone: of a slice that another one follows blue-a, then blue-b."""
    follows: str = ""
    """The host of a slice of the same name that is still there: while one is renewed there are two."""
    followed: bool = False
    """A younger slice of the same name serves."""
    owned: bool = True
    """Whether the queued resource carries the labels of this stack's slice."""
    queue: str = "none"
    why: str = ""
    node: str = ""
    address: str = ""
    health: str = ""
    problem: str = ""
    maintenance: str = ""
    supervisor: SupervisorReport = field(default_factory=SupervisorReport)
    waited_s: float | None = None
    """Since the request."""
    expires_at: str = ""
    """When a request that waits leaves the queue."""
    expires_guessed: bool = False
    expired: bool = False
    """The request still stands in the queue after that moment."""
    age_s: float | None = None
    """Since the machine was created."""
    left_s: float | None = None
    """Until the run duration ends."""
    ends_at: str = ""
    ends_guessed: bool = False
    granted: str = ""
    """How the terms that were granted differ from the file."""
    unrouted: str = ""
    """Why the gateway sends it nothing though it serves, as the end of a sentence; empty where it does or nobody knows."""
    orphan: bool = False
    """The stack's state does not know it; False where that was not asked."""
    serving: bool = False
    """The slice is granted, owned, ready, healthy, heard from, serves the planned specification, and is sent requests."""
    next: str = ""
    """What to do."""
