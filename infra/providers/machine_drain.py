"""Asks a machine that is about to be deleted to finish what it answers, whichever product it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.google.supervisor_report import NAMESPACE, SERVING, read_report, server_stages
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
_DRAINING, _DRAINED = "draining", "drained"
_SERVES = (SERVING, _DRAINING)


class MachinePlace(Protocol):
    """A zone with machines: `TpuZone` or `ComputeZone`."""

    @property
    def session(self) -> GoogleSession: ...

    def is_up(self, name: str, /) -> bool: ...

    def set_metadata(self, name: str, changes: Mapping[str, str | None], /, *, timeout_s: float) -> object: ...

    def guest_attributes(self, name: str, namespace: str, /) -> Mapping[str, str]: ...


def drain(place: MachinePlace, machine: str, limit_s: float, progress: Progress) -> None:
    """Let a machine that serves take no new requests, and wait until it has answered those that it has.

    Returns at once where none of its servers serves or its supervisor has not reported lately. It never fails: a machine that
    cannot be drained is deleted all the same.
    """
    began = place.session.clock()
    try:
        if _stage(place, machine) not in (*_SERVES, _DRAINED):
            return
        place.set_metadata(machine, {DRAIN: "true"}, timeout_s=_WRITE_S)
        while (stage := _stage(place, machine)) in _SERVES:
            waited = place.session.clock() - began
            if waited + _POLL_S > limit_s:
                progress(f"{machine} still answers requests after {read_duration(limit_s)}; they are cut off now")
                return
            progress(
                f"{machine} finishes its requests: for {read_duration(waited)} of at most {read_duration(limit_s)}"
            )
            place.session.sleep(_POLL_S)
        progress(f"{machine} is {stage}" if stage == _DRAINED else f"{machine} does not answer any more")
    except GoogleError as error:
        progress(f"{machine} cannot be asked to finish its requests, and is deleted all the same: {error}")


def _stage(place: MachinePlace, machine: str) -> str:
    """Return the stage that the supervisor reports; blank where there is no machine, or no report of the last minutes.

    It reports that of the worst of its servers. One that serves may have requests whatever the others do.
    """
    if not place.is_up(machine):
        return ""
    attributes = place.guest_attributes(machine, NAMESPACE)
    said = read_report(attributes, place.session.clock())
    if said.age_s is None or said.age_s > _SILENT_S:
        return ""
    is_out = said.stage in (_DRAINING, _DRAINED)
    return SERVING if not is_out and SERVING in server_stages(attributes).values() else said.stage
