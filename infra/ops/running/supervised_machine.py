"""What a TPU slice and a machine with GPUs have in common for those who look at them: the faults that their supervisor's report
shows, whether requests reach them, and their state in a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from infra.google.logs import LogSource
from infra.google.supervisor_report import SERVING, SupervisorReport
from infra.google.times import read_moment
from infra.ops.running.member_addresses import MemberAddresses
from infra.planning.plan import Plan
from infra.planning.units import read_duration

SILENT_S = 300.0
"""The supervisor renews its report every minute: after five minutes a report says nothing about now."""
NOTHING = "nothing: it serves"
"""The next step of a machine that is well."""


class SupervisedMachine(Protocol):
    """The state of a slice or of a machine."""

    @property
    def supervisor(self) -> SupervisorReport: ...
    @property
    def age_s(self) -> float | None:
        """Since the machine was created; None where that is not known."""

    @property
    def ends_at(self) -> str:
        """Moment (RFC 3339), blank where it does not end."""

    @property
    def left_s(self) -> float | None: ...
    @property
    def unrouted(self) -> str:
        """Why the gateway sends it nothing though it serves; empty where it does or nobody knows."""

    @property
    def serving(self) -> bool: ...
    @property
    def next(self) -> str: ...


def why_unrouted(
    said: SupervisorReport, host: str, address: str, members: Iterable[str], addresses: MemberAddresses | None
) -> str:
    """Return why requests reach none of a machine's servers, as the end of a sentence; empty where they do or nobody knows.

    `members`: the names of its servers behind the gateway.
    """
    if addresses is None:
        return ""
    if why := addresses.why_not_routed(host, address):
        return why
    closed = said.ready is not None and not {*members} & {*said.ready}
    return "its supervisor does not let requests in" if closed else ""


def report_fault(seen: SupervisedMachine, plan: Plan, log: str) -> str:
    """Return why nothing is heard of a machine now; empty where something is, or where it is too early. `log`: the command that
    shows what it wrote."""
    said = seen.supervisor
    if said.unreadable:
        return f"whether it serves is unknown, since its report cannot be read: {_inside(said.unreadable)}"
    if said.age_s is not None and said.age_s > SILENT_S:
        return f"its supervisor has not reported for {read_duration(said.age_s)}: see {log}"
    if not said.stage and seen.age_s is not None and seen.age_s > plan.startup.extremes.high:
        since = f"since the machine was created {read_duration(seen.age_s)} ago, longer than a start takes"
        return f"its supervisor has not reported {since}: see {log}"
    return ""


def specification_fault(seen: SupervisedMachine, plan: Plan, log: str) -> str:
    """Return why a machine that serves does not serve what is planned; empty where it does."""
    said = seen.supervisor
    if said.stage != SERVING or said.running == plan.command.spec_hash:
        return ""
    if said.error:
        return f"it serves another specification than planned, and {trouble_of(said, log)}"
    if said.preparing:
        return "it serves another specification while it prepares the next: look again in some minutes"
    return f"it serves another specification than planned: pulumi up -s {plan.stack} brings it up to date"


def trouble_of(said: SupervisorReport, log: str) -> str:
    """Return the newest trouble of a supervisor that reports one, as the end of a sentence, with the command for the rest."""
    return f"reports trouble: {_inside(said.error)}; see {log}"


def _inside(sentence: str) -> str:
    """Return a sentence as a part of another one, in a line."""
    return " ".join(sentence.split()).rstrip(".")


def routing_fault(seen: SupervisedMachine, log: str) -> str:
    """Return why a machine that serves is not asked; empty where it is."""
    if not seen.unrouted:
        return ""
    return f"it serves, and no request reaches it: {seen.unrouted}; if that stays so, see {log}"


def log_command(plan: Plan, member: str) -> str:
    """Return the command that shows what a machine wrote, by the name of the machine or of a server on it."""
    place = plan.deployment.log_place(plan.names, member)
    return LogSource.machine(place["name"], place["location"]).command(plan.names.project)


def machine_line(seen: SupervisedMachine, parts: Sequence[str], *, servers: Sequence[str] = ()) -> str:
    """Return the state of a machine in a line: `parts` first, then its supervisor and `servers`, its end, and what to do unless
    it is well."""
    said = seen.supervisor
    ends = ""
    if seen.ends_at and seen.left_s is not None:
        ends = f"ends {read_moment(seen.ends_at)}, {read_duration(seen.left_s)} left"
    doing = " ".join(filter(None, (said.stage, said.running))) if said.stage else ""
    then = "" if seen.serving and seen.next.startswith("nothing") else seen.next
    return f"{', '.join(filter(None, (*parts, doing, *servers, ends)))}. {then}".strip()
