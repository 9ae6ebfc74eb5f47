"""How the commands reach Google: as the stack does, from its file's `gcp:` settings, else from the environment."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from infra.errors import GoogleError, SettingsError
from infra.google.provider_settings import Access
from infra.google.session import ONCE_MORE, QUICK, GoogleSession
from infra.ops.plan_inputs import plan_stack
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.settings.stackfile import StackFile


@dataclass(frozen=True)
class TpuStack:
    """A stack with TPU slices."""

    file: StackFile
    plan: Plan
    slices: SlicesPlan


def session_for(file: StackFile | None, *, patient: bool = False) -> GoogleSession:
    """A session with the stack's settings. An encrypted one cannot be read here: the environment stands in for it.
    `patient` is for what changes something, which waits for minutes as the providers do; somebody sits before the rest."""
    settings = {} if file is None else {key: value for key, value in file.gcp.items() if isinstance(value, str)}
    access = Access.read(settings.get)
    if file is None and not access.project:
        raise GoogleError(
            "No Google Cloud project is set, so nothing can be asked of Google; name a stack whose file has gcp:project, "
            "for example gemma4 zones v6e4, or set GOOGLE_CLOUD_PROJECT.",
            reason="NO_PROJECT",
        )
    access.required_project()
    print(f"asking Google about project {access.project} …", file=sys.stderr, flush=True)
    return GoogleSession(access) if patient else GoogleSession(access, retry=ONCE_MORE, timeouts=QUICK)


def tpu_stack(stack: str) -> TpuStack:
    """The plan of a stack with TPU slices. Raises SettingsError for any other."""
    planned = plan_stack(stack)
    slices = planned.plan.deployment
    if not isinstance(slices, SlicesPlan):
        title = planned.plan.accelerator.title
        raise SettingsError.of(stack, f"serves on {title}, not on TPU slices.", fix="Name a stack like v6e4.")
    return TpuStack(planned.file, planned.plan, slices)
