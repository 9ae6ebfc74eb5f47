"""From the plan to the arguments of a serving check, whatever the platform of the server."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_gcp as gcp

from infra.planning.plan import Plan
from infra.providers.serving_check import ServingCheckArgs
from infra.serving.planned_expectation import planned_expectation


def serving_check_args(
    plan: Plan,
    invoker: gcp.serviceaccount.Account,
    *,
    url: pulumi.Input[str],
    generation: pulumi.Input[str],
    log: Mapping[str, pulumi.Input[str]],
    path: pulumi.Input[str] = "",
) -> ServingCheckArgs:
    """Return the arguments of the check of one server; `path` selects a slice behind a gateway."""
    internal = "access.ingress is internal, so the endpoint cannot be reached from where `pulumi up` runs"
    expected = planned_expectation(plan).model_dump(mode="json")
    kv_tokens, ready_timeout_s = expected.pop("predicted_kv_tokens"), expected.pop("ready_timeout_s")
    for key in ("adapters", "evaluated_as"):
        if not expected[key]:
            del expected[key]  # a check that knew neither stays as it is
    return ServingCheckArgs(
        url=url,
        path=path,
        generation=generation,
        expected=expected,
        predicted_kv_tokens=kv_tokens,
        ready_timeout_s=ready_timeout_s,
        invoker=invoker.email,
        log=log,
        skipped=internal if plan.settings.access.ingress == "internal" else "",
    )
