"""The only reader of Pulumi's configuration: it feeds the same parser as `gemma4 plan` and lets nothing refused through."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, is_config_secret

from infra.catalog.checkpoint_lock import read_checkpoints
from infra.components.shared.foundation import Secrets
from infra.errors import Fault, RefusedError, SettingsError
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.settings.declarations import SECRET_KEY
from infra.planning.settings.stackfile import NAMESPACE, split_config

STACK_FOLDER: ContextVar[Path | None] = ContextVar("STACK_FOLDER", default=None)
"""Where the stack files lie, if that is not the current folder: `gemma4 plan --resources` runs the installed program."""

IN_MEMORY: ContextVar[bool] = ContextVar("IN_MEMORY", default=False)
"""Whether the program runs under a recording monitor, which creates nothing: then nothing is asked of Google."""


def load() -> tuple[Plan, Secrets]:
    """Return the plan of the current stack and its secrets.

    Raises SettingsError for what cannot be read, RefusedError for what cannot work or cannot be deployed yet.
    """
    settings, gcp = split_config({key: _marked(key, value) for key, value in CONFIG.get().items()})
    checkpoints = read_checkpoints(STACK_FOLDER.get() or Path.cwd())
    plan = make_plan(pulumi.get_stack(), settings, project=gcp.get("project"), checkpoints=checkpoints)
    faults = [*plan.refusals, *_undeployable(plan)]
    if faults:
        raise RefusedError(faults)
    if plan.project is None:
        fix = "Run: pulumi config set gcp:project my-project"
        raise SettingsError([Fault("gcp:project", "is missing.", "There is no project to deploy to.", fix)])
    return plan, Secrets(pulumi.Config(NAMESPACE).get_secret(SECRET_KEY))


def refuse_obstacles_before_up(plan: Plan) -> None:
    """Ask Google, before anything is created, for what would stop `up` half way. Raises RefusedError where something would.

    A preview asks nothing, and neither does a run in memory; `preflight: false` turns it off.
    """
    if pulumi.runtime.is_dry_run() or IN_MEMORY.get() or not plan.settings.preflight:
        return
    from infra.google.gcp_settings import GcpSettings
    from infra.google.session import ONCE_MORE, QUICK, GoogleSession
    from infra.preflight.before_up import refuse_obstacles

    gcp = GcpSettings.read(pulumi.Config("gcp").get)
    refuse_obstacles(plan, lambda: GoogleSession(gcp, retry=ONCE_MORE, timeouts=QUICK))


def _marked(key: str, value: Any) -> Any:
    """Return a value as the stack file shows it: of a secret only that there is one, since a plan reads none."""
    return {"secure": ""} if key.startswith(f"{NAMESPACE}:") and is_config_secret(key) else value


def _undeployable(plan: Plan) -> list[Fault]:
    if plan.accelerator.deployable:
        return []
    return [
        Fault(
            "accelerator",
            f"{plan.accelerator.title} can be planned but not deployed yet.",
            "Nothing would be created.",
            f"See it with: gemma4 plan {plan.stack}; deploy the model on a Cloud Run GPU or a TPU slice.",
        )
    ]
