"""From the plan to the arguments of a serving check, whatever the platform of the server."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_gcp as gcp

from infra.planning.plan import Plan
from infra.providers.serving_check import ServingCheckArgs


def serving_check_args(
    plan: Plan,
    invoker: gcp.serviceaccount.Account,
    *,
    url: pulumi.Input[str],
    generation: pulumi.Input[str],
    log: Mapping[str, pulumi.Input[str]],
    path: str = "",
) -> ServingCheckArgs:
    """Return the arguments of the check of one server; `path` selects a slice behind a gateway."""
    internal = "access.ingress is internal, so the endpoint cannot be reached from where `pulumi up` runs"
    kv, serving = plan.kv_tokens, plan.settings.serving
    return ServingCheckArgs(
        url=url,
        path=path,
        generation=generation,
        expected={
            "model": plan.model.hub_id,
            "spec_hash": plan.command.spec_hash,
            "max_model_len": plan.server.max_model_len,
            **({"adapters": [one.name for one in plan.adapters]} if plan.adapters else {}),
            "tools": serving.tools,
            "reasoning": serving.reasoning,
            "image": bool(serving.modalities.image),
            "audio": bool(serving.modalities.audio),
            "video": bool(serving.modalities.video),
            "prompt_tokens": plan.settings.workload.prompt_tokens,
            "vllm_version": plan.server.image_version or "",
        },
        predicted_kv_tokens=[int(kv.low), int(kv.mid), int(kv.high)],
        ready_timeout_s=plan.ready_timeout_s,
        invoker=invoker.email,
        log=log,
        skipped=internal if plan.settings.access.ingress == "internal" else "",
    )
