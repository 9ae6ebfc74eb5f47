"""What a stack exports, on every platform: where to ask, how, and what was planned."""

from __future__ import annotations

import shlex
from typing import Any

import pulumi

from infra.components.shared.foundation import Foundation
from infra.components.shared.weights import Weights
from infra.planning.plan import Plan

Outputs = dict[str, Any]


def stack_outputs(plan: Plan, foundation: Foundation, url: pulumi.Output[str], weights: Weights | None) -> Outputs:
    """Return the outputs of a stack that answers at `url`.

    No output depends on a check: one that failed would take every other output with it.
    """
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
        "adapters": [one.name for one in plan.adapters],
        "curl": curl,
        "python": python,
        "predictedKvTokens": plan.capacity.tokens,
        "usdPerHour": round(plan.cost.usd_per_hour, 2),
        "serviceAccount": foundation.runtime.email,
        "invokerAccount": foundation.invoker.email,
        "bucket": weights.bucket if weights else None,
        # The plan in a dozen lines: what a reviewer should see change.
        "plan": {
            "model": plan.model.id,
            "accelerator": plan.accelerator.id,
            "image": plan.images["serving"].upstream,
            "command": shlex.join(plan.command.argv),
            "spec": plan.command.spec_hash,
            "kvTokens": plan.capacity.tokens,
            "maxNumSeqs": plan.server.max_num_seqs,
            "verdict": plan.verdict.value,
            "usdPerHour": round(plan.cost.usd_per_hour, 2),
        },
    }
