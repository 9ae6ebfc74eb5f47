"""Wires the components of a Cloud Run stack: a GPU service, its image and weights, and the check of it."""

from __future__ import annotations

import pulumi

from infra.components.cloud_run.gpu_service import GpuService, GpuServiceArgs
from infra.components.shared.foundation import Foundation, FoundationArgs, Secrets
from infra.components.shared.images import Images, ImagesArgs
from infra.components.shared.network import Network, NetworkArgs
from infra.components.shared.serving_check_args import serving_check_args
from infra.components.shared.stack_outputs import Outputs, stack_outputs
from infra.components.shared.weights import Weights, WeightsArgs
from infra.planning.plan import Plan
from infra.planning.platforms.cloud_run.instances import InstancesPlan
from infra.providers.serving_check import ServingCheck


def deploy(plan: Plan, secrets: Secrets) -> Outputs:
    """Build the resources of a plan on Cloud Run and return the stack's outputs."""
    instances = plan.deployment
    assert isinstance(instances, InstancesPlan)  # noqa: S101 this platform's own
    foundation = Foundation("foundation", FoundationArgs(plan, secrets.hf_token))
    images = Images("images", ImagesArgs(plan, foundation))
    from_hub = plan.settings.weights.from_hub
    network = None if from_hub else Network("network", NetworkArgs(plan, foundation.apis))
    weights = None if from_hub else Weights("weights", WeightsArgs(plan, foundation))
    grants = weights.grants if weights else foundation.let_read_token("runtime", foundation.runtime)
    service = GpuService(
        "serving",
        GpuServiceArgs(
            plan=plan,
            instances=instances,
            image=images.serving,
            account=foundation.runtime,
            invoker=foundation.invoker,
            token_secret=foundation.token_secret if from_hub else None,
            network=network,
            bucket=weights.bucket if weights else None,
            ready=[
                *images.ready,
                *(network.ready if network else []),
                *(weights.ready if weights else []),
                foundation.settled("server", [foundation.runtime, *grants]),
            ],
        ),
    )
    ServingCheck(
        "serving-check",
        serving_check_args(
            plan,
            foundation.invoker,
            url=service.service.uri,
            generation=service.service.latest_ready_revision,
            log=instances.log_place(plan.names, ""),
        ),
        opts=pulumi.ResourceOptions(parent=service, depends_on=[*service.callable, *foundation.deployers]),
    )
    return stack_outputs(plan, foundation, service.service.uri, weights)
