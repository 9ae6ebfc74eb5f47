"""A machine of a stack that Google may end: how far it is, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["waits", "starts", "serves", "over", "missing"]


@dataclass(frozen=True)
class MachineTerm:
    """One generation of a machine. While one is renewed, two have the same name."""

    name: str
    """As in the settings."""
    host: str
    """Its label in the stack's zone, which tells two of one name apart."""
    phase: Phase
    """waits: in a queue; starts: paid for, and not serving yet; over: ended, or about to be; missing: nobody asked for it."""
    ends_at: float | None = None
    """Seconds since 1970; None where nothing ends it, or it does not exist."""
    orphan: bool = False
    """The stack's state does not know it, so no `pulumi up` goes on with it."""
