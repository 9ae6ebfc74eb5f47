"""Whether a machine serves what the plan says, and the one thing to do next. Both are decided together, so that what a person
reads and the exit code that a script sees cannot contradict each other."""

from __future__ import annotations

from dataclasses import replace

from infra.google.supervisor_report import SERVING
from infra.ops.compute_engine.machine_state import MachineState
from infra.ops.running.supervised_machine import (
    NOTHING,
    log_command,
    report_fault,
    routing_fault,
    specification_fault,
    trouble_of,
)
from infra.planning.plan import Plan


def with_next_step(seen: MachineState, plan: Plan) -> MachineState:
    """Return the state with `serving` and `next` filled in. The first fault decides what to do: request, owner, machine,
    report, servers, specification, record."""
    log = log_command(plan, seen.name)
    fault = (
        _pause(seen, plan)
        or _request_fault(seen, plan)
        or _machine_fault(seen)
        or report_fault(seen, plan, log)
        or _server_fault(seen, log)
        or specification_fault(seen, plan, log)
        or routing_fault(seen, log)
    )
    if fault:
        return replace(seen, serving=False, next=fault)
    serving = seen.supervisor.stage == SERVING
    doing = NOTHING if serving else "it is starting: driver, image, weights and compilation take a while"
    if seen.supervisor.error:
        doing = f"it {'serves' if serving else 'does not serve yet'}, and {trouble_of(seen.supervisor, log)}"
    return replace(seen, serving=serving, next=doing)


def _pause(seen: MachineState, plan: Plan) -> str:
    """Return what a pause means for a machine; empty where the stack is not paused."""
    if not plan.paused:
        return ""
    if not seen.action:
        return f"the stack is paused: gemma4 resume {plan.stack} asks for it again"
    return f"the stack is paused, and it is still there and paid for: pulumi up -s {plan.stack} deletes it"


def _request_fault(seen: MachineState, plan: Plan) -> str:
    if not seen.action:
        return f"no group has a machine of that name: pulumi up -s {plan.stack} makes one"
    if not seen.status:
        why = f" ({seen.error})" if seen.error else ""
        return (
            f"its group is {seen.action.lower()} it and goes on trying{why}: nothing to do, or allow more zones "
            "(machine.zones) or shapes (machine.shapes)"
        )
    return "" if seen.owned else f"{seen.id} is foreign, by its labels: rename the machine or the stack"


def _machine_fault(seen: MachineState) -> str:
    if seen.action in ("RECREATING", "DELETING", "ABANDONING"):
        return f"its group is {seen.action.lower()} it: look again in some minutes"
    if seen.status in ("PENDING", "PROVISIONING", "STAGING"):
        return f"it is {seen.status}: look again in some minutes"
    if seen.status != "RUNNING":
        return f"it is {seen.status}: its group makes it anew by itself; if it stays so, gemma4 diagnose says more"
    if seen.health == "UNHEALTHY":
        return "its supervisor does not answer Google's check: its group makes it anew; look again in some minutes"
    return ""


def _server_fault(seen: MachineState, log: str) -> str:
    """Return which servers of several do not serve; empty where all do, or none."""
    ailing = ", ".join(f"{name} is {stage}" for name, stage in seen.servers.items() if stage != SERVING)
    if not ailing or SERVING not in seen.servers.values():
        return ""
    return f"not all its servers serve ({ailing}): see {log}"
