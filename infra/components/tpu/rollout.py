"""What the TPU slices serve, changed one slice after the other: the next one only when the last one has answered.

While a slice loads, the gateway sends everything to the others; a specification that does not come up stops at the first.
Each slice is checked by its own path through the gateway: balancing could answer for it with another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pulumi
import pulumi_gcp as gcp

from infra.components.shared.gateway import Gateway
from infra.components.shared.serving_check_args import serving_check_args
from infra.components.tpu.slice_metadata import with_log
from infra.components.tpu.tpu_slice import TpuSlice
from infra.planning.plan import Plan
from infra.providers.serving_check import ServingCheck
from infra.providers.serving_spec import ServingSpec, ServingSpecArgs


@dataclass(frozen=True)
class RolloutArgs:
    """`slices` by name, in the order in which they change; `metadata` is what all their supervisors follow."""

    plan: Plan
    invoker: gcp.serviceaccount.Account
    deployers: Sequence[pulumi.Resource]
    """The grants with which the check acts as the invoker."""
    gateway: Gateway
    slices: Mapping[str, TpuSlice]
    metadata: Mapping[str, pulumi.Input[str]]
    ready: Sequence[pulumi.Resource]
    """What must exist before a specification may name it: weights, image."""


class Rollout(pulumi.ComponentResource):
    """A specification and a check a slice. Nothing depends on them but each other."""

    def __init__(self, name: str, args: RolloutArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Rollout", name, {}, opts)
        plan = args.plan
        last: list[pulumi.Resource] = []
        for slice_name, one in args.slices.items():
            member = plan.names.member(slice_name)
            spec = ServingSpec(
                f"{name}-{slice_name}-spec",
                ServingSpecArgs(
                    project=plan.names.project,
                    zone=one.zone,
                    node_id=member,
                    instance=one.instance,
                    metadata=with_log(args.metadata, plan, slice_name, one.zone),
                ),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.ready, *last]),
            )
            inputs = serving_check_args(
                plan,
                args.invoker,
                url=args.gateway.service.uri,
                path=plan.deployment.member_paths()[slice_name],
                generation=one.instance,
                log=plan.deployment.log_place(plan.names, slice_name),
            )
            waits = one.instance.apply(lambda instance: "" if instance else "it waits for capacity")
            check = ServingCheck(
                f"{name}-{slice_name}-check",
                replace(inputs, skipped=inputs.skipped or waits),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.gateway.callable, *args.deployers, spec]),
            )
            last = [check]
        self.register_outputs({})
