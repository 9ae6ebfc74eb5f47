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
from infra.components.shared.serving_check_args import serving_check_args
from infra.planning.plan import Plan
from infra.providers.serving_check import ServingCheck
from infra.providers.serving_spec import ServingSpec, ServingSpecArgs


class ServingMachine(Protocol):
    """A machine of the stack, of whichever platform.

    `machine` is its name in the cloud, `instance` its number, blank while it waits for capacity. `product` and `group` are
    those of `ServingSpecArgs`. `metadata` is what its supervisor follows; `paths` selects each of its
    servers at the gateway, by name.
    """

    @property
    def machine(self) -> pulumi.Input[str]: ...

    @property
    def zone(self) -> pulumi.Input[str]: ...

    @property
    def instance(self) -> pulumi.Output[str]: ...

    @property
    def product(self) -> str: ...

    @property
    def group(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, pulumi.Input[str]]: ...

    @property
    def paths(self) -> Mapping[str, pulumi.Input[str]]: ...


@dataclass(frozen=True)
class RolloutArgs:
    """`machines` by name, in the order in which they change."""

    plan: Plan
    invoker: gcp.serviceaccount.Account
    deployers: Sequence[pulumi.Resource]
    """The grants with which the check acts as the invoker."""
    gateway: Gateway
    machines: Mapping[str, ServingMachine]
    ready: Sequence[pulumi.Resource]
    """What must exist before a specification may name it: weights, image."""


class Rollout(pulumi.ComponentResource):
    """A specification a machine, and a check each of its servers. Nothing depends on them but each other."""

    def __init__(self, name: str, args: RolloutArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Rollout", name, {}, opts)
        plan = args.plan
        last: list[pulumi.Resource] = []
        for machine_name, one in args.machines.items():
            spec = ServingSpec(
                f"{name}-{machine_name}-spec",
                ServingSpecArgs(
                    project=plan.names.project,
                    zone=one.zone,
                    node_id=one.machine,
                    instance=one.instance,
                    metadata=one.metadata,
                    product=one.product,
                    group=one.group,
                ),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.ready, *last]),
            )
            waits = one.instance.apply(lambda instance: "" if instance else "it waits for capacity")
            last = [spec]
            for server, path in one.paths.items():  # in the order in which the supervisor changes them
                inputs = serving_check_args(
                    plan,
                    args.invoker,
                    url=args.gateway.service.uri,
                    path=path,
                    generation=one.instance,
                    log={**plan.deployment.log_place(plan.names, server), "name": one.machine},
                )
                check = ServingCheck(
                    f"{name}-{server}-check",
                    replace(inputs, skipped=inputs.skipped or waits),
                    opts=pulumi.ResourceOptions(
                        parent=self, depends_on=[*args.gateway.callable, *args.deployers, *last]
                    ),
                )
                last = [check]
        self.register_outputs({})
