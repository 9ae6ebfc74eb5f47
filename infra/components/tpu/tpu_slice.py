"""One TPU slice: its place in the queue, and its machine.

Two resources, because the first is paid for and never disturbed, and the second only waits. A third stands before them and
cleans up whatever is left of the slice at its end. What the machine serves changes often, and is a matter of `Rollout`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.components.tpu.slice_metadata import with_log
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.providers.slice_cleanup import SliceCleanup, SliceCleanupArgs
from infra.providers.tpu_node import TpuNode, TpuNodeArgs
from infra.providers.tpu_queued_resource import TpuQueuedResource, TpuQueuedResourceArgs

_ONLY_AT_CREATION = {"enable-guest-attributes": "TRUE"}


@dataclass(frozen=True)
class TpuSliceArgs:
    """One of the `slices`, by name. `network` and `subnetwork` are full names, `tag` is the firewall's; `account` is the
    machine's own, by address; `metadata` is what every supervisor finds at its start."""

    plan: Plan
    slices: SlicesPlan
    slice: str
    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    tag: str
    account: pulumi.Input[str]
    metadata: Mapping[str, pulumi.Input[str]]
    ready: Sequence[pulumi.Resource]
    """What must be there before a machine that costs money can do anything useful."""


class TpuSlice(pulumi.ComponentResource):
    """`address` and `instance` are blank while a further slice waits for capacity."""

    address: pulumi.Output[str]
    instance: pulumi.Output[str]
    zone: str

    def __init__(self, name: str, args: TpuSliceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:TpuSlice", name, {}, opts)
        self._name, self._args, self._slices = name, args, args.slices
        self._names, self._id = args.plan.names, args.plan.names.member(args.slice)
        node = self._node(self._queued())
        self.address, self.instance, self.zone = node.address, node.instance, args.slices.zone
        self.register_outputs({"address": self.address})

    def _queued(self) -> TpuQueuedResource:
        slices, behind = self._slices, self._behind()
        labels = {**self._args.plan.labels, "slice": self._args.slice}
        cleanup = SliceCleanup(
            f"{self._name}-cleanup",
            SliceCleanupArgs(self._names.project, slices.zone, self._id, labels),
            # What a machine uses goes after it, whatever is left of it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(self._args.ready)),
        )
        return TpuQueuedResource(
            f"{self._name}-queue",
            TpuQueuedResourceArgs(
                project=self._names.project,
                zone=slices.zone,
                queued_id=self._id,
                accelerator_type=slices.accelerator_type,
                runtime_version=slices.runtime_version,
                network=self._args.network,
                subnetwork=self._args.subnetwork,
                service_account=self._args.account,
                provisioning=slices.provisioning,
                valid_until_duration_s=slices.valid_until_duration_s,
                max_run_duration_s=slices.max_run_duration_s,
                metadata={**self._metadata(), **_ONLY_AT_CREATION},
                labels=labels,
                tags=[self._args.tag],
                known_zones=list(slices.known_zones),
                behind=behind,
                places=cleanup.places,
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cleanup, *self._args.ready]),
        )

    def _metadata(self) -> Mapping[str, pulumi.Input[str]]:
        return with_log(self._args.metadata, self._args.plan, self._args.slice, self._slices.zone)

    def _behind(self) -> str:
        """Return the queue entry of the first slice, for a further one; empty for the first."""
        first = self._slices.names[0]
        return "" if self._args.slice == first else self._names.member(first)

    def _node(self, queued: TpuQueuedResource) -> TpuNode:
        return TpuNode(
            f"{self._name}-node",
            TpuNodeArgs(
                project=self._names.project,
                zone=self._slices.zone,
                queued_id=self._id,
                generation=queued.created,
                accelerator_type=self._slices.accelerator_type,
                timeout_s=self._slices.wait_for_capacity_s,
                behind=self._behind(),
                known_zones=list(self._slices.known_zones),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
