"""Waits for a machine of Compute Engine: for a limited time, with progress, and in short pauses."""

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

_FIRST_POLL_S, _POLL_S = 1.0, 5.0


@dataclass(frozen=True)
class MachineWait:
    """Which machine to wait for, and for how long. `zone` is blank for one of a managed group, which chooses it; `group` is
    blank for one that belongs to none. `behind` is the first machine's name, blank for the first one."""

    project: str
    region: str
    group: str
    zone: str
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
            zone=props["place"],
            name=props["machine"],
            timeout_s=float(props["timeout_s"]),
            behind=props["behind"],
        )


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
    began = session.clock()
    poll_s = _FIRST_POLL_S
    while True:
        waited = session.clock() - began
        seen = look(session, wait)
        if seen.there:
            return seen.instance
        if _stops(session, wait, seen, may_wait=waited + poll_s <= wait.timeout_s):
            why = _why(wait, seen, waited)
            if not wait.behind:
                raise GoogleError(why, reason="NO_MACHINE")
            warn(why)
            return None
        progress(f"{seen.in_words}; waiting for {read_duration(waited)} of at most {read_duration(wait.timeout_s)}")
        session.sleep(poll_s)
        poll_s = min(2 * poll_s, _POLL_S)


def look(session: GoogleSession, wait: MachineWait) -> SeenMachine:
    """Return what Google says now. A transient error is part of the answer; any other raises GoogleError."""
    try:
        if not wait.group:
            return SeenMachine(instance=ComputeZone(session, wait.zone, project=wait.project).instance(wait.name))
        member = MachineGroup(session, wait.region, wait.group, project=wait.project).member(wait.name)
        if member is None or not member.zone:
            return SeenMachine(member)
        return SeenMachine(member, ComputeZone(session, member.zone, project=wait.project).instance(wait.name))
    except GoogleError as error:
        if is_transient(error):
            return SeenMachine(error=error)
        raise


def _stops(session: GoogleSession, wait: MachineWait, seen: SeenMachine, *, may_wait: bool) -> bool:
    """Return whether waiting ends without a machine: its time is over, it has ended, or the first one serves already."""
    if not may_wait or (seen.instance is not None and seen.instance.over):
        return True
    if not wait.behind or not wait.group:
        return False
    first = MachineWait(**{**vars(wait), "name": wait.behind, "group": wait.behind, "behind": ""})
    try:
        return look(session, first).there
    except GoogleError:
        return True  # the wait for that machine reports it


def _why(wait: MachineWait, seen: SeenMachine, waited_s: float) -> str:
    where = wait.zone or wait.region
    return (
        f"There is no machine {wait.name} in {where} after {read_duration(waited_s)} ({seen.in_words}). The request stays: it "
        "serves by itself once there is capacity. Run `pulumi up` again to go on waiting, or allow more zones "
        "(machine.zones) or shapes (machine.shapes); `gemma4 zones` says where capacity is likely."
    )
