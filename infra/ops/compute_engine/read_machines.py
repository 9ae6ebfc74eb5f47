"""Asks Google for the state of a stack's machines, by their names alone: a machine is found though the stack's state has
lost it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from infra.errors import GoogleError
from infra.google.compute_types import ComputeInstance, GroupMember
from infra.google.compute_zone import ComputeZone, MachineGroup
from infra.google.session import GoogleSession
from infra.google.times import timestamp_s
from infra.ops.compute_engine.machine_next_step import with_next_step
from infra.ops.compute_engine.machine_state import MachineState
from infra.ops.tpu.read_slices import read_report
from infra.ops.tpu.slice_status import SupervisorReport
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan

_NAMESPACE, _KEY = "gemma4", "status"  # of the guest attribute that holds the supervisor's report


def machine_states(session: GoogleSession, plan: Plan, machines: MachinesPlan) -> list[MachineState]:
    """Return the state of each planned machine, in the order of `machine.names`. Raises GoogleError."""
    return [with_next_step(_read_machine(session, plan, machines, name), plan) for name in machines.names]


def server_stages(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the stage of each server by the name of its container, from a machine's guest attributes."""
    try:
        said: Any = json.loads(attributes.get(_KEY, ""))
        return {str(one["name"]): str(one["stage"]) for one in said.get("servers") or ()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


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
    servers: dict[str, str] = {}
    try:
        attributes = zone.guest_attributes(found.name, _NAMESPACE)
        report, servers = read_report(attributes, now), server_stages(attributes)
    except GoogleError as error:
        report = SupervisorReport(unreadable=str(error))
    made, ends = timestamp_s(found.create_time), timestamp_s(found.terminates)
    labels = found.labels
    return replace(
        seen,
        owned=all(labels.get(key) == value for key, value in plan.labels.items() if key in ("app", "stack")),
        status=found.status,
        zone=found.zone,
        machine_type=found.machine_type,
        address=found.address,
        age_s=None if made is None else max(0.0, session.clock() - made),
        ends_at=found.terminates,
        left_s=None if ends is None else max(0.0, ends - now),
        supervisor=report,
        servers=servers,
    )
