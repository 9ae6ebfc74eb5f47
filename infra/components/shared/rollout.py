"""What the machines of a stack serve, changed one machine after the other: the next one only when the last one has answered.

While a machine loads, the gateway sends everything to the others; a specification that does not come up stops at the first.
Each is checked by its own path through the gateway: balancing could answer for it with another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pulumi
import pulumi_gcp as gcp

from infra.components.shared.gateway import Gateway
from infra.components.shared.machine_metadata import with_log
from infra.components.shared.serving_check_args import serving_check_args
from infra.planning.plan import Plan
from infra.providers.serving_check import ServingCheck
from infra.providers.serving_spec import ServingSpec, ServingSpecArgs


class ServingMachine(Protocol):
    """A machine of the stack, of whichever platform: `instance` is its number, blank while it waits for capacity."""

    @property
    def zone(self) -> str: ...

    @property
    def instance(self) -> pulumi.Output[str]: ...


@dataclass(frozen=True)
class RolloutArgs:
    """`machines` by name, in the order in which they change; `metadata` is what all their supervisors follow."""

    plan: Plan
    invoker: gcp.serviceaccount.Account
    deployers: Sequence[pulumi.Resource]
    """The grants with which the check acts as the invoker."""
    gateway: Gateway
    machines: Mapping[str, ServingMachine]
    metadata: Mapping[str, pulumi.Input[str]]
    ready: Sequence[pulumi.Resource]
    """What must exist before a specification may name it: weights, image."""


class Rollout(pulumi.ComponentResource):
    """A specification and a check a machine. Nothing depends on them but each other."""

    def __init__(self, name: str, args: RolloutArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Rollout", name, {}, opts)
        plan = args.plan
        last: list[pulumi.Resource] = []
        for machine_name, one in args.machines.items():
            member = plan.names.member(machine_name)
            spec = ServingSpec(
                f"{name}-{machine_name}-spec",
                ServingSpecArgs(
                    project=plan.names.project,
                    zone=one.zone,
                    node_id=member,
                    instance=one.instance,
                    metadata=with_log(args.metadata, plan, machine_name, one.zone),
                ),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.ready, *last]),
            )
            inputs = serving_check_args(
                plan,
                args.invoker,
                url=args.gateway.service.uri,
                path=plan.deployment.member_paths()[machine_name],
                generation=one.instance,
                log=plan.deployment.log_place(plan.names, machine_name),
            )
            waits = one.instance.apply(lambda instance: "" if instance else "it waits for capacity")
            check = ServingCheck(
                f"{name}-{machine_name}-check",
                replace(inputs, skipped=inputs.skipped or waits),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.gateway.callable, *args.deployers, spec]),
            )
            last = [check]
        self.register_outputs({})
