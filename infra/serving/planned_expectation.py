"""From a plan to what the serving check expects of one of its servers: the only place where that is decided."""

from __future__ import annotations

from infra.planning.plan import Plan
from infra.serving.expectation import CheckExpectation


def planned_expectation(plan: Plan) -> CheckExpectation:
    """Return what every server of the plan must show."""
    kv, serving = plan.kv_tokens, plan.settings.serving
    return CheckExpectation(
        model=plan.model.hub_id,
        spec_hash=plan.command.spec_hash,
        max_model_len=plan.server.max_model_len,
        adapters=tuple(one.name for one in plan.adapters),
        tools=serving.tools,
        reasoning=serving.reasoning,
        image=bool(serving.modalities.image),
        audio=bool(serving.modalities.audio),
        video=bool(serving.modalities.video),
        predicted_kv_tokens=(int(kv.low), int(kv.mid), int(kv.high)),
        prompt_tokens=plan.settings.workload.prompt_tokens,
        vllm_version=plan.server.image_version or "",
        ready_timeout_s=plan.ready_timeout_s,
        evaluated_as=plan.model.architecture if serving.evaluation else "",
    )
