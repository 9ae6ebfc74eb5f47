"""Waits for a machine of a managed group of Compute Engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.errors import GoogleError
from infra.google.api_errors import is_transient
from infra.google.compute_types import ComputeInstance, GroupMember
from infra.google.compute_zone import ComputeZone, MachineGroup
from infra.google.session import GoogleSession
from infra.planning.units import read_duration
from infra.providers.base import Progress
from infra.providers.capacity_wait import Look, wait_for_capacity


@dataclass(frozen=True)
class MachineWait:
    """Which machine to wait for, and for how long. `behind` is the first machine's name, blank for the first one."""

    project: str
    region: str
    group: str
    name: str
    timeout_s: float
    behind: str

    @classmethod
    def of(cls, props: Mapping[str, Any]) -> MachineWait:
        """Return the wait that a resource's properties describe."""
        return cls(
            project=props["project"],
            region=props["region"],
            group=props["group"],
            name=props["machine"],
            timeout_s=float(props["timeout_s"]),
            behind=props["behind"],
        )

    def managed(self, session: GoogleSession) -> MachineGroup:
        """Return the group to which the machine belongs."""
        return MachineGroup(session, self.region, self.group, project=self.project)

    def place(self, session: GoogleSession, zone: str) -> ComputeZone:
        """Return the zone that the group has chosen."""
        return ComputeZone(session, zone, project=self.project)


@dataclass(frozen=True)
class SeenMachine:
    """What Google answered: the group's word about the machine, the machine, or a transient error."""

    member: GroupMember | None = None
    instance: ComputeInstance | None = None
    error: GoogleError | None = None

    @property
    def there(self) -> bool:
        """True once the machine runs and has an address."""
        return self.instance is not None and self.instance.running and bool(self.instance.address)

    @property
    def in_words(self) -> str:
        """The state, for a line of progress."""
        if self.error:
            return f"no answer from Google: {self.error}"
        if self.instance is not None:
            return f"the machine is {self.instance.status}"
        if self.member is None:
            return "the machine is not asked for yet"
        why = f": {self.member.error}" if self.member.error else ""
        return f"the group is {self.member.action.lower() or 'idle'}{why}"


def wait_for_machine(
    session: GoogleSession, wait: MachineWait, *, progress: Progress, warn: Progress
) -> ComputeInstance | None:
    """Return the machine once it runs. None for a further one that does not: the first one must not wait for it.

    Raises GoogleError for the first machine when there is no capacity in time.
    """

    def look_once(waited_s: float, may_wait: bool) -> Look[ComputeInstance]:
        seen = look(session, wait)
        if seen.there:
            return Look(seen.instance, seen.in_words)
        stops = _stops(session, wait, seen, may_wait=may_wait)
        return Look(None, seen.in_words, _why(wait, seen, waited_s) if stops else "")

    found = wait_for_capacity(session, look_once, timeout_s=wait.timeout_s, progress=progress)
    if found.trouble and not wait.behind:
        raise GoogleError(found.trouble, reason="NO_MACHINE")
    if found.trouble:
        warn(found.trouble)
    return found.machine


def look(session: GoogleSession, wait: MachineWait) -> SeenMachine:
    """Return what Google says now. A transient error is part of the answer; any other raises GoogleError."""
    try:
        member = wait.managed(session).member(wait.name)
        if member is None or not member.zone:
            return SeenMachine(member)
        return SeenMachine(member, wait.place(session, member.zone).instance(wait.name))
    except GoogleError as error:
        if is_transient(error):
            return SeenMachine(error=error)
        raise


def _stops(session: GoogleSession, wait: MachineWait, seen: SeenMachine, *, may_wait: bool) -> bool:
    """Return whether waiting ends without a machine: its time is over, it has ended, or the first one serves already."""
    if not may_wait or (seen.instance is not None and seen.instance.over):
        return True
    if not wait.behind:
        return False
    first = MachineWait(**{**vars(wait), "name": wait.behind, "group": wait.behind, "behind": ""})
    try:
        return look(session, first).there
    except GoogleError:
        return True  # the wait for that machine reports it


def _why(wait: MachineWait, seen: SeenMachine, waited_s: float) -> str:
    return (
        f"There is no machine {wait.name} in {wait.region} after {read_duration(waited_s)} ({seen.in_words}). The request "
        "stays: it serves by itself once there is capacity. Run `pulumi up` again to go on waiting, or allow more zones "
        "(machine.zones) or shapes (machine.shapes); `gemma4 zones` says where capacity is likely."
    )
