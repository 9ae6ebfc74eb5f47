"""Whether a TPU slice serves what the plan says, and the one thing to do next. Both are decided together, so that what a
person reads and the exit code that a script sees cannot contradict each other."""

from __future__ import annotations

from dataclasses import replace

from infra.google.supervisor_report import SERVING
from infra.google.times import read_moment
from infra.google.tpu_types import QueueState
from infra.ops.running.supervised_machine import (
    NOTHING,
    log_command,
    report_fault,
    routing_fault,
    specification_fault,
    trouble_of,
)
from infra.ops.tpu.slice_status import SliceStatus
from infra.planning.plan import Plan
from infra.planning.units import read_duration

_HEALTHY = ("HEALTHY", "HEALTH_UNSPECIFIED", "")
_SETTING_UP = ("CREATING", "STARTING", "RESTARTING", "REIMAGING", "REPAIRING")


def with_next_step(seen: SliceStatus, plan: Plan) -> SliceStatus:
    """Return the status with `serving` and `next` filled in.

    The first fault decides what to do: queue, owner, machine, health, report, specification, record. Without one, what will end
    the slice soon comes before its stage; such a slice may still be serving.
    """
    log = log_command(plan, seen.host)
    fault = (
        _pause(seen, plan)
        or _queue_fault(seen)
        or _machine_fault(seen)
        or report_fault(seen, plan, log)
        or specification_fault(seen, plan, log)
        or ("" if seen.followed else routing_fault(seen, log))  # one that is followed is not to be asked any more
    )
    if fault:
        return replace(seen, serving=False, next=fault)
    serving = seen.supervisor.stage == SERVING
    if seen.followed:
        return replace(
            seen, serving=serving, next=f"the next {seen.name} serves: pulumi up drains this one and gives it back"
        )
    doing = NOTHING if serving else "it is starting: image, weights and compilation take a while"
    return replace(seen, serving=serving, next=_ahead(seen, plan) or doing)


def _pause(seen: SliceStatus, plan: Plan) -> str:
    """Return what a pause means for a slice; empty where the stack is not paused."""
    if not plan.paused:
        return ""
    if seen.queue == "none":
        return f"the stack is paused: gemma4 resume {plan.stack} asks for it again"
    return "the stack is paused, and it is still there and paid for: pulumi up gives it back"


def _queue_fault(seen: SliceStatus) -> str:
    if seen.queue == "none":
        return "no request is queued: pulumi up makes one"
    if not seen.owned:
        return f"{seen.id} is foreign, by its labels: pulumi up leaves it alone; rename the slice or the stack"
    if seen.orphan:
        return "it is an orphan, which no state knows and no pulumi up goes on with: see what is said of orphans"
    state = QueueState(seen.queue)
    if state.ended:
        return "it has ended and holds quota: pulumi up replaces it, gemma4 tpu ended --delete only removes it"
    if state.over:
        return "it is ending: wait a minute, then pulumi up asks for another"
    if seen.expired:
        return "its time in the queue is over, and Google left it there: pulumi up removes it and asks anew"
    if state.waits:
        if seen.follows:
            return f"it waits for capacity, to follow {seen.follows}, which serves on"
        return "it waits for capacity: nothing to do, or see gemma4 zones for other zones"
    return "" if state is QueueState.ACTIVE else "it is being set up: look again in some minutes"


def _machine_fault(seen: SliceStatus) -> str:
    if not seen.node:
        return "it is ACTIVE without a machine: look again in a minute; if it stays so, pulumi up says how to go on"
    if seen.node in _SETTING_UP:
        return f"its machine is {seen.node}: look again in some minutes"
    if seen.node != "READY":
        return f"its machine is {seen.node}: it does not come back by itself; pulumi up says how to go on"
    if seen.health not in _HEALTHY or (seen.problem and seen.health != _HEALTHY[0]):
        what = ": ".join(filter(None, (seen.health, seen.problem)))
        return f"its machine is unhealthy ({what}): if Google does not mend it, give the slice back and run pulumi up"
    return ""


_FURTHER_SLICE = "queue a further slice (tpu.slices) to go on serving"


def _ahead(seen: SliceStatus, plan: Plan) -> str:
    """Return what may soon end a slice that serves or starts: trouble, maintenance, its run duration. Empty if nothing."""
    if seen.supervisor.error:
        return f"the machine {trouble_of(seen.supervisor, log_command(plan, seen.host))}"
    if seen.maintenance:
        return f"Google announces maintenance for {read_moment(seen.maintenance)}: {_FURTHER_SLICE}"
    if seen.supervisor.maintenance:
        return f"Google announces {seen.supervisor.maintenance}: {_FURTHER_SLICE}"
    lead = plan.deployment.renewal(plan.startup)
    if seen.left_s is not None and lead is not None and seen.left_s < lead.before_end_s():
        return f"it ends in {read_duration(seen.left_s)}: gemma4 renew {plan.stack} asks for the next one"
    return ""
