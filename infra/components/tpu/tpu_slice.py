"""One TPU slice: its place in the queue, and its machine.

Two resources, because the first is paid for and never disturbed, and the second only waits. A third stands before them and
cleans up whatever is left of the slice at its end. What the machine serves changes often, and is a matter of `Rollout`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.components.shared.machine_metadata import with_log
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.providers.serving_spec import TPU
from infra.providers.slice_cleanup import SliceCleanup, SliceCleanupArgs
from infra.providers.tpu_node import TpuNode, TpuNodeArgs
from infra.providers.tpu_queued_resource import TpuQueuedResource, TpuQueuedResourceArgs


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
    machine: str
    zone: str
    metadata: Mapping[str, pulumi.Input[str]]
    """What its supervisor follows."""
    paths: Mapping[str, str]
    product, group = TPU, ""

    def __init__(self, name: str, args: TpuSliceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:TpuSlice", name, {}, opts)
        plan, slices, self.zone = args.plan, args.slices, args.slices.zone
        member, first = plan.names.member(args.slice), slices.names[0]
        self.machine, self.paths = member, {args.slice: slices.member_paths()[args.slice]}
        self.metadata = with_log(args.metadata, plan, args.slice, slices.zone)
        labels = {**plan.labels, "slice": args.slice}
        # A further slice stands behind the queue entry of the first one.
        behind = "" if args.slice == first else plan.names.member(first)
        cleanup = SliceCleanup(
            f"{name}-cleanup",
            SliceCleanupArgs(plan.names.project, slices.zone, member, labels),
            # What a machine uses goes after it, whatever is left of it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.ready)),
        )
        queued = TpuQueuedResource(
            f"{name}-queue",
            TpuQueuedResourceArgs(
                project=plan.names.project,
                zone=slices.zone,
                queued_id=member,
                accelerator_type=slices.accelerator_type,
                runtime_version=slices.runtime_version,
                network=args.network,
                subnetwork=args.subnetwork,
                service_account=args.account,
                provisioning=slices.provisioning,
                valid_until_duration_s=slices.valid_until_duration_s,
                max_run_duration_s=slices.max_run_duration_s,
                metadata={
                    **self.metadata,
                    "enable-guest-attributes": "TRUE",  # taken at creation only
                },
                labels=labels,
                tags=[args.tag],
                known_zones=list(slices.known_zones),
                behind=behind,
                places=cleanup.places,
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cleanup, *args.ready]),
        )
        node = TpuNode(
            f"{name}-node",
            TpuNodeArgs(
                project=plan.names.project,
                zone=slices.zone,
                queued_id=member,
                generation=queued.created,
                accelerator_type=slices.accelerator_type,
                timeout_s=slices.wait_for_capacity_s,
                behind=behind,
                known_zones=list(slices.known_zones),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.address, self.instance = node.address, node.instance
        self.register_outputs({"address": self.address})
