"""One TPU slice: the terms on which it is asked for, and its machine.

Two resources, because the first is what is replaced and deleted, and the second only asks and waits. What the machine serves
changes often, and is a matter of `Rollout`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.providers.serving_spec import TPU
from infra.providers.tpu_node import TpuNode, TpuNodeArgs
from infra.providers.tpu_queued_resource import TpuQueuedResource, TpuQueuedResourceArgs


@dataclass(frozen=True)
class TpuSliceArgs:
    """One of the `slices`, by name. `network` and `subnetwork` are full names, `tag` is the firewall's; `account` is the
    machine's own, by address; `metadata` is what every supervisor finds at its start; `dns_zone` is where it writes its
    address."""

    plan: Plan
    slices: SlicesPlan
    slice: str
    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    tag: str
    account: pulumi.Input[str]
    metadata: Mapping[str, pulumi.Input[str]]
    dns_zone: pulumi.Input[str]
    ready: Sequence[pulumi.Resource]
    """What must be there before a machine that costs money can do anything useful."""


class TpuSlice(pulumi.ComponentResource):
    """`machine` is the name of the machine that serves in the end, its turn included; `instance` is blank while a further
    slice waits for capacity. `paths` selects its server at the gateway, and no other turn's."""

    instance: pulumi.Output[str]
    machine: pulumi.Output[str]
    zone: str
    metadata: Mapping[str, pulumi.Input[str]]
    """What its supervisor follows."""
    paths: Mapping[str, pulumi.Input[str]]
    product, group = TPU, ""

    def __init__(self, name: str, args: TpuSliceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:TpuSlice", name, {}, opts)
        plan, slices, self.zone = args.plan, args.slices, args.slices.zone
        queued_id, first = plan.names.member(args.slice), slices.names[0]
        labels = {**plan.labels, "slice": args.slice}
        queued = TpuQueuedResource(
            f"{name}-queue",
            TpuQueuedResourceArgs(
                project=plan.names.project,
                zone=slices.zone,
                queued_id=queued_id,
                accelerator_type=slices.accelerator_type,
                runtime_version=slices.runtime_version,
                network=args.network,
                subnetwork=args.subnetwork,
                service_account=args.account,
                provisioning=slices.provisioning,
                max_run_duration_s=slices.max_run_duration_s,
                labels=labels,
            ),
            # What a machine uses goes after it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.ready)),
        )
        node = TpuNode(
            f"{name}-node",
            TpuNodeArgs(
                project=plan.names.project,
                zone=slices.zone,
                queued_id=queued_id,
                ticket=queued.ticket,
                accelerator_type=slices.accelerator_type,
                runtime_version=slices.runtime_version,
                network=args.network,
                subnetwork=args.subnetwork,
                service_account=args.account,
                provisioning=slices.provisioning,
                valid_until_duration_s=slices.valid_until_duration_s,
                max_run_duration_s=slices.max_run_duration_s,
                metadata=args.metadata,
                labels=labels,
                tags=[args.tag],
                dns_zone=args.dns_zone,
                domain=plan.names.domain,
                timeout_s=slices.wait_for_capacity_s,
                # A further slice stands behind the queue entry of the first one.
                behind="" if args.slice == first else plan.names.member(first),
                known_zones=list(slices.known_zones),
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.ready)),
        )
        group = slices.member_paths()[args.slice]
        self.machine, self.metadata = node.node_id, args.metadata
        self.paths = {args.slice: node.member.apply(lambda member: f"/members/{member}" if member else group)}
        self.instance = node.instance
        self.register_outputs({"machine": self.machine})
