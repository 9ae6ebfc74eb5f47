"""Asks Google for the status of a stack's TPU slices, by their names alone: a slice is found though the stack's state has
lost it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.google.slice_records import is_expired, is_owned, request_end, run_end
from infra.google.times import duration_s, timestamp_s
from infra.google.tpu_types import Node, Provisioning, QueuedResource
from infra.google.tpu_zone import TpuZone
from infra.ops.tpu.next_step import with_next_step
from infra.ops.tpu.slice_status import SliceStatus, SupervisorReport
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.units import read_duration

_NAMESPACE, _KEY = "gemma4", "status"  # of the guest attribute that holds the supervisor's report


def slice_statuses(session: GoogleSession, plan: Plan, slices: SlicesPlan) -> list[SliceStatus]:
    """Return the status of each planned slice, in the order of `tpu.slices`. Raises GoogleError."""
    zone = TpuZone(session, slices.zone)
    return [with_next_step(_read_slice(zone, plan, slices, name), plan) for name in slices.names]


def read_report(attributes: Mapping[str, str], now: float) -> SupervisorReport:
    """Return the supervisor's report, blank where there is none that can be read. `now`: seconds since 1970."""
    try:
        said: Any = json.loads(attributes.get(_KEY, ""))
    except ValueError:
        return SupervisorReport()
    if not isinstance(said, dict):
        return SupervisorReport()
    newest: Mapping[str, Any] = next(iter(said.get("errors") or ()), {})
    at = str(said.get("at") or "")
    return SupervisorReport(
        stage=str(said.get("stage") or ""),
        wanted=str(said.get("wanted") or ""),
        running=str(said.get("running") or ""),
        preparing=_preparing(said),
        error=str(newest.get("message", "")),
        maintenance=str(said.get("maintenance") or ""),
        at=at,
        age_s=_age_s(at, now),
    )


def moment(seconds_since_1970: float) -> str:
    """Return a time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(round(seconds_since_1970), UTC).isoformat().replace("+00:00", "Z")


def _read_slice(zone: TpuZone, plan: Plan, slices: SlicesPlan, name: str) -> SliceStatus:
    slice_id = plan.names.member(name)
    queued = zone.get(slice_id)
    if queued is None:
        return SliceStatus(name, slice_id)
    now = zone.session.clock()
    seen = SliceStatus(
        name,
        slice_id,
        owned=is_owned(queued, {**plan.labels, "slice": name}),
        queue=queued.state.value,
        why=queued.error,
        waited_s=_age_s(queued.create_time, now),
        expired=is_expired(queued, now, slices.valid_until_duration_s),
        **_expiry(queued, slices),
        granted=_granted(queued, slices),
    )
    node = zone.node(slice_id)
    return seen if node is None else _with_machine(seen, node, _said(zone, slice_id), _run_s(queued, slices), now)


def _with_machine(
    seen: SliceStatus, node: Node, supervisor: SupervisorReport, run_s: int | None, now: float
) -> SliceStatus:
    end = run_end(node, run_s)
    return replace(
        seen,
        node=node.state,
        address=node.address,
        health=node.health,
        problem=node.problem,
        maintenance=node.maintenance,
        supervisor=supervisor,
        age_s=_age_s(node.create_time, now),
        left_s=None if end is None else max(0.0, end.at - now),
        ends_at="" if end is None else moment(end.at),
        ends_guessed=end is not None and end.guessed,
    )


def _said(zone: TpuZone, node_id: str) -> SupervisorReport:
    try:
        return read_report(zone.guest_attributes(node_id, _NAMESPACE), zone.session.clock())
    except GoogleError as error:
        return SupervisorReport(unreadable=str(error))


def _run_s(queued: QueuedResource, slices: SlicesPlan) -> int | None:
    """The run duration that was granted; what the file says only where Google's record leaves it out."""
    granted_s = duration_s(queued.max_run_duration)
    if granted_s is not None:
        return round(granted_s)
    return slices.max_run_duration_s if queued.provisioning is Provisioning.FLEX_START else None


def _granted(queued: QueuedResource, slices: SlicesPlan) -> str:
    was, run_s = queued.provisioning.value, _run_s(queued, slices)
    if (was, run_s) == (slices.provisioning, slices.max_run_duration_s):
        return ""
    return f"granted as {_terms(was, run_s)}, the file says {_terms(slices.provisioning, slices.max_run_duration_s)}"


def _terms(provisioning: str, run_s: int | None) -> str:
    return provisioning if run_s is None else f"{provisioning} for {read_duration(run_s)}"


def _expiry(queued: QueuedResource, slices: SlicesPlan) -> dict[str, Any]:
    end = request_end(queued, slices.valid_until_duration_s) if queued.state.waits else None
    return {} if end is None else {"expires_at": moment(end.at), "expires_guessed": end.guessed}


def _preparing(said: Mapping[str, Any]) -> str:
    percent = said.get("weightsPercent")
    weights = "" if percent is None else f", {percent} % of the weights are here"
    return f"{said['preparing']}{weights}" if said.get("preparing") else ""


def _age_s(at: str, now: float) -> float | None:
    written = timestamp_s(at)
    return None if written is None else max(0.0, now - written)
