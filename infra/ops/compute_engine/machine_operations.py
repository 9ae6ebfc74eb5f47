"""What runs of a stack's machines on Compute Engine and of the gateway before them, whether they serve as planned, and for how
long they have run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.ops.answers.status_answers import MachineNowRow
from infra.ops.compute_engine.machine_state import MachineState
from infra.ops.compute_engine.read_machines import machine_states
from infra.ops.running.gateway_now import gateway_usage, look_at_gateway
from infra.ops.running.member_addresses import member_addresses
from infra.ops.running.platform_operations import PlatformOperations
from infra.ops.running.running_now import RunningNow
from infra.ops.running.service_now import service_lines
from infra.ops.running.supervised_machine import NOTHING, machine_line
from infra.ops.running.usage import Usage, copy_usage
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan
from infra.planning.report.tables import labelled
from infra.planning.units import counted


class MachineOperations(PlatformOperations):
    """Questions about machines and their gateway."""

    def look(self, session: GoogleSession, plan: Plan, tickets: Set[str] | None = None) -> RunningNow:
        gaps: list[str] = []
        try:
            addresses = member_addresses(session, plan)
            states = machine_states(session, plan, _machines(plan), addresses)
        except GoogleError as error:
            return RunningNow(None, "is not known to serve: Compute Engine cannot be asked", gaps=(str(error),))
        gateway, fault = look_at_gateway(session, plan, gaps)
        summary, then = _judged(states, fault, plan)
        gateway_lines = service_lines(gateway, session.clock()) if gateway else ()
        lines = [labelled([(f"  {one.name}", _in_a_line(one))], 11) for one in states]
        return RunningNow(
            bool(states) and all(one.serving for one in states) and fault is None,
            summary,
            then,
            next((one.supervisor.running for one in states if one.supervisor.running), ""),
            gateway,
            machines=tuple(_row(one) for one in states),
            lines=(*lines, *gateway_lines),
            gaps=(*gaps, *filter(None, [addresses.gap])),
            remarks=tuple(addresses.of_nobody({one.address for one in states})),
        )

    def usage(self, session: GoogleSession, plan: Plan, *, since: float, until: float) -> Iterator[Usage]:
        machines = _machines(plan)
        try:
            for one in machine_states(session, plan, machines):
                yield _usage(session, plan, machines, one, since, until)
        except GoogleError as error:
            yield Usage.unknown("machines", str(error))
        yield gateway_usage(session, plan, machines.gateway, since=since, until=until)
        if copy := copy_usage(session, plan, since=since, until=until):
            yield copy


OPERATIONS = MachineOperations()


def _in_a_line(one: MachineState) -> str:
    parts = [f"{one.status} in {one.zone} ({one.machine_type})" if one.status else one.action or "no group"]
    parts += [f"health {one.health}"] if one.health else []
    several = [", ".join(f"{name} {stage}" for name, stage in one.servers.items())] if len(one.servers) > 1 else []
    return machine_line(one, parts, servers=several)


def _machines(plan: Plan) -> MachinesPlan:
    machines = plan.deployment
    assert isinstance(machines, MachinesPlan)  # noqa: S101 this platform's own
    return machines


def _judged(states: Sequence[MachineState], fault: tuple[str, str] | None, plan: Plan) -> tuple[str, str]:
    """Return the end of the sentence about the stack, and what to do."""
    if plan.paused and not any(one.action for one in states):
        return "is paused: no machine is asked for", f"gemma4 resume {plan.stack}"
    serving = [one for one in states if one.serving]
    for one in states:
        if not one.serving:
            share = f"{len(serving)} of {counted(len(states), 'machine')}"
            return f"does not serve as planned: {share} does", f"{one.name}: {one.next}"
    ahead = next((f"{one.name}: {one.next}" for one in states if one.next != NOTHING), "")
    return fault or (f"serves as planned with {counted(len(states), 'machine')}", ahead)


def _row(one: MachineState) -> MachineNowRow:
    return MachineNowRow(
        name=one.name,
        group=one.action,
        error=one.error,
        status=one.status,
        zone=one.zone,
        machine_type=one.machine_type,
        health=one.health,
        stage=one.supervisor.stage,
        running=one.supervisor.running,
        trouble=one.supervisor.error,
        servers=dict(one.servers),
        age_s=one.age_s,
        ends_at=one.ends_at,
        left_s=one.left_s,
        unrouted=one.unrouted,
        serving=one.serving,
        next=one.next,
    )


def _usage(
    session: GoogleSession, plan: Plan, machines: MachinesPlan, one: MachineState, since: float, until: float
) -> Usage:
    """Return the usage of a machine since it was made. The price of an hour is that of one server, of which it has several."""
    what = f"machine {one.name}"
    if one.age_s is None:
        return Usage.unknown(what, "it is not there; what ran under its name before is not counted")
    now = session.clock()
    seconds = max(0.0, min(now, until) - max(now - one.age_s, since))
    note = "by Google's record of the machine; what ran under its name before a repair is not counted"
    return Usage.at(what, seconds, plan.cost.usd_per_hour * len(machines.servers), note)
