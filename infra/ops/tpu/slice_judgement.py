"""Whether a TPU slice serves what the plan says, and the one thing to do about it: a single judgement, so that what a
person reads and the exit code that a script sees cannot contradict each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from infra.google.logs import LogSource
from infra.google.tpu_types import QueueState
from infra.planning.plan import Plan
from infra.planning.units import read_duration

SERVING = "serving"
SILENT_S = 300.0
"""The supervisor renews its report every minute: one that is five minutes old says nothing about now."""

_SOON_S = 3600
_WELL = ("HEALTHY", "HEALTH_UNSPECIFIED", "")
_SETTING_UP = ("CREATING", "STARTING", "RESTARTING", "REIMAGING", "REPAIRING")


@dataclass(frozen=True)
class Supervisor:
    """What the machine says of itself; `error` is the newest trouble, `at` (RFC 3339) and `age_s` tell when it spoke.

    All blank where it has said nothing yet; `unreadable` says why Google does not hand the report out.
    """

    stage: str = ""
    wanted: str = ""
    running: str = ""
    preparing: str = ""
    error: str = ""
    maintenance: str = ""
    at: str = ""
    age_s: float | None = None
    unreadable: str = ""


@dataclass(frozen=True)
class SliceStatus:
    """`left_s` is the time until the run duration ends, `waited_s` since the request, `age_s` since the machine came;
    None where that is not known. `ends_at` and `expires_at` (of a request that waits) are RFC 3339; each is `guessed` where
    it follows from settings instead of Google's record. `expired`: the request stands in the queue after its end. `granted`
    says how what was granted differs from the file. `serving` and `next` are the judgement.
    """

    name: str
    id: str
    ours: bool = True
    queue: str = "none"
    why: str = ""
    node: str = ""
    address: str = ""
    health: str = ""
    problem: str = ""
    maintenance: str = ""
    supervisor: Supervisor = field(default_factory=Supervisor)
    waited_s: float | None = None
    expires_at: str = ""
    expires_guessed: bool = False
    expired: bool = False
    age_s: float | None = None
    left_s: float | None = None
    ends_at: str = ""
    ends_guessed: bool = False
    granted: str = ""
    serving: bool = False
    next: str = ""


@dataclass(frozen=True)
class Judgement:
    """`serving`: granted, ours, ready, healthy, heard from, and serving the planned specification."""

    serving: bool
    next: str


def judge(seen: SliceStatus, plan: Plan) -> Judgement:
    """What stands first decides: queue, owner, machine, health, report, specification; then what will end a slice that
    may well serve; and last its stage."""
    fault = _queue(seen) or _machine(seen) or _report(seen, plan) or _specification(seen, plan)
    if fault:
        return Judgement(False, fault)
    serving = seen.supervisor.stage == SERVING
    ahead = _trouble(seen, plan) or _maintenance(seen) or _time_left(seen)
    return Judgement(serving, ahead or ("nothing: it serves" if serving else _STARTING))


def when(moment: str) -> str:
    """An RFC 3339 moment for reading; what is none is left as it is."""
    try:
        return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return moment


_STARTING = "it is starting: image, weights and compilation take a while"


def _queue(seen: SliceStatus) -> str:
    if seen.queue == "none":
        return "nothing is queued: pulumi up asks for it"
    if not seen.ours:
        return f"{seen.id} carries labels of somebody else: pulumi up leaves it alone; rename the slice or the stack"
    state = QueueState(seen.queue)
    if state.ended:
        return "it has ended and holds quota: pulumi up replaces it, gemma4 tpu husks --delete only removes it"
    if state.over:
        return "it is ending: wait a minute, then pulumi up asks for another"
    if seen.expired:
        return "its time in the queue is over, and Google left it there: pulumi up removes it and asks anew"
    if state.waits:
        return "it waits for capacity: nothing to do, or see gemma4 zones for other zones"
    return "" if state is QueueState.ACTIVE else "it is being set up: look again in some minutes"


def _machine(seen: SliceStatus) -> str:
    if not seen.node:
        return "it is ACTIVE without a machine: look again in a minute; if it stays so, pulumi up says how to go on"
    if seen.node in _SETTING_UP:
        return f"its machine is {seen.node}: look again in some minutes"
    if seen.node != "READY":
        return f"its machine is {seen.node}: it does not come back by itself; pulumi up says how to go on"
    if seen.health not in _WELL or (seen.problem and seen.health != _WELL[0]):
        what = ": ".join(filter(None, (seen.health, seen.problem)))
        return f"its machine is not well ({what}): if Google does not mend it, give the slice back and run pulumi up"
    return ""


def _report(seen: SliceStatus, plan: Plan) -> str:
    said = seen.supervisor
    if said.unreadable:
        return "whether it serves is unknown, since its report cannot be read: see the line above"
    if said.age_s is not None and said.age_s > SILENT_S:
        return f"it was not heard from for {read_duration(said.age_s)}: see {_log(seen, plan)}"
    slowest = plan.startup.from_zero.high
    if not said.stage and seen.age_s is not None and seen.age_s > slowest:
        since = f"since it came {read_duration(seen.age_s)} ago, longer than a start takes"
        return f"nothing was heard from it {since}: see {_log(seen, plan)}"
    return ""


def _specification(seen: SliceStatus, plan: Plan) -> str:
    said = seen.supervisor
    if said.stage != SERVING or said.running == plan.command.spec_hash:
        return ""
    if said.error:
        return f"it serves another specification than planned, and {_TROUBLE} {_log(seen, plan)}"
    if said.preparing:
        return "it serves another specification while it prepares the next: look again in some minutes"
    return "it serves another specification than planned: pulumi up brings it up to date"


_TROUBLE = "reports trouble: see the line above, and what came before it:"


def _trouble(seen: SliceStatus, plan: Plan) -> str:
    return f"the machine {_TROUBLE} {_log(seen, plan)}" if seen.supervisor.error else ""


def _log(seen: SliceStatus, plan: Plan) -> str:
    """The command that shows what the machine wrote."""
    return LogSource.slice(seen.id, plan.zone or "").command(plan.names.project)


def _maintenance(seen: SliceStatus) -> str:
    if seen.maintenance:
        return f"Google announces maintenance for {when(seen.maintenance)}: {_FURTHER}"
    if seen.supervisor.maintenance:
        return f"Google announces {seen.supervisor.maintenance}: {_FURTHER}"
    return ""


_FURTHER = "queue a further slice (tpu.slices) to go on serving"


def _time_left(seen: SliceStatus) -> str:
    if seen.left_s is None or seen.left_s >= _SOON_S:
        return ""
    return f"it ends in {read_duration(seen.left_s)}: {_FURTHER}"
