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
        self._args, self._plan = args, args.plan
        asked = PrivateServiceArgs(
            plan=args.plan,
            invoker=args.invoker,
            description=f"{args.plan.model.title} by vLLM {args.plan.server.image_version or ''}".rstrip(),
            template=self._template(),
            ready=args.ready,
            timeout_s=args.plan.deploy_timeout_s,
        )
        self.service = private_service(self, name, asked)
        self.callable = callers(self, name, asked, self.service)
        self.register_outputs({"url": self.service.uri})

    def _template(self) -> ServiceTemplateArgs:
        limits, instance = limits_of(self._plan.accelerator), self._args.instances
        return ServiceTemplateArgs(
            service_account=self._args.account.email,
            labels=dict(self._plan.labels),
            execution_environment="EXECUTION_ENVIRONMENT_GEN2",
            node_selector=ServiceTemplateNodeSelectorArgs(accelerator=limits.accelerator),
            gpu_zonal_redundancy_disabled=not self._plan.settings.scaling.zonal_redundancy,
            scaling=ServiceTemplateScalingArgs(
                min_instance_count=instance.min_instances, max_instance_count=instance.max_instances
            ),
            max_instance_request_concurrency=instance.concurrency,
            timeout=f"{instance.request_timeout_s}s",
            containers=[self._container()],
            volumes=self._volumes(),
            vpc_access=self._vpc_access(),
        )

    def _container(self) -> ServiceTemplateContainerArgs:
        command, instance = self._plan.command, self._args.instances
        probe, ready = instance.probe, instance.readiness_probe
        words = [*command.wrapper, *command.argv]
        return ServiceTemplateContainerArgs(
            name="vllm",
            image=self._args.image,
            commands=words[:1],
            args=words[1:],
            envs=self._environment(),
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
            volume_mounts=[
                ServiceTemplateContainerVolumeMountArgs(
                    name="weights", mount_path=self._plan.server.hosting.weights_folder
                )
            ]
            if self._mounted
            else None,
        )

    def _environment(self) -> list[ServiceTemplateContainerEnvArgs]:
        plain = [
            ServiceTemplateContainerEnvArgs(name=name, value=value) for name, value in self._plan.command.env.items()
        ]
        secret = self._args.token_secret
        if secret is None:
            return plain
        reference = ServiceTemplateContainerEnvValueSourceSecretKeyRefArgs(secret=secret, version="latest")
        source = ServiceTemplateContainerEnvValueSourceArgs(secret_key_ref=reference)
        return [*plain, ServiceTemplateContainerEnvArgs(name="HF_TOKEN", value_source=source)]

    @property
    def _mounted(self) -> bool:
        return self._args.bucket is not None and self._plan.settings.weights.access == "mount"

    def _volumes(self) -> list[ServiceTemplateVolumeArgs] | None:
        if not self._mounted or self._args.bucket is None:
            return None
        bucket = ServiceTemplateVolumeGcsArgs(
            bucket=self._args.bucket, read_only=True, mount_options=list(self._args.instances.mount_options)
        )
        return [ServiceTemplateVolumeArgs(name="weights", gcs=bucket)]

    def _vpc_access(self) -> ServiceTemplateVpcAccessArgs | None:
        if self._args.network is None:
            return None
        interface = ServiceTemplateVpcAccessNetworkInterfaceArgs(
            network=self._args.network.network.id, subnetwork=self._args.network.subnet.id
        )
        return ServiceTemplateVpcAccessArgs(egress="ALL_TRAFFIC", network_interfaces=[interface])
