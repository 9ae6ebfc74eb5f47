"""One TPU slice: its place in the queue, its machine, and what it should serve.

Three resources, because they change for different reasons: the first is paid for and never disturbed by a flag, the
second only waits, the third changes in place. Nothing but a serving check may depend on the third.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.planning.plan import Plan
from infra.planning.quantities import parse_duration
from infra.providers.queued_resource import QueuedResource, QueuedResourceInputs
from infra.providers.serving_spec import ServingSpec, ServingSpecInputs
from infra.providers.tpu_node import TpuNode, TpuNodeInputs

_ONLY_AT_CREATION = {"enable-guest-attributes": "TRUE"}


@dataclass(frozen=True)
class TpuSliceArgs:
    """`network` and `subnetwork` are full names, `tag` is the firewall's; `account` is the machine's own, by address;
    `metadata` is what its supervisor reads."""

    plan: Plan
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
    spec: ServingSpec

    def __init__(self, name: str, args: TpuSliceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:TpuSlice", name, {}, opts)
        self._name, self._args, self._plan = name, args, args.plan
        queued = self._queued()
        node = self._node(queued)
        self.address, self.instance = node.address, node.instance
        self.spec = ServingSpec(
            f"{name}-spec",
            ServingSpecInputs(
                project=self._plan.names.project,
                zone=self._zone,
                node_id=self._id,
                instance=node.instance,
                metadata=args.metadata,
            ),
            # A specification must not name weights or an image that are still on their way.
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.ready)),
        )
        self.register_outputs({"address": self.address})

    @property
    def _id(self) -> str:
        return self._plan.names.slice(self._args.slice)

    @property
    def _zone(self) -> str:
        if self._plan.zone is None:
            raise ValueError(f"{self._plan.accelerator.id} has no zone")
        return self._plan.zone

    def _queued(self) -> QueuedResource:
        tpu, limits = self._plan.settings.tpu, self._plan.accelerator.tpu
        if limits is None:
            raise ValueError(f"{self._plan.accelerator.id} is not a TPU")
        flex = tpu.provisioning == "flex-start"
        return QueuedResource(
            f"{self._name}-queue",
            QueuedResourceInputs(
                project=self._plan.names.project,
                zone=self._zone,
                queued_id=self._id,
                accelerator_type=limits.accelerator_type,
                runtime_version=limits.runtime_version,
                network=self._args.network,
                subnetwork=self._args.subnetwork,
                service_account=self._args.account,
                provisioning=tpu.provisioning,
                valid_until_duration_s=parse_duration(tpu.valid_until_duration),
                max_run_duration_s=parse_duration(tpu.max_run_duration) if flex else None,
                metadata={**self._args.metadata, **_ONLY_AT_CREATION},
                labels={**self._plan.labels, "slice": self._args.slice},
                tags=[self._args.tag],
                known_zones=list(limits.flex_start_zones if flex else self._plan.accelerator.locations),
                replace_active=tpu.replace_active,
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(self._args.ready)),
        )

    def _node(self, queued: QueuedResource) -> TpuNode:
        tpu, names = self._plan.settings.tpu, self._plan.names
        first = tpu.slices[0]
        return TpuNode(
            f"{self._name}-node",
            TpuNodeInputs(
                project=names.project,
                zone=self._zone,
                queued_id=self._id,
                generation=queued.created,
                accelerator_type=self._plan.accelerator.id,
                wait_s=parse_duration(tpu.wait_for_capacity),
                behind="" if self._args.slice == first else names.slice(first),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
