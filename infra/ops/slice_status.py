"""How a stack's TPU slices are, and what to do about each: read from Google and judged, without printing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.google.slices import is_ours, seconds_left, seconds_since_1970
from infra.google.tpu import TpuZone
from infra.google.tpu_types import Node, QueuedResource, QueueState
from infra.planning.plan import Plan
from infra.planning.quantities import read_duration
from infra.planning.slices import SlicesPlan

NAMESPACE, KEY = "gemma4", "status"
SERVING = "serving"
_SOON_S = 3600


@dataclass(frozen=True)
class Supervisor:
    """What the machine says of itself; `error` is the newest trouble. All blank where it has said nothing yet."""

    stage: str = ""
    wanted: str = ""
    running: str = ""
    preparing: str = ""
    error: str = ""


@dataclass(frozen=True)
class SliceStatus:
    """`left_s` is the time until the run duration ends, `waited_s` since the request; None where that is not known."""

    name: str
    id: str
    queue: str
    why: str
    node: str
    address: str
    supervisor: Supervisor
    waited_s: float | None
    left_s: float | None
    next: str


def slice_statuses(session: GoogleSession, plan: Plan, slices: SlicesPlan) -> list[SliceStatus]:
    """One a slice of the plan, in its order. Works from names alone: it finds what a broken state file has lost."""
    zone = TpuZone(session, slices.zone)
    return [_status(zone, plan, slices, name) for name in slices.names]


def _status(zone: TpuZone, plan: Plan, slices: SlicesPlan, name: str) -> SliceStatus:
    slice_id = plan.names.slice(name)
    queued = zone.get(slice_id)
    node = zone.node(slice_id) if queued is not None else None
    supervisor = read_supervisor(_said(zone, slice_id)) if node is not None else Supervisor()
    now = zone.session.clock()
    left_s = seconds_left(node.create_time, slices.max_run_duration_s, now) if node is not None else None
    ours = queued is None or is_ours(queued, {**plan.labels, "slice": name})
    return SliceStatus(
        name=name,
        id=slice_id,
        queue=queued.state.value if queued is not None else "none",
        why=queued.error if queued is not None else "",
        node=node.state if node is not None else "",
        address=node.address if node is not None else "",
        supervisor=supervisor,
        waited_s=now - seconds_since_1970(queued.create_time) if queued and queued.create_time else None,
        left_s=left_s,
        next=what_next(plan, queued, node, supervisor, left_s) if ours else _not_ours(slice_id),
    )


def _said(zone: TpuZone, node_id: str) -> Mapping[str, str]:
    try:
        return zone.guest_attributes(node_id, NAMESPACE)
    except GoogleError:
        return {}  # they may be switched off: the machine's log has the same


def read_supervisor(attributes: Mapping[str, str]) -> Supervisor:
    """The supervisor's report; blank where there is none, or none that can be read."""
    try:
        said: Any = json.loads(attributes.get(KEY, ""))
    except ValueError:
        return Supervisor()
    if not isinstance(said, dict):
        return Supervisor()
    newest: Mapping[str, Any] = next(iter(said.get("errors") or ()), {})
    return Supervisor(
        stage=str(said.get("stage") or ""),
        wanted=str(said.get("wanted") or ""),
        running=str(said.get("running") or ""),
        preparing=_preparing(said),
        error=str(newest.get("message", "")),
    )


def _preparing(said: Mapping[str, Any]) -> str:
    percent = said.get("weightsPercent")
    weights = "" if percent is None else f", {percent} % of the weights are here"
    return f"{said['preparing']}{weights}" if said.get("preparing") else ""


def what_next(
    plan: Plan, queued: QueuedResource | None, node: Node | None, supervisor: Supervisor, left_s: float | None
) -> str:
    """The one thing to do, or that there is nothing to do."""
    if queued is None:
        return "nothing is queued: pulumi up asks for it"
    if queued.state.ended:
        return "it has ended and holds quota: pulumi up replaces it, gemma4 tpu husks --delete only removes it"
    if queued.state in (QueueState.SUSPENDING, QueueState.DELETING):
        return "it is ending: wait a minute, then pulumi up asks for another"
    if queued.state.waits:
        return "it waits for capacity: nothing to do, or see gemma4 zones for other zones"
    if queued.state is not QueueState.ACTIVE or node is None:
        return "it is being set up: look again in some minutes"
    if supervisor.error:
        return "the machine reports trouble: see the line above and its log (Cloud Logging)"
    if supervisor.running and supervisor.running != plan.command.spec_hash and supervisor.stage == SERVING:
        return "it serves another specification than planned: pulumi up brings it up to date"
    if left_s is not None and left_s < _SOON_S:
        return f"it ends in {read_duration(left_s)}: queue a further slice (tpu.slices) to go on serving"
    if supervisor.stage == SERVING:
        return "nothing: it serves"
    return "it is starting: image, weights and compilation take a while"


def _not_ours(slice_id: str) -> str:
    return f"{slice_id} carries labels of somebody else: pulumi up leaves it alone; rename the slice or the stack"
