"""How the made-up platform's plans become resources: its foundation, image and weights, and nothing that serves."""

from __future__ import annotations

import pulumi

from infra.components.shared.foundation import Foundation, FoundationArgs, Secrets
from infra.components.shared.images import Images, ImagesArgs
from infra.components.shared.stack_outputs import Outputs, stack_outputs
from infra.components.shared.weights import Weights, WeightsArgs
from infra.planning.plan import Plan


def deploy(plan: Plan, secrets: Secrets) -> Outputs:
    foundation = Foundation("foundation", FoundationArgs(plan, secrets.hf_token))
    Images("images", ImagesArgs(plan, foundation))
    weights = Weights("weights", WeightsArgs(plan, foundation))
    pods = pulumi.ComponentResource("tests:pods:Pods", "pods")
    return stack_outputs(plan, foundation, pods.urn, weights)
