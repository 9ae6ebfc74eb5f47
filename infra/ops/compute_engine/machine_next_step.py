"""Whether a machine serves what the plan says, and the one thing to do next. Both are decided together, so that what a person
reads and the exit code that a script sees cannot contradict each other."""

from __future__ import annotations

from dataclasses import replace

from infra.google.logs import LogSource
from infra.ops.compute_engine.machine_state import MachineState
from infra.ops.tpu.next_step import NOTHING, SILENT_S
from infra.ops.tpu.slice_status import SERVING
from infra.planning.plan import Plan
from infra.planning.units import read_duration


def with_next_step(seen: MachineState, plan: Plan) -> MachineState:
    """Return the state with `serving` and `next` filled in. The first fault decides what to do: request, owner, machine,
    report, specification."""
    fault = (
        _pause(seen, plan)
        or _request_fault(seen, plan)
        or _machine_fault(seen)
        or _report_fault(seen, plan)
        or _specification_fault(seen, plan)
    )
    if fault:
        return replace(seen, serving=False, next=fault)
    serving = seen.supervisor.stage == SERVING
    doing = NOTHING if serving else "it is starting: driver, image, weights and compilation take a while"
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


def _report_fault(seen: MachineState, plan: Plan) -> str:
    said = seen.supervisor
    if said.unreadable:
        return "whether it serves is unknown, since its report cannot be read: see the line above"
    if said.age_s is not None and said.age_s > SILENT_S:
        return f"its supervisor has not reported for {read_duration(said.age_s)}: see {_log_command(seen, plan)}"
    if not said.stage and seen.age_s is not None and seen.age_s > plan.startup.extremes.high:
        since = f"since the machine was made {read_duration(seen.age_s)} ago, longer than a start takes"
        return f"its supervisor has not reported {since}: see {_log_command(seen, plan)}"
    return ""


def _specification_fault(seen: MachineState, plan: Plan) -> str:
    said = seen.supervisor
    if not said.stage:
        return ""
    ailing = ", ".join(f"{name} is {stage}" for name, stage in seen.servers.items() if stage != SERVING)
    if ailing and len(seen.servers) > 1 and any(stage == SERVING for stage in seen.servers.values()):
        return f"not all its servers serve ({ailing}): see {_log_command(seen, plan)}"
    if said.stage != SERVING or said.running == plan.command.spec_hash:
        return ""
    if said.error:
        return f"it serves another specification than planned, and reports trouble: see {_log_command(seen, plan)}"
    if said.preparing:
        return "it serves another specification while it prepares the next: look again in some minutes"
    return f"it serves another specification than planned: pulumi up -s {plan.stack} brings it up to date"


def _log_command(seen: MachineState, plan: Plan) -> str:
    place = plan.deployment.log_place(plan.names, seen.name)
    return LogSource.machine(place["name"], place["location"]).command(plan.names.project)
