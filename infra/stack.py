"""Builds a plan's resources by the components of its platform."""

from __future__ import annotations

import importlib

from infra.components.shared.foundation import Secrets
from infra.components.shared.stack_outputs import Outputs
from infra.errors import Fault, RefusedError
from infra.planning.plan import Plan


def deploy(plan: Plan, secrets: Secrets) -> Outputs:
    """Build the plan's resources and return the stack's outputs.

    The platform names the module that does it: planning imports no Pulumi, so it can name one and not import it. Raises
    RefusedError for a platform without one.
    """
    if not plan.platform.components:
        fact = f"nothing builds what runs {plan.platform.where} yet."
        raise RefusedError([Fault("accelerator", fact, "Nothing was created.", "Choose another with: gemma4 machines")])
    outputs: Outputs = importlib.import_module(plan.platform.components).deploy(plan, secrets)
    return outputs
