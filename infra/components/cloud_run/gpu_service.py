"""The Cloud Run service with one GPU. Private: callers need `run.invoker`, and nothing here grants it to the public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.cloudrunv2 import (
    ServiceTemplateArgs,
    ServiceTemplateContainerArgs,
    ServiceTemplateContainerEnvArgs,
    ServiceTemplateContainerEnvValueSourceArgs,
    ServiceTemplateContainerEnvValueSourceSecretKeyRefArgs,
    ServiceTemplateContainerPortsArgs,
    ServiceTemplateContainerReadinessProbeArgs,
    ServiceTemplateContainerReadinessProbeHttpGetArgs,
    ServiceTemplateContainerResourcesArgs,
    ServiceTemplateContainerStartupProbeArgs,
    ServiceTemplateContainerStartupProbeHttpGetArgs,
    ServiceTemplateContainerVolumeMountArgs,
    ServiceTemplateNodeSelectorArgs,
    ServiceTemplateScalingArgs,
    ServiceTemplateVolumeArgs,
    ServiceTemplateVolumeGcsArgs,
    ServiceTemplateVpcAccessArgs,
    ServiceTemplateVpcAccessNetworkInterfaceArgs,
)

from infra.components.shared.network import Network
from infra.components.shared.private_service import PrivateServiceArgs, callers, private_service
from infra.planning.plan import Plan
from infra.planning.platforms.cloud_run.instances import InstancesPlan, limits_of
from infra.planning.server.command import PORT


@dataclass(frozen=True)
class GpuServiceArgs:
    """`network` and `bucket` are None where the server downloads its weights from Hugging Face itself."""

    plan: Plan
    instances: InstancesPlan
    image: pulumi.Output[str]
    account: gcp.serviceaccount.Account
    """The server's own identity."""
    invoker: gcp.serviceaccount.Account
    token_secret: pulumi.Output[str] | None
    """Resource name of the secret with the Hugging Face token; None where the server needs none."""
    network: Network | None
    bucket: pulumi.Output[str] | None
    ready: Sequence[pulumi.Resource]
    """What must be there before an instance can start: image, weights, grants."""


class GpuService(pulumi.ComponentResource):
    """The service and its invokers."""

    service: gcp.cloudrunv2.Service
    callable: list[pulumi.Resource]
    """The grants without which the endpoint refuses its callers."""

    def __init__(self, name: str, args: GpuServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:GpuService", name, {}, opts)
        plan, instance = args.plan, args.instances
        limits = limits_of(plan.accelerator)
        volume = interface = None
        if args.bucket is not None and plan.settings.weights.access == "mount":
            volume = ServiceTemplateVolumeGcsArgs(
                bucket=args.bucket, read_only=True, mount_options=list(instance.mount_options)
            )
        if args.network is not None:
            interface = ServiceTemplateVpcAccessNetworkInterfaceArgs(
                network=args.network.network.id, subnetwork=args.network.subnet.id
            )
        template = ServiceTemplateArgs(
            service_account=args.account.email,
            labels=dict(plan.labels),
            execution_environment="EXECUTION_ENVIRONMENT_GEN2",
            node_selector=ServiceTemplateNodeSelectorArgs(accelerator=limits.accelerator),
            gpu_zonal_redundancy_disabled=not plan.settings.scaling.zonal_redundancy,
            scaling=ServiceTemplateScalingArgs(max_instance_count=instance.max_instances),
            max_instance_request_concurrency=instance.concurrency,
            timeout=f"{instance.request_timeout_s}s",
            containers=[_container(args, mounted=volume is not None)],
            volumes=[ServiceTemplateVolumeArgs(name="weights", gcs=volume)] if volume else None,
            vpc_access=ServiceTemplateVpcAccessArgs(egress="ALL_TRAFFIC", network_interfaces=[interface])
            if interface
            else None,
        )
        service = PrivateServiceArgs(
            plan=plan,
            invoker=args.invoker,
            description=f"{plan.model.title} by vLLM {plan.server.image_version or ''}".rstrip(),
            template=template,
            kept_instances=instance.min_instances,
            ready=args.ready,
            timeout_s=plan.deploy_timeout_s,
        )
        self.service = private_service(self, name, service)
        self.callable = callers(self, name, service, self.service)
        self.register_outputs({"url": self.service.uri})


def _container(args: GpuServiceArgs, *, mounted: bool) -> ServiceTemplateContainerArgs:
    """Return the container of vLLM; `mounted` says whether the bucket's volume stands in its file system."""
    plan, instance, command = args.plan, args.instances, args.plan.command
    probe, ready = instance.probe, instance.readiness_probe
    words = [*command.wrapper, *command.argv]
    environment = [ServiceTemplateContainerEnvArgs(name=name, value=value) for name, value in command.env.items()]
    if args.token_secret is not None:
        reference = ServiceTemplateContainerEnvValueSourceSecretKeyRefArgs(secret=args.token_secret, version="latest")
        source = ServiceTemplateContainerEnvValueSourceArgs(secret_key_ref=reference)
        environment.append(ServiceTemplateContainerEnvArgs(name="HF_TOKEN", value_source=source))
    mount = ServiceTemplateContainerVolumeMountArgs(name="weights", mount_path=plan.server.hosting.weights_folder)
    return ServiceTemplateContainerArgs(
        name="vllm",
        image=args.image,
        commands=words[:1],
        args=words[1:],
        envs=environment,
        ports=ServiceTemplateContainerPortsArgs(name="http1", container_port=PORT),
        resources=ServiceTemplateContainerResourcesArgs(
            limits={
                "cpu": str(instance.cpu),
                "memory": f"{instance.memory_gib}Gi",
                "nvidia.com/gpu": str(instance.accelerator.devices),
            },
            cpu_idle=False,  # instance-based billing, which a GPU needs
        ),
        startup_probe=ServiceTemplateContainerStartupProbeArgs(
            http_get=ServiceTemplateContainerStartupProbeHttpGetArgs(path=probe.path, port=PORT),
            initial_delay_seconds=probe.initial_delay_s,
            period_seconds=probe.period_s,
            timeout_seconds=probe.timeout_s,
            failure_threshold=probe.failure_threshold,
        ),
        readiness_probe=ServiceTemplateContainerReadinessProbeArgs(
            http_get=ServiceTemplateContainerReadinessProbeHttpGetArgs(path=ready.path, port=PORT),
            period_seconds=ready.period_s,
            timeout_seconds=ready.timeout_s,
            failure_threshold=ready.failure_threshold,
        ),
        volume_mounts=[mount] if mounted else None,
    )
