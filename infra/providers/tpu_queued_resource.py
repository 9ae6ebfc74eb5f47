"""The queued resource of a TPU slice: submits it, finds it again after a lost answer, and does not wait for its machine.

If `create` raised after Google had accepted the request, a slice would exist that Pulumi does not know and somebody pays
for. So it raises only where Google accepted nothing, and returns as soon as the queued resource exists; `TpuNode` waits. A
process that was killed may leave a slice behind all the same: the `SliceCleanup` before this resource removes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, ReadResult, UpdateResult

from infra.errors import GoogleError
from infra.google.refusals import RefusalKind
from infra.google.session import GoogleSession
from infra.google.slice_records import is_expired, is_owned, remove_leftovers, remove_slice, run_end
from infra.google.tpu_types import Provisioning, QueuedResource, QueueState, SliceRequest
from infra.google.tpu_zone import TpuZone
from infra.planning.units import read_duration
from infra.providers.base import DynamicResource, Provider, changed, fail, progress_on, warning_on
from infra.providers.slice_submission import submit, wait_for_first

UNSEEN = "UNKNOWN"
"""State after a request without an answer: the next refresh tells whether the queued resource exists."""

REFUSED = "REFUSED"
"""State of a further slice that Google refused for now: the next `up` asks again."""

EXPIRED = "EXPIRED"
"""State of a request that is still in the queue after its end: Google serves it no more, and the next `up` asks again."""

# What cannot change in a queued resource. Labels, tags, metadata and `valid_until_duration_s` count at creation only.
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
_GONE = (REFUSED, EXPIRED, *(state.value for state in QueueState if state.over))
_NOTHING_TAKEN = (RefusalKind.QUOTA, RefusalKind.UNSUPPORTED, RefusalKind.CAPACITY)


@dataclass(frozen=True)
class TpuQueuedResourceArgs:
    """A `SliceRequest` whose outputs are not known yet. `queued_id` is also the node's id.

    `known_zones` are named where Google refuses this one. `behind` is empty for the first slice. A further slice names the
    first one's queued resource there and is asked for after it; where Google refuses a further slice, that is a warning,
    since the first one must not wait for its quota. `places` are those that its `SliceCleanup` remembers: what a process
    that was killed left at another place is removed before this slice is asked for.
    """

    project: pulumi.Input[str]
    zone: str
    queued_id: str
    accelerator_type: str
    runtime_version: str
    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    service_account: pulumi.Input[str]
    provisioning: str
    valid_until_duration_s: int
    max_run_duration_s: int | None
    metadata: Mapping[str, pulumi.Input[str]]
    labels: Mapping[str, str]
    tags: list[str]
    known_zones: list[str]
    behind: str
    places: pulumi.Input[list[dict[str, str]]]


class TpuQueuedResource(DynamicResource):
    """`created` (RFC 3339) is new for each generation: resources of that generation take it as an input."""

    created: pulumi.Output[str]
    state: pulumi.Output[str]

    def __init__(self, name: str, args: TpuQueuedResourceArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(TpuQueuedResourceProvider(), name, args, opts)


class TpuQueuedResourceProvider(Provider):
    """Submits, adopts, reads and removes a queued resource."""

    replace_active = False
    """`tpu.replaceActive` as the configuration says it now. It is not an input: where a replacement is caused by a
    dependency, Pulumi calls `diff` with the old inputs."""

    def configure(self, req: ConfigureRequest) -> None:
        """Read `tpu.replaceActive`. The program has checked the group `gemma4:tpu` before this is called."""
        super().configure(req)
        tpu = req.config.get("gemma4:tpu")
        self.replace_active = bool(tpu) and json.loads(tpu).get("replaceActive") is True

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ask for the slice, or adopt the one of an earlier request whose answer was lost."""
        progress = progress_on(props.get("urn"))
        here = (props["project"], props["zone"])
        elsewhere = [place for place in props["places"] if (place["project"], place["zone"]) != here]
        try:
            remove_leftovers(self.session(), elsewhere, props["labels"], progress)
            zone = self._zone(props)
            if props["behind"]:
                wait_for_first(zone, props["behind"], progress)
            found = submit(
                zone,
                props["queued_id"],
                slice_request(props),
                may_replace=self.replace_active,
                progress=progress,
            )
        except GoogleError as error:
            if not props["behind"] or error.reason not in _NOTHING_TAKEN or error.maybe_done:
                fail(str(error))
            warning_on(props.get("urn"))(f"{error} Until then the stack goes on without this slice.")
            return CreateResult(props["queued_id"], {**props, "created": "", "state": REFUSED})
        return CreateResult(props["queued_id"], {**props, **_seen(found)})

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the live state, also of an ended request. Absent only where Google answers 404 or it is foreign."""
        try:
            found = self._zone(props).get(id_)
        except GoogleError as error:
            fail(str(error))
        if found is None or not is_owned(found, props["labels"], props["created"]):
            return ReadResult("", {})
        seen = _seen(found)
        if is_expired(found, self.session().clock(), float(props["valid_until_duration_s"])):
            seen["state"] = EXPIRED
        return ReadResult(id_, {**props, **seen})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Replace an ended slice, and one that may be serving only with permission. Metadata is not compared."""
        if olds.get("state") in _GONE:
            return DiffResult(changes=True, replaces=["state"], delete_before_replace=True)
        keys = changed(olds, news, _FIXED)
        if not keys:
            return DiffResult(changes=False)
        if not self.replace_active:
            self._refuse_if_serving(olds, keys)
        return DiffResult(changes=True, replaces=keys, delete_before_replace=True)

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Keep what is known of the queued resource. `diff` never asks for an update."""
        return UpdateResult({**news, "created": olds["created"], "state": olds["state"]})

    def delete(self, id_: str, props: dict[str, Any]) -> None:
        """Delete the slice and wait until it is gone: until then it holds quota and may cost money."""
        try:
            remove_slice(
                self._zone(props), id_, props["labels"], progress_on(props.get("urn")), created=props["created"]
            )
        except GoogleError as error:
            fail(str(error))

    def _zone(self, props: Mapping[str, Any], session: GoogleSession | None = None) -> TpuZone:
        known = props["known_zones"]
        return TpuZone.at(session or self.session(), props, known_zones=known)

    def _refuse_if_serving(self, olds: Mapping[str, Any], keys: list[str]) -> None:
        session = self.session()
        zone = self._zone(olds, session)
        try:
            found = zone.get(olds["queued_id"])
            if found is None or found.state.over or found.state.waits:
                return
            state, node = found.state.value, zone.node(olds["queued_id"])
        except GoogleError:
            state, node = str(olds.get("state")), None  # Google does not answer, so it may be serving
        run = int(olds.get("max_run_duration_s") or 0)
        end = run_end(node, run or None)
        left = None if end is None else max(0.0, end.at - session.clock())
        of_all = f" of its {read_duration(run)}" if run else ""
        lost = "" if left is None else f" with {read_duration(left)}{of_all} left"
        fail(
            f"{olds['queued_id']} may be serving ({state}), and a change of {', '.join(keys)} would give it back{lost}; "
            "whether there is capacity for another is unknown. Undo the change, or allow it: "
            "pulumi config set --path gemma4:tpu.replaceActive true"
        )


def slice_request(props: Mapping[str, Any]) -> SliceRequest:
    """Return the request that a resource's properties describe."""
    run = props.get("max_run_duration_s")  # the engine drops inputs without a value
    return SliceRequest(
        project=props["project"],
        zone=props["zone"],
        node_id=props["queued_id"],
        accelerator_type=props["accelerator_type"],
        runtime_version=props["runtime_version"],
        network=props["network"],
        subnetwork=props["subnetwork"],
        service_account=props["service_account"],
        provisioning=Provisioning(props["provisioning"]),
        valid_until_duration_s=int(props["valid_until_duration_s"]),
        max_run_duration_s=int(run) if run else None,
        metadata=props["metadata"],
        labels=props["labels"],
        tags=props["tags"],
    )


def _seen(found: QueuedResource | None) -> dict[str, str]:
    if found is None:
        return {"created": "", "state": UNSEEN}
    return {"created": found.create_time, "state": found.state.value}
