"""The stable, private address of a stack's machines: HAProxy on Cloud Run, with a foot in the VPC.

Its account has no role at all. Callers need `run.invoker`, and nothing here grants it to the public. It knows every server
that there may be by its name in the stack's private zone and none by its address, and nothing in it follows from a flag of
the server: a changed flag, and a machine that comes, goes or is renewed, leave it alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.cloudrunv2 import (
    ServiceTemplateArgs,
    ServiceTemplateContainerArgs,
    ServiceTemplateContainerEnvArgs,
    ServiceTemplateContainerPortsArgs,
    ServiceTemplateContainerResourcesArgs,
    ServiceTemplateContainerStartupProbeArgs,
    ServiceTemplateContainerStartupProbeHttpGetArgs,
    ServiceTemplateScalingArgs,
    ServiceTemplateVpcAccessArgs,
    ServiceTemplateVpcAccessNetworkInterfaceArgs,
)

from infra.components.shared.network import Network
from infra.components.shared.private_service import PrivateServiceArgs, callers, private_service
from infra.planning.gateway.limits import GatewayPlan
from infra.planning.plan import Plan


@dataclass(frozen=True)
class GatewayArgs:
    """What the service is made of. No machine is: it stands before the first one does."""

    plan: Plan
    gateway: GatewayPlan
    account: gcp.serviceaccount.Account
    """Its own, without any role."""
    invoker: gcp.serviceaccount.Account
    network: Network
    ready: Sequence[pulumi.Resource]


class Gateway(pulumi.ComponentResource):
    """The service and its callers."""

    service: gcp.cloudrunv2.Service
    callable: list[pulumi.Resource]
    """The grants without which the endpoint refuses its callers."""

    def __init__(self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Gateway", name, {}, opts)
        plan, gateway, probe = args.plan, args.gateway, args.gateway.probe
        container = ServiceTemplateContainerArgs(
            name="haproxy",
            image=plan.images["gateway"].pull,
            commands=[gateway.command[0]],
            args=list(gateway.command[1:]),
            envs=[
                ServiceTemplateContainerEnvArgs(name=name, value=value)
                for name, value in gateway.environment(plan.names).items()
            ],
            ports=ServiceTemplateContainerPortsArgs(name="http1", container_port=gateway.port),
            resources=ServiceTemplateContainerResourcesArgs(
                limits={"cpu": str(gateway.cpu), "memory": f"{gateway.memory_mib}Mi"},
                cpu_idle=True,  # billed by request: between requests the kept instance costs a tenth
            ),
            startup_probe=ServiceTemplateContainerStartupProbeArgs(
                http_get=ServiceTemplateContainerStartupProbeHttpGetArgs(path=probe.path, port=gateway.port),
                initial_delay_seconds=probe.initial_delay_s,
                period_seconds=probe.period_s,
                timeout_seconds=probe.timeout_s,
                failure_threshold=probe.failure_threshold,
            ),
        )
        interface = ServiceTemplateVpcAccessNetworkInterfaceArgs(
            network=args.network.network.id, subnetwork=args.network.subnet.id
        )
        template = ServiceTemplateArgs(
            service_account=args.account.email,
            labels=dict(plan.labels),
            execution_environment="EXECUTION_ENVIRONMENT_GEN2",
            scaling=ServiceTemplateScalingArgs(
                min_instance_count=gateway.min_instances, max_instance_count=gateway.max_instances
            ),
            max_instance_request_concurrency=gateway.concurrency,
            timeout=f"{gateway.request_timeout_s}s",
            containers=[container],
            vpc_access=ServiceTemplateVpcAccessArgs(egress="ALL_TRAFFIC", network_interfaces=[interface]),
        )
        description = f"gemma4 stack {plan.stack}: gateway"
        service = PrivateServiceArgs(plan, args.invoker, description, template, args.ready)
        self.service = private_service(self, name, service)
        self.callable = callers(self, name, service, self.service)
        self.register_outputs({"url": self.service.uri})
