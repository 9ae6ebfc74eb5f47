"""Reads Google's record of a slice: whether this stack owns it, whether it matches the request, when it ends.

Also removes a slice that this stack owns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from infra.google.session import GoogleSession
from infra.google.times import duration_s, timestamp_s
from infra.google.tpu_types import Node, QueuedResource, QueueState, SliceRequest
from infra.google.tpu_zone import TpuZone
from infra.planning.units import read_duration

IDENTITY_LABELS = ("app", "stack", "slice")
"""Labels by which a slice is recognised as owned. Other labels may change."""

_DELETE_S = 3 * 3600.0  # PROVISIONING cannot be ended, and was seen to last two hours
_DELETE_POLL_S = 2.0
_EXPIRED_S = 600.0  # a clock may be wrong, and Google may act late


def is_owned(found: QueuedResource, labels: Mapping[str, str], created: str = "") -> bool:
    """Return whether a queued resource belongs to this slice: by its labels, or as the generation that this stack `created`."""
    if created and found.create_time == created:
        return True
    return all(found.labels.get(key) == labels.get(key) for key in IDENTITY_LABELS)


def differences(found: QueuedResource, request: SliceRequest) -> tuple[str, ...]:
    """Return in words what differs between a record and a request. What the record does not show does not count."""
    network: Mapping[str, str] = found.node.get("networkConfig", {})
    duration = "" if request.max_run_duration_s is None else f"{request.max_run_duration_s}s"
    pairs = {
        "accelerator": (found.accelerator_type, request.accelerator_type),
        "runtime version": (str(found.node.get("runtimeVersion", "")), request.runtime_version),
        "network": (_last(network.get("network", "")), _last(request.network)),
        "subnetwork": (_last(network.get("subnetwork", "")), _last(request.subnetwork)),
        "service account": (str(found.node.get("serviceAccount", {}).get("email", "")), request.service_account),
        "provisioning": (found.provisioning.value, request.provisioning.value),
        "run duration": (found.max_run_duration, duration),
    }
    return tuple(
        f"{what} {there} instead of {asked or 'none'}"
        for what, (there, asked) in pairs.items()
        if there and there != asked
    )


def remove_slice(
    zone: TpuZone,
    queued_id: str,
    labels: Mapping[str, str],
    progress: Callable[[str], None],
    *,
    created: str = "",
) -> None:
    """Delete an owned slice and wait until it is gone; leave a foreign one alone. Raises GoogleError."""
    found = zone.get(queued_id)
    if found is None or not is_owned(found, labels, created):
        return

    def show(still: QueuedResource, waited_s: float, refusal: str) -> None:
        state = still.state.value
        if still.state is QueueState.PROVISIONING:
            state += ", which cannot be ended before Google has decided"
        elif refusal and still.state is not QueueState.DELETING:
            state += f", and its deletion was refused: {refusal}"
        progress(f"{state}; deleting it for {read_duration(waited_s)} of at most {read_duration(_DELETE_S)}")

    zone.delete_until_gone(
        queued_id, timeout_s=_DELETE_S, poll_s=_DELETE_POLL_S, created=found.create_time, progress=show
    )


def remove_leftovers(
    session: GoogleSession,
    places: Iterable[Mapping[str, str]],
    labels: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Remove an owned slice from all `places`, each a project, a zone and a queued_id. Raises GoogleError."""
    for place in places:
        remove_slice(TpuZone.at(session, place), place["queued_id"], labels, progress)


@dataclass(frozen=True)
class EndTime:
    """When something ends, in seconds since 1970. `guessed`: taken from the settings, because Google's record does not say."""

    at: float
    guessed: bool


def run_end(node: Node | None, max_run_duration_s: int | None) -> EndTime | None:
    """Return when Google ends a machine: as its record says, else its run duration after its creation, else None."""
    if node is None:
        return None
    said, created = timestamp_s(node.terminates), timestamp_s(node.create_time)
    if said is not None:
        return EndTime(said, guessed=False)
    if created is None or max_run_duration_s is None:
        return None
    return EndTime(created + max_run_duration_s, guessed=True)


def request_end(found: QueuedResource, asked_s: float | None) -> EndTime | None:
    """Return when a request leaves the queue: as its record says, else `asked_s` after its creation, else None."""
    policy, created = found.policy, timestamp_s(found.create_time)
    until = timestamp_s(str(policy.get("validUntilTime") or (policy.get("validInterval") or {}).get("endTime") or ""))
    if until is not None:
        return EndTime(until, guessed=False)
    valid_s = duration_s(str(policy.get("validUntilDuration") or ""))
    if created is None or (valid_s is None and asked_s is None):
        return None
    return EndTime(created + (valid_s if valid_s is not None else asked_s or 0.0), guessed=valid_s is None)


def is_expired(found: QueuedResource, now: float, asked_s: float | None = None) -> bool:
    """Return whether a request is still in the queue ten minutes after its end: Google leaves it there without serving it.

    False where its end is not known.
    """
    end = request_end(found, asked_s) if found.state.waits else None
    return end is not None and now > end.at + _EXPIRED_S


def _last(name: str) -> str:
    """Return the short name: the API may write a project by its number, or a link with a host before it."""
    return name.rsplit("/", 1)[-1]
