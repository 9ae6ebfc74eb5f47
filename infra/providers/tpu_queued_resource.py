"""The terms on which a TPU slice is asked for, and a ticket: whatever carries the ticket belongs to this resource.

`create` asks Google for nothing. So the ticket is in the state before any request is sent, and nothing that Google makes is
ever unknown to the state: not after an answer that was lost, nor after a process that was killed. `TpuNode` sends the request,
finds it again by its ticket, and waits. The deletion removes whatever carries the ticket.

Other terms are another ticket, and so is a renewal (`pulumi up --replace URN`). Pulumi makes the new resource first, then
everything that depends on it (the machine, its specification, its check), and deletes the old one last. What the real engine
does with that (seen with CLI 3.259, held by tests/engine/test_tpu_renewal_engine.py):

* An `up` that fails after the new one was made keeps it in the state, beside the old one as a *pending deletion*. The next
  `up` makes no third one. It deletes the old one at its end, and only if everything before has succeeded.
* `--replace` calls `create` without `diff`, and `check` without old inputs: `create` cannot know what it follows.
* Refresh and update may run in two processes, so that nothing may be handed on in memory from `read` to `create`.
* What is replaced and goes at the end of the same command is deleted by the process that has checked the new inputs. A
  destroy checks nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CheckResult, CreateResult, DiffResult

from infra.errors import GoogleError
from infra.google.slice_records import Ticket, remove_slice
from infra.google.tpu_types import QueueState
from infra.google.tpu_zone import TpuZone
from infra.providers.base import DynamicResource, Provider, changed, fail, progress_on
from infra.providers.machine_drain import FOLLOWED_S, UNFOLLOWED_S, drain

# What cannot change in a queued resource. What else `TpuNode` asks for counts at creation only.
_FIXED = (
    "project",
    "zone",
    "queued_id",
    "accelerator_type",
    "runtime_version",
    "network",
    "subnetwork",
    "service_account",
    "provisioning",
    "max_run_duration_s",
)

_IN_PROGRAM: set[str] = set()
"""The slices, by `queued_id`, that the program of this command has: one of them that is deleted is followed by another."""


@dataclass(frozen=True)
class TpuQueuedResourceArgs:
    """`queued_id` is the name of the slice's queued resources without their turn; `labels` say who owns them."""

    project: pulumi.Input[str]
    zone: str
    queued_id: str
    accelerator_type: str
    runtime_version: str
    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    service_account: pulumi.Input[str]
    provisioning: str
    max_run_duration_s: int | None
    labels: Mapping[str, str]


class TpuQueuedResource(DynamicResource):
    """`ticket` is new for each one that follows another: what depends on this takes it as an input."""

    ticket: pulumi.Output[str]

    def __init__(self, name: str, args: TpuQueuedResourceArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(TpuQueuedResourceProvider(), name, args, opts)


class TpuQueuedResourceProvider(Provider):
    """Hands out tickets, and removes what carries one."""

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Note that the program has this slice."""
        _IN_PROGRAM.add(news["queued_id"])
        return CheckResult(news, [])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Return a new ticket."""
        ticket = uuid.uuid4().hex
        return CreateResult(f"{props['queued_id']}/{ticket}", {**props, "ticket": ticket})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Replace for other terms: first the new one, unless nothing of the old one can be serving."""
        keys = changed(olds, news, _FIXED)
        if not keys:
            return DiffResult(changes=False)
        return DiffResult(changes=True, replaces=keys, delete_before_replace=not self._may_serve(olds))

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Drain the slice, remove it and wait until it is gone: until then it holds quota and may cost money."""
        zone, progress = self._zone(props), progress_on(props.get("urn"))
        limit_s = FOLLOWED_S if props["queued_id"] in _IN_PROGRAM else UNFOLLOWED_S
        try:
            for found in Ticket.of(props).find(zone):
                if found.state is QueueState.ACTIVE:
                    drain(zone, found.id, limit_s, progress)
                remove_slice(zone, found, progress)
        except GoogleError as error:
            fail(str(error))

    def _may_serve(self, props: Mapping[str, Any]) -> bool:
        """Return whether a machine may have been given: True also where Google does not answer."""
        try:
            return any(
                not found.state.over and not found.state.waits for found in Ticket.of(props).find(self._zone(props))
            )
        except GoogleError:
            return True

    def _zone(self, props: Mapping[str, Any]) -> TpuZone:
        return TpuZone.at(self.session(), props)
