"""Looks at what Google and the supervisors say of a stack's machines, for `gemma4 diagnose`."""

from __future__ import annotations

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.ops.compute_engine.read_machines import machine_states
from infra.ops.diagnosing.findings import Diagnosis, Look
from infra.ops.diagnosing.machine_findings import look_at_machine
from infra.ops.running.member_addresses import member_addresses
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan


def look_at(diagnosis: Diagnosis, session: GoogleSession, plan: Plan) -> None:
    """Look at each machine: its group's word, the machine, and what its supervisor reports."""
    machines = plan.deployment
    if not isinstance(machines, MachinesPlan):
        raise TypeError(f"{plan.stack} has no machines of Compute Engine")
    try:
        states = machine_states(session, plan, machines, member_addresses(session, plan))
    except GoogleError as error:
        diagnosis.looks.append(Look("machines", trouble=str(error)))
        return
    for one in states:
        maintenance = one.supervisor.maintenance
        look_at_machine(
            diagnosis,
            one,
            "machine",
            one.name,
            state=(one.action or "no group", one.status, one.health, one.supervisor.stage),
            said=[
                f"group {one.action}: {one.error}" if one.error else f"group {one.action or 'none'}",
                f"machine {one.status} {one.health}".strip() if one.status else "",
                f"maintenance {maintenance}" if maintenance else "",
            ],
        )
