"""What is still to do before `pulumi up`, as commands to paste, and the command that comes then."""

from __future__ import annotations

from infra.catalog import catalog
from infra.planning.plan import Plan
from infra.planning.platforms.base import QUOTAS_PAGE
from infra.planning.settings.resolve import Origin


def steps_before_up(plan: Plan) -> list[str]:
    """Return the commands, in order; words in capitals are for the reader to fill in. Empty where nothing can be deployed."""
    if plan.refused or not plan.accelerator.deployable:
        return []
    stack, settings = plan.stack, plan.settings
    steps = []
    if typed := [path for path, origin in plan.origins.items() if origin is Origin.COMMAND_LINE]:
        what = typed[0] if len(typed) == 1 else f"the {len(typed)} values of --set"
        steps.append(f"# write {what} into Pulumi.{stack}.yaml, for up")
    steps.append(f"pulumi stack select --create {stack}")
    if not plan.project:
        steps.append(f"pulumi config set gcp:project PROJECT -s {stack}")
    has_token = settings.hf_token or settings.hf_token_secret
    if plan.model.gated and settings.weights.source != "existing" and not has_token:
        steps.append(f"pulumi config set --secret gemma4:hfToken -s {stack}")
    if not settings.access.deployers:
        steps.append(f"pulumi config set --path 'gemma4:access.deployers[0]' user:YOU -s {stack}")
    if not settings.access.invokers:
        steps.append(f"pulumi config set --path 'gemma4:access.invokers[0]' user:CALLER -s {stack}")
    if loose := _pins(plan):
        steps.append(f"gemma4 pin {' '.join(loose)}")
    steps.append(f"gemma4 preflight {stack}")
    if any(need.beyond_default() for need in plan.quotas):
        steps.append(f"# ask for more quota: {QUOTAS_PAGE}")
    return steps


def next_command(plan: Plan) -> str:
    """Return what to type when nothing is left to do: deploy, or see which machines can be deployed to."""
    return f"pulumi up -s {plan.stack}" if plan.accelerator.deployable else "gemma4 machines"


def _pins(plan: Plan) -> list[str]:
    """Return the names of the images and checkpoints that `gemma4 pin` would fix: catalog ids, and of a third party's
    checkpoint its repository, so that its tensors are counted too."""
    facts = catalog()
    images = {f"{image.repository}:{image.tag}": image.id for image in facts.images.values()}
    weights = {model.hub_id: model.hub_id if model.third_party else model.id for model in facts.models.values()}
    weights |= {assistant.hub_id: assistant.id for assistant in facts.assistants.values()}
    loose: list[str | None] = [images.get(image.upstream) for image in plan.images.values() if not image.pinned]
    if plan.settings.weights.revision is None and plan.settings.weights.source != "existing":
        loose += [weights.get(one.hub_id) for one in plan.weights if not one.pinned]
    return [name for name in loose if name is not None]
