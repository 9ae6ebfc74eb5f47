"""Looks at what Google and the supervisors say of a stack's TPU slices, for `gemma4 diagnose`."""

from __future__ import annotations

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.ops.diagnosing.findings import Diagnosis, Look
from infra.ops.diagnosing.machine_findings import look_at_machine
from infra.ops.running.member_addresses import member_addresses
from infra.ops.tpu.read_slices import slice_statuses
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan


def look_at(diagnosis: Diagnosis, session: GoogleSession, plan: Plan) -> None:
    """Look at each slice: its request, its machine, and what its supervisor reports."""
    slices = plan.deployment
    if not isinstance(slices, SlicesPlan):
        raise TypeError(f"{plan.stack} has no slices")
    try:
        statuses = slice_statuses(session, plan, slices, member_addresses(session, plan))
    except GoogleError as error:
        diagnosis.looks.append(Look("TPU slices", trouble=str(error)))
        return
    for one in statuses:
        machine = [f"machine {one.node}" if one.node else "", one.health, one.problem]
        maintenance = one.maintenance or one.supervisor.maintenance
        look_at_machine(
            diagnosis,
            one,
            "slice",
            one.host,
            state=(one.queue, one.node, one.supervisor.stage),
            said=[
                f"queue {one.queue}: {one.why}" if one.why else f"queue {one.queue}",
                " ".join(filter(None, machine)),
                f"maintenance {maintenance}" if maintenance else "",
            ],
        )
