"""What a platform says of a stack's servers now, and whether they serve as planned."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import RenderableType

from infra.ops.answers.slice_answers import OrphanRow
from infra.ops.answers.status_answers import MachineNowRow, ServiceRow, SliceNowRow


@dataclass(frozen=True)
class RunningNow:
    """`serving` is None where it could not be asked. `summary` ends a sentence that begins with the stack's name."""

    serving: bool | None
    summary: str
    next: str = ""
    """What to type; empty where there is nothing to do."""
    deployed_spec: str = ""
    """Hash of the specification that is served; empty where it is not known."""
    service: ServiceRow | None = None
    slices: tuple[SliceNowRow, ...] = ()
    orphans: tuple[OrphanRow, ...] = ()
    lines: tuple[RenderableType, ...] = ()
    """The same for a terminal."""
    gaps: tuple[str, ...] = ()
    """What could not be asked, and why."""
    remarks: tuple[str, ...] = ()
    """What is no fault and should be known."""
    machines: tuple[MachineNowRow, ...] = ()
