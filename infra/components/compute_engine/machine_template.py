"""What every machine of a stack is made of. Nothing in it changes with a flag of the server.

A running machine keeps what it was made of: another template counts when the machine is made anew, by a repair or by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.components.compute_engine.machine_attributes import GPU_AT_CREATION
from infra.components.shared.compute_resource import ComputeResource
from infra.planning.gateway.members import READY_PORT
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan

ALIVE = "/alive"
"""What a health check asks a supervisor: not whether a server answers, which takes minutes to load, and of which there may be
several."""
LONGEST_DELAY_S = 3600
"""The longest that a group may be told to wait before it judges a new machine."""


@dataclass(frozen=True)
class MachineTemplateArgs:
    """`subnetwork` is a full name, `tag` the firewall's, `account` the machines' own, by address."""

    plan: Plan
    machines: MachinesPlan
    subnetwork: pulumi.Input[str]
    tag: str
    account: pulumi.Input[str]


class MachineTemplate(pulumi.ComponentResource):
    """`template` and `health_check` by their full names; `delay_s` is how long a new machine may take before it is judged."""

    template: pulumi.Output[str]
    health_check: pulumi.Output[str]
    delay_s: int

    def __init__(self, name: str, args: MachineTemplateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:MachineTemplate", name, {}, opts)
        plan = args.plan
        child = pulumi.ResourceOptions(parent=self)
        self.template = ComputeResource(
            "regionInstanceTemplate",
            f"{name}-template",
            {
                "namePrefix": f"{plan.names.prefix}-",  # a template cannot change: the next one exists beside it
                "region": args.machines.region,
                **machine_properties(args),
            },
            child,
        ).id
        self.health_check = ComputeResource(
            "healthCheck",
            f"{name}-alive",
            {
                "name": args.tag,
                "description": f"gemma4 stack {plan.stack}: whether a machine's supervisor turns",
                "checkIntervalSec": 10,
                "timeoutSec": 5,
                "healthyThreshold": 1,
                "unhealthyThreshold": 6,
                "httpHealthCheck": {"port": READY_PORT, "requestPath": ALIVE},
            },
            child,
        ).id
        self.delay_s = min(LONGEST_DELAY_S, max(1800, plan.ready_timeout_s))
        self.register_outputs({"template": self.template})


def machine_properties(args: MachineTemplateArgs) -> dict[str, Any]:
    """Return what a machine is made of, as the gcp provider spells it."""
    plan, machines, disk = args.plan, args.machines, args.machines.disk
    return {
        "description": f"gemma4 stack {plan.stack}",
        "machineType": machines.shapes[0],
        "labels": dict(plan.labels),
        "tags": [args.tag],
        "metadata": dict(GPU_AT_CREATION),
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "sourceImage": machines.image,
                "diskType": "hyperdisk-balanced",
                "diskSizeGb": disk.size_gb,
                "provisionedIops": disk.iops,
                "provisionedThroughput": disk.throughput_mibps,
            }
        ],
        # No access configuration: no external address.
        "networkInterfaces": [{"subnetwork": args.subnetwork, "nicType": "GVNIC"}],
        "serviceAccount": {"email": args.account, "scopes": ["cloud-platform"]},
        "shieldedInstanceConfig": {
            "enableSecureBoot": True,
            "enableVtpm": True,
            "enableIntegrityMonitoring": True,
        },
        "scheduling": dict(scheduling(machines)),
    }


def scheduling(machines: MachinesPlan) -> Mapping[str, Any]:
    """Return the terms on which a machine of a managed group is bought. None with a GPU can move to another host."""
    if machines.provisioning == "spot":
        return {
            "provisioningModel": "SPOT",
            "preemptible": True,
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE",
            "instanceTerminationAction": "DELETE",
        }
    return {"provisioningModel": "STANDARD", "automaticRestart": True, "onHostMaintenance": "TERMINATE"}
