"""What Google's own record says about a slice: whose it is, whether it is the one that was asked for, what it has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from infra.google.session import GoogleSession
from infra.google.tpu import TpuZone
from infra.google.tpu_types import Node, QueuedResource, QueueState, SliceRequest
from infra.planning.units import read_duration

IDENTITY = ("app", "stack", "slice")
"""Labels that tell one slice from every other; what else a label says may change without making it a stranger."""

_DELETE_S = 3 * 3600.0  # nobody can end PROVISIONING, which was seen to last two hours
_DELETE_POLL_S = 2.0
_EXPIRED_S = 600.0  # a clock may be wrong, and Google late


def is_ours(found: QueuedResource, labels: Mapping[str, str], created: str = "") -> bool:
    """Whether a queued resource carries the identity that we would have given it, or is the generation that we made."""
    if created and found.create_time == created:
        return True
    return all(found.labels.get(key) == labels.get(key) for key in IDENTITY)


def differences(found: QueuedResource, request: SliceRequest) -> tuple[str, ...]:
    """What differs between a record and a request, in words. What the record does not show is not held against it."""
    return tuple(_differences(found, request))


def remove(
    zone: TpuZone,
    queued_id: str,
    labels: Mapping[str, str],
    progress: Callable[[str], None],
    *,
    created: str = "",
) -> None:
    """Delete a slice of ours and see it gone; a stranger's is let be. Raises GoogleError."""
    found = zone.get(queued_id)
    if found is None or not is_ours(found, labels, created):
        return

    def show(still: QueuedResource, waited_s: float, refusal: str) -> None:
        state = still.state.value
        if still.state is QueueState.PROVISIONING:
            state += ", which nobody can end before Google has decided"
        elif refusal and still.state is not QueueState.DELETING:
            state += f", and its deletion was refused: {refusal}"
        progress(f"{state}; deleting it for {read_duration(waited_s)} of at most {read_duration(_DELETE_S)}")

    zone.delete_until_gone(
        queued_id, timeout_s=_DELETE_S, poll_s=_DELETE_POLL_S, created=found.create_time, progress=show
    )


def clear(
    session: GoogleSession,
    places: Iterable[Mapping[str, str]],
    labels: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Remove what is left of a slice of ours at `places`, each a project, a zone and a queued_id. Raises GoogleError."""
    for place in places:
        remove(TpuZone.at(session, place), place["queued_id"], labels, progress)


@dataclass(frozen=True)
class End:
    """When something ends, as the clock counts; `guessed` where Google's record does not say so and our settings do."""

    at: float
    guessed: bool


def run_end(node: Node | None, max_run_duration_s: int | None) -> End | None:
    """When Google ends a machine; without its word, its run duration after it was created. None where neither is known."""
    if node is None:
        return None
    said, created = _moment(node.terminates), _moment(node.create_time)
    if said is not None:
        return End(said, guessed=False)
    if created is None or max_run_duration_s is None:
        return None
    return End(created + max_run_duration_s, guessed=True)


def request_end(found: QueuedResource, asked_s: float | None) -> End | None:
    """When a request leaves the queue by its own record, or else `asked_s` after it was made. None where neither tells."""
    policy, created = found.policy, _moment(found.create_time)
    until = _moment(str(policy.get("validUntilTime") or (policy.get("validInterval") or {}).get("endTime") or ""))
    if until is not None:
        return End(until, guessed=False)
    valid_s = duration_s(str(policy.get("validUntilDuration") or ""))
    if created is None or (valid_s is None and asked_s is None):
        return None
    return End(created + (valid_s if valid_s is not None else asked_s or 0.0), guessed=valid_s is None)


def is_expired(found: QueuedResource, now: float, asked_s: float | None = None) -> bool:
    """Whether a request still stands in the queue ten minutes after its end: Google leaves it there, and serves it no more.

    False where its end is not known.
    """
    end = request_end(found, asked_s) if found.state.waits else None
    return end is not None and now > end.at + _EXPIRED_S


def seconds_since_1970(moment: str) -> float:
    """An RFC 3339 moment as the clock counts it."""
    return datetime.fromisoformat(moment).timestamp()


def _moment(text: str) -> float | None:
    try:
        return seconds_since_1970(text)
    except ValueError:
        return None


def duration_s(text: str) -> float | None:
    """Return the seconds of a duration as Google spells it, `14400s`; None where it is not one."""
    try:
        return float(text.removesuffix("s"))
    except ValueError:
        return None


def _differences(found: QueuedResource, request: SliceRequest) -> Iterator[str]:
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
    for what, (there, asked) in pairs.items():
        if there and there != asked:
            yield f"{what} {there} instead of {asked or 'none'}"


def _last(name: str) -> str:
    """The short name: the API may write a project by its number, or a link with a host before it."""
    return name.rsplit("/", 1)[-1]
