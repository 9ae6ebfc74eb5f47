"""Looks at what Google and the supervisors say of a stack's machines, for `gemma4 diagnose`."""

from __future__ import annotations

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.ops.compute_engine.machine_state import MachineState
from infra.ops.compute_engine.read_machines import machine_states
from infra.ops.diagnosing.findings import Diagnosis, Finding, Line, Look, findings_in, quoted
from infra.ops.tpu.next_step import NOTHING
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan


def look_at(diagnosis: Diagnosis, session: GoogleSession, plan: Plan) -> None:
    """Look at each machine: its group's word, the machine, and what its supervisor reports."""
    machines = plan.deployment
    if not isinstance(machines, MachinesPlan):
        raise TypeError(f"{plan.stack} has no machines of Compute Engine")
    try:
        states = machine_states(session, plan, machines)
    except GoogleError as error:
        diagnosis.looks.append(Look("machines", trouble=str(error)))
        return
    for one in states:
        where = f"machine {one.name}"
        state = " ".join(filter(None, (one.action or "no group", one.status, one.health, one.supervisor.stage)))
        if one.supervisor.unreadable:
            diagnosis.looks.append(Look(f"report of {where}", trouble=one.supervisor.unreadable))
        diagnosis.looks.append(Look(where, state))
        if not one.serving or one.next != NOTHING:
            diagnosis.findings += _of_machine(one, where, state)


def _of_machine(one: MachineState, where: str, state: str) -> list[Finding]:
    """Return what the catalog knows of a machine that needs something, else what `gemma4 status` would say."""
    said = [
        f"group {one.action}: {one.error}" if one.error else f"group {one.action or 'none'}",
        f"machine {one.status} {one.health}".strip() if one.status else "",
        f"maintenance {one.supervisor.maintenance}" if one.supervisor.maintenance else "",
        one.supervisor.error,
    ]
    lines = [Line(text, one.supervisor.at if text == one.supervisor.error else "") for text in said if text]
    if found := findings_in(lines, where, "condition", "log"):
        return found
    does = "serves, and needs something" if one.serving else "does not serve"
    evidence = quoted("; ".join(line.text for line in lines) or state)
    then = f"{one.next[:1].upper()}{one.next[1:]}."
    return [Finding("machine-needs-attention", where, f"the machine {does}: {state}", then, "sure", evidence)]
