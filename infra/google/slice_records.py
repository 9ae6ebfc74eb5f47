"""Reads Google's record of a slice: whether this stack owns it, by which ticket it was asked for, when it ends.

Also removes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from infra.google.times import duration_s, timestamp_s
from infra.google.tpu_types import Node, QueuedResource, QueueState
from infra.google.tpu_zone import TpuZone
from infra.planning.gateway.members import TURNS
from infra.planning.units import read_duration

IDENTITY_LABELS = ("app", "stack", "slice")
"""Labels by which a slice is recognised as owned. Other labels may change."""
TICKET = "ticket"
"""The label that tells the machines of one slice apart that follow each other."""

_DELETE_S = 3 * 3600.0  # PROVISIONING cannot be ended, and was seen to last two hours
_DELETE_POLL_S = 2.0
_EXPIRED_S = 600.0  # a clock may be wrong, and Google may act late


@dataclass(frozen=True)
class Ticket:
    """By which the queued resources of one slice are recognised: `labels` say whose they are, `number` which of them.

    `queued_id` is their name without the turn.
    """

    queued_id: str
    labels: Mapping[str, str]
    number: str

    @classmethod
    def of(cls, props: Mapping[str, Any]) -> Self:
        """Return the ticket in the properties of a resource."""
        return cls(props["queued_id"], props["labels"], props["ticket"])

    @property
    def names(self) -> tuple[str, ...]:
        """What a queued resource of the slice, and its machine, may be called."""
        return tuple(f"{self.queued_id}-{turn}" for turn in TURNS)

    def member(self, node_id: str) -> str:
        """Return the name at the gateway of the machine of that name: blue-a."""
        return f"{self.labels['slice']}{node_id.removeprefix(self.queued_id)}"

    def owns(self, zone: TpuZone, found: QueuedResource) -> bool:
        """Return whether a queued resource is one of this slice's, by whichever ticket."""
        return _is_of(_labels(zone, found), self.labels)

    def is_on(self, zone: TpuZone, found: QueuedResource) -> bool:
        """Return whether a queued resource was asked for by this ticket."""
        return self.owns(zone, found) and _labels(zone, found).get(TICKET) == self.number

    def find(self, zone: TpuZone) -> list[QueuedResource]:
        """Return what was asked for by this ticket. Raises GoogleError."""
        there = [zone.get(name) for name in self.names]
        return [found for found in there if found is not None and self.is_on(zone, found)]


def is_owned(found: QueuedResource, labels: Mapping[str, str]) -> bool:
    """Return whether a queued resource belongs to the slice with these labels."""
    return _is_of(found.labels, labels)


def remove_slice(zone: TpuZone, found: QueuedResource, progress: Callable[[str], None]) -> None:
    """Delete a queued resource with its machine and wait until it is gone; one of the same name that came since stays.

    Raises GoogleError.
    """

    def show(still: QueuedResource, waited_s: float, refusal: str) -> None:
        state = still.state.value
        if still.state is QueueState.PROVISIONING:
            state += ", which cannot be ended before Google has decided"
        elif refusal and still.state is not QueueState.DELETING:
            state += f", and its deletion was refused: {refusal}"
        progress(f"{state}; deleting it for {read_duration(waited_s)} of at most {read_duration(_DELETE_S)}")

    zone.delete_until_gone(
        found.id, timeout_s=_DELETE_S, poll_s=_DELETE_POLL_S, created=found.create_time, progress=show
    )


def delete_command(found: QueuedResource, project: str) -> str:
    """Return the command that deletes a queued resource together with its machine."""
    return f"gcloud compute tpus queued-resources delete {found.id} --zone {found.zone} --project {project} --force"


def _is_of(found: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(found.get(key) == labels.get(key) for key in IDENTITY_LABELS)


def _labels(zone: TpuZone, found: QueuedResource) -> Mapping[str, str]:
    """Return the labels of a record, or of its machine where the record shows none."""
    if found.labels or found.state is not QueueState.ACTIVE:
        return found.labels
    node = zone.node(found.id)
    return node.labels if node else {}


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
