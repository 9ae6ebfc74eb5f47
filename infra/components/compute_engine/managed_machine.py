"""One machine of a name: a managed group with one member, which keeps name, address and attributes when it is made anew.

The group makes it again after a failed health check, a host error, or capacity that was taken back, without Pulumi. What the
machine serves changes often, and is a matter of `Rollout`: neither template nor group changes with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.components.compute_engine.machine_template import MachineTemplate
from infra.components.shared.compute_resource import ComputeResource
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan
from infra.providers.compute_machine import ComputeMachine, ComputeMachineArgs
from infra.providers.serving_spec import COMPUTE


@dataclass(frozen=True)
class ManagedMachineArgs:
    """The machine `name` of the settings. `subnetwork` is a full name; `metadata` are all its attributes."""

    plan: Plan
    machines: MachinesPlan
    name: str
    subnetwork: pulumi.Input[str]
    template: MachineTemplate
    metadata: Mapping[str, pulumi.Input[str]]
    ready: Sequence[pulumi.Resource]
    """What must be there before a machine that costs money can do anything useful."""


class ManagedMachine(pulumi.ComponentResource):
    """`instance` is the machine's number, blank while it waits for capacity, as is its `zone`. Paused, neither is there."""

    machine: str
    group: str
    zone: pulumi.Output[str]
    instance: pulumi.Output[str]
    metadata: Mapping[str, pulumi.Input[str]]
    paths: Mapping[str, str]
    product = COMPUTE

    def __init__(self, name: str, args: ManagedMachineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:ManagedMachine", name, {}, opts)
        self._name, self._args = name, args
        plan, machines = args.plan, args.machines
        self.machine = self.group = plan.names.member(args.name)
        self.metadata, self.paths = args.metadata, machines.paths_of(args.name)
        address, group = self._address(), self._group()
        if not machines.paused:
            running = self._running(address, group)
            self.zone, self.instance = running.zone, running.instance
        self.register_outputs({"group": group.id})

    def _address(self) -> ComputeResource:
        """Return the address that the machine keeps."""
        inputs = {
            "name": self.machine,
            "description": f"gemma4 stack {self._args.plan.stack}: machine {self._args.name}",
            "region": self._args.machines.region,
            "addressType": "INTERNAL",
            "purpose": "GCE_ENDPOINT",
            "subnetwork": self._args.subnetwork,
            "labels": dict(self._args.plan.labels),
        }
        return ComputeResource("address", f"{self._name}-address", inputs, pulumi.ResourceOptions(parent=self))

    def _group(self) -> ComputeResource:
        machines, template = self._args.machines, self._args.template
        inputs: dict[str, Any] = {
            "name": self.group,
            "baseInstanceName": self.machine,
            "description": f"gemma4 stack {self._args.plan.stack}: machine {self._args.name}",
            "region": machines.region,
            "versions": [{"instanceTemplate": template.template}],
            "distributionPolicyZones": list(machines.zones),
            "distributionPolicyTargetShape": "ANY_SINGLE_ZONE",
            # A new template waits for the next repair. Groups that keep addresses demand the rest.
            "updatePolicy": {
                "type": "OPPORTUNISTIC",
                "minimalAction": "REPLACE",
                "replacementMethod": "RECREATE",
                "instanceRedistributionType": "NONE",
                "maxSurgeFixed": 0,
                "maxUnavailableFixed": len(machines.zones),
            },
            "autoHealingPolicies": {"healthCheck": template.health_check, "initialDelaySec": template.delay_s},
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "REPAIR", "forceUpdateOnRepair": "YES"},
            "waitForInstances": False,
            **_flexibility(machines.shapes),
        }
        return ComputeResource(
            "regionInstanceGroupManager",
            f"{self._name}-group",
            inputs,
            # Its name is taken until it is gone.
            pulumi.ResourceOptions(parent=self, delete_before_replace=True),
            outputs=("instanceGroupManagerId",),
        )

    def _running(self, address: ComputeResource, group: ComputeResource) -> ComputeMachine:
        """Return the machine: the group makes it for this configuration, and ends it with it."""
        machines, name, parent = self._args.machines, self._name, self
        preserved = {
            "metadata": self.metadata,
            "internalIps": [
                {"interfaceName": "nic0", "autoDelete": "NEVER", "ipAddress": {"address": address.id}},
            ],
        }
        member = ComputeResource(
            "regionPerInstanceConfig",
            f"{name}-member",
            {
                "name": self.machine,
                "region": machines.region,
                "regionInstanceGroupManager": group.output("name"),
                "preservedState": preserved,
                "mostDisruptiveAllowedAction": "REFRESH",
                "removeInstanceOnDestroy": True,
            },
            pulumi.ResourceOptions(
                parent=parent,
                depends_on=list(self._args.ready),
                delete_before_replace=True,
                # `Rollout` keeps them up to date, one machine after the other; and `ComputeMachine` those of a machine for
                # which there is no capacity yet.
                ignore_changes=["preservedState.metadata"],
            ),
        )
        first = self._args.plan.names.member(machines.names[0])
        return ComputeMachine(
            f"{name}-machine",
            ComputeMachineArgs(
                project=self._args.plan.names.project,
                region=machines.region,
                group=group.output("name"),
                machine=member.output("name"),
                generation=group.output("instanceGroupManagerId").apply(str),
                metadata=self.metadata,
                timeout_s=machines.wait_for_capacity_s,
                behind="" if self.machine == first else first,
            ),
            opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
        )


def _flexibility(shapes: Sequence[str]) -> dict[str, Any]:
    """Return the machine types in order of preference, where there are several."""
    if len(shapes) < 2:
        return {}
    selections = [{"name": shape, "rank": rank, "machineTypes": [shape]} for rank, shape in enumerate(shapes, 1)]
    return {"instanceFlexibilityPolicy": {"instanceSelections": selections}}
