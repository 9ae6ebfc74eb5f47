"""Looks at what Google and the supervisors say of a stack's TPU slices, for `gemma4 diagnose`."""

from __future__ import annotations

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.ops.diagnosing.findings import Diagnosis, Finding, Line, Look, findings_in, quoted
from infra.ops.running.member_addresses import member_addresses
from infra.ops.tpu.next_step import NOTHING
from infra.ops.tpu.read_slices import slice_statuses
from infra.ops.tpu.slice_status import SliceStatus
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
        where = f"slice {one.host}"
        state = " ".join(filter(None, (one.queue, one.node, one.supervisor.stage)))
        if one.supervisor.unreadable:
            diagnosis.looks.append(Look(f"report of {where}", trouble=one.supervisor.unreadable))
        diagnosis.looks.append(Look(where, state))
        if not one.serving or one.next != NOTHING:
            diagnosis.findings += _of_slice(one, where, state)


def _of_slice(one: SliceStatus, where: str, state: str) -> list[Finding]:
    """Return what the catalog knows of a slice that needs something, else what `gemma4 tpu status` would say."""
    machine = " ".join(filter(None, (f"machine {one.node}" if one.node else "", one.health, one.problem)))
    said = [
        f"queue {one.queue}: {one.why}" if one.why else f"queue {one.queue}",
        machine,
        f"maintenance {one.maintenance or one.supervisor.maintenance}"
        if one.maintenance or one.supervisor.maintenance
        else "",
        one.supervisor.error,
    ]
    lines = [Line(text, one.supervisor.at if text == one.supervisor.error else "") for text in said if text]
    if found := findings_in(lines, where, "condition", "log"):
        return found
    does = "serves, and needs something" if one.serving else "does not serve"
    evidence = quoted("; ".join(line.text for line in lines) or state)
    return [
        Finding("slice-needs-attention", where, f"the slice {does}: {state}", _sentence(one.next), "sure", evidence)
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
