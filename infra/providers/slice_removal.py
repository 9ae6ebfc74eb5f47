"""Removes what carries a ticket: a machine that serves is drained first, for a limited time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infra.errors import GoogleError
from infra.google.slice_records import Ticket, remove_slice
from infra.google.times import timestamp_s
from infra.google.tpu_types import QueueState
from infra.google.tpu_zone import TpuZone
from infra.planning.gateway.members import DRAIN
from infra.planning.units import read_duration
from infra.providers.base import Progress

FOLLOWED_S = 15 * 60.0
"""How long a machine that another one follows may finish what it answers."""
UNFOLLOWED_S = 60.0
"""The same where none follows: somebody waits for the end, and new requests have nowhere to go."""
_SILENT_S = 150.0  # the supervisor renews its report every minute
_WRITE_S = 60.0
_POLL_S = 2.0
_NAMESPACE, _KEY = "gemma4", "status"
_SERVES, _DRAINED = ("serving", "draining"), "drained"


def remove_all(zone: TpuZone, ticket: Ticket, *, followed: bool, progress: Progress) -> None:
    """Delete whatever carries the ticket, and wait until it is gone. Raises GoogleError."""
    for found in ticket.find(zone):
        if found.state is QueueState.ACTIVE:
            drain(zone, found.id, FOLLOWED_S if followed else UNFOLLOWED_S, progress)
        remove_slice(zone, found, progress)


def drain(zone: TpuZone, node_id: str, limit_s: float, progress: Progress) -> None:
    """Let a machine that serves take no new requests, and wait until it has answered those that it has.

    Returns at once where its server does not serve or its supervisor has not reported lately. It never fails: a machine that
    cannot be drained is deleted all the same.
    """
    began = zone.session.clock()
    try:
        if _stage(zone, node_id) not in (*_SERVES, _DRAINED):
            return
        zone.set_metadata(node_id, {DRAIN: "true"}, timeout_s=_WRITE_S)
        while (stage := _stage(zone, node_id)) in _SERVES:
            waited = zone.session.clock() - began
            if waited + _POLL_S > limit_s:
                progress(f"{node_id} still answers requests after {read_duration(limit_s)}; they are cut off now")
                return
            progress(
                f"{node_id} finishes its requests: for {read_duration(waited)} of at most {read_duration(limit_s)}"
            )
            zone.session.sleep(_POLL_S)
        progress(f"{node_id} is {stage}" if stage == _DRAINED else f"{node_id} does not answer any more")
    except GoogleError as error:
        progress(f"{node_id} cannot be asked to finish its requests, and is deleted all the same: {error}")


def _stage(zone: TpuZone, node_id: str) -> str:
    """Return the stage that the supervisor reports; blank where there is no machine, or no report of the last minutes."""
    node = zone.node(node_id)
    if node is None or not node.ready:
        return ""
    try:
        said: Any = json.loads(zone.guest_attributes(node_id, _NAMESPACE).get(_KEY, ""))
    except ValueError:
        return ""
    if not isinstance(said, Mapping):
        return ""
    at = timestamp_s(str(said.get("at") or ""))
    recent = at is not None and zone.session.clock() - at <= _SILENT_S
    return str(said.get("stage") or "") if recent else ""
