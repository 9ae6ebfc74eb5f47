"""Asks Google for the state of a stack's machines, by their names alone: a machine is found though the stack's state has
lost it."""

from __future__ import annotations

from dataclasses import replace

from infra.google.compute_types import ComputeInstance, GroupMember
from infra.google.compute_zone import ComputeZone, MachineGroup
from infra.google.session import GoogleSession
from infra.google.supervisor_report import NAMESPACE, SERVING, age_s, hear
from infra.google.times import timestamp_s
from infra.ops.compute_engine.machine_next_step import with_next_step
from infra.ops.compute_engine.machine_state import MachineState
from infra.ops.running.member_addresses import MemberAddresses
from infra.ops.running.supervised_machine import why_unrouted
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan


def machine_states(
    session: GoogleSession, plan: Plan, machines: MachinesPlan, addresses: MemberAddresses | None = None
) -> list[MachineState]:
    """Return the state of each planned machine, in the order of `machine.names`. With `addresses` one that serves and that the
    gateway does not find does not count as serving. Raises GoogleError."""
    seen = [_read_machine(session, plan, machines, name) for name in machines.names]
    return [with_next_step(replace(one, unrouted=_unrouted(one, machines, addresses)), plan) for one in seen]


def _unrouted(one: MachineState, machines: MachinesPlan, addresses: MemberAddresses | None) -> str:
    if SERVING not in (one.supervisor.stage, *one.servers.values()):
        return ""
    (host,) = machines.hosts(one.name)
    members = [member.name for member in machines.members() if member.host == host]
    return why_unrouted(one.supervisor, host, one.address, members, addresses)


def _read_machine(session: GoogleSession, plan: Plan, machines: MachinesPlan, name: str) -> MachineState:
    """Return the state of one machine without what to do next: of its group, then of the machine itself."""
    machine_id = plan.names.member(name)
    member = MachineGroup(session, machines.region, machine_id).member(machine_id)
    if member is None:
        return MachineState(name, machine_id)
    zone = ComputeZone(session, member.zone) if member.zone else None
    found = zone.instance(machine_id) if zone else None
    return (
        _of_member(MachineState(name, machine_id), member)
        if found is None or zone is None
        else _of_machine(_of_member(MachineState(name, machine_id), member), zone, found, plan)
    )


def _of_member(seen: MachineState, member: GroupMember) -> MachineState:
    return replace(seen, action=member.action, error=member.error, health=member.health)


def _of_machine(seen: MachineState, zone: ComputeZone, found: ComputeInstance, plan: Plan) -> MachineState:
    session, now = zone.session, zone.session.clock()
    report, servers = hear(lambda: zone.guest_attributes(found.name, NAMESPACE), session.clock)
    ends, labels = timestamp_s(found.terminates), found.labels
    return replace(
        seen,
        owned=all(labels.get(key) == value for key, value in plan.labels.items() if key in ("app", "stack")),
        status=found.status,
        zone=found.zone,
        machine_type=found.machine_type,
        address=found.address,
        age_s=age_s(found.create_time, now),
        ends_at=found.terminates,
        left_s=None if ends is None else max(0.0, ends - now),
        supervisor=report,
        servers=servers,
    )
