"""Wires the components of a plan together: the one place that knows which platform needs which."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import pulumi

from infra.components.cloud_run.gpu_service import GpuService, GpuServiceArgs
from infra.components.shared.check_inputs import check_inputs
from infra.components.shared.foundation import Foundation, FoundationArgs
from infra.components.shared.gateway import Gateway, GatewayArgs
from infra.components.shared.images import Images, ImagesArgs
from infra.components.shared.network import Network, NetworkArgs
from infra.components.shared.weights import Weights, WeightsArgs
from infra.components.tpu.rollout import Rollout, RolloutArgs
from infra.components.tpu.slice_access import SliceAccess, SliceAccessArgs
from infra.components.tpu.slice_metadata import slice_metadata
from infra.components.tpu.slice_network import SliceNetwork, SliceNetworkArgs
from infra.components.tpu.tpu_slice import TpuSlice, TpuSliceArgs
from infra.config import Secrets
from infra.planning.plan import Plan
from infra.planning.platforms.cloud_run.instances import InstancesPlan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.providers.serving_check import ServingCheck

Outputs = dict[str, Any]


def deploy(plan: Plan, secrets: Secrets) -> Outputs:
    """Build the plan's resources and return the stack's outputs.

    No output depends on a check: one that failed would take every other output with it.
    """
    if isinstance(plan.deployment, SlicesPlan):
        return _tpu(plan, plan.deployment, secrets)
    if isinstance(plan.deployment, InstancesPlan):
        return _cloud_run(plan, plan.deployment, secrets)
    raise AssertionError(f"no component builds what {plan.platform.id} deploys")


def _cloud_run(plan: Plan, instances: InstancesPlan, secrets: Secrets) -> Outputs:
    foundation = Foundation("foundation", FoundationArgs(plan, secrets.hf_token))
    images = Images("images", ImagesArgs(plan, foundation))
    from_hub = plan.settings.weights.source == "huggingface"
    network = None if from_hub else Network("network", NetworkArgs(plan, foundation.apis))
    weights = None if from_hub else Weights("weights", WeightsArgs(plan, foundation))
    grants = weights.grants if weights else foundation.let_read_token("runtime", foundation.runtime)
    service = GpuService(
        "serving",
        GpuServiceArgs(
            plan=plan,
            instances=instances,
            image=images.serving,
            foundation=foundation,
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
        check_inputs(
            plan,
            foundation,
            url=service.service.uri,
            generation=service.service.latest_ready_revision,
            log={"kind": "service", "name": plan.names.prefix, "location": plan.region},
        ),
        opts=pulumi.ResourceOptions(parent=service, depends_on=[*service.callable, *foundation.deployers]),
    )
    return _outputs(plan, foundation, service.service.uri, weights)


def _outputs(plan: Plan, foundation: Foundation, url: pulumi.Output[str], weights: Weights | None) -> Outputs:
    model = plan.model.hub_id
    curl = pulumi.Output.concat(
        'curl -H "Authorization: Bearer $(gcloud auth print-identity-token)" -H "Content-Type: application/json" ',
        url,
        f"""/v1/chat/completions -d '{{"model":"{model}","messages":[{{"role":"user","content":"Hello"}}]}}'""",
    )
    python = pulumi.Output.concat(
        "from openai import OpenAI\n",
        'client = OpenAI(base_url="',
        url,
        '/v1", api_key=token)  # token: gcloud auth print-identity-token\n',
        f'client.chat.completions.create(model="{model}", messages=[{{"role": "user", "content": "Hello"}}])',
    )
    return {
        "url": url,
        "model": model,
        "curl": curl,
        "python": python,
        "predictedKvTokens": plan.capacity.tokens,
        "usdPerHour": round(plan.cost.usd_per_hour, 2),
        "serviceAccount": foundation.runtime.email,
        "invokerAccount": foundation.invoker.email,
        "bucket": weights.bucket if weights else None,
        "plan": _for_review(plan),
    }


def _for_review(plan: Plan) -> Mapping[str, Any]:
    """The plan in a dozen lines: what a reviewer should see change."""
    return {
        "model": plan.model.id,
        "accelerator": plan.accelerator.id,
        "image": plan.images["serving"].upstream,
        "command": shlex.join(plan.command.argv),
        "spec": plan.command.spec_hash,
        "kvTokens": plan.capacity.tokens,
        "maxNumSeqs": plan.server.max_num_seqs,
        "verdict": plan.verdict.value,
        "usdPerHour": round(plan.cost.usd_per_hour, 2),
    }


def _tpu(plan: Plan, slices: SlicesPlan, secrets: Secrets) -> Outputs:
    foundation = Foundation("foundation", FoundationArgs(plan, secrets.hf_token))
    images = Images("images", ImagesArgs(plan, foundation))
    network = Network("network", NetworkArgs(plan, foundation.apis))
    slice_network = SliceNetwork("slice-network", SliceNetworkArgs(plan, slices, network))
    access = SliceAccess("slice-access", SliceAccessArgs(plan, foundation, images))
    from_hub = plan.settings.weights.source == "huggingface"
    weights = None if from_hub else Weights("weights", WeightsArgs(plan, foundation))
    metadata = slice_metadata(plan, images.serving, foundation.token_secret if from_hub else None)
    ready = [*images.ready, *slice_network.ready, *access.ready, *(weights.ready if weights else [])]
    running = {
        name: TpuSlice(
            f"slice-{name}",
            TpuSliceArgs(
                plan=plan,
                slices=slices,
                slice=name,
                network=network.network.id,
                subnetwork=slice_network.subnet.id,
                tag=slice_network.tag,
                account=foundation.runtime.email,
                metadata=metadata,
                ready=ready,
            ),
        )
        for name in slices.names
    }
    addresses = {name: one.address for name, one in running.items()}
    gateway = Gateway(
        "gateway",
        GatewayArgs(
            plan=plan,
            gateway=slices.gateway,
            foundation=foundation,
            network=network,
            addresses=addresses,
            ready=[images.repository, *network.ready],
        ),
    )
    Rollout("rollout", RolloutArgs(plan, foundation, gateway, running, metadata, ready))
    return _outputs(plan, foundation, gateway.service.uri, weights)
