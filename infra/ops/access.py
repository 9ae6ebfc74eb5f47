"""How the commands reach Google: as the stack does, from its file's `gcp:` settings, else from the environment."""

from __future__ import annotations

from dataclasses import dataclass

from infra.errors import SettingsError
from infra.google.access import Access
from infra.google.session import GoogleSession
from infra.ops.inputs import plan_stack
from infra.planning.plan import Plan
from infra.planning.slices import SlicesPlan
from infra.planning.stackfile import StackFile


@dataclass(frozen=True)
class TpuStack:
    """A stack with TPU slices."""

    file: StackFile
    plan: Plan
    slices: SlicesPlan


def session_for(file: StackFile | None) -> GoogleSession:
    """A session with the stack's settings. An encrypted one cannot be read here: the environment stands in for it."""
    settings = {} if file is None else {key: value for key, value in file.gcp.items() if isinstance(value, str)}
    session = GoogleSession(Access.read(settings.get))
    session.access.required_project()
    return session


def tpu_stack(stack: str) -> TpuStack:
    """The plan of a stack with TPU slices. Raises SettingsError for any other."""
    planned = plan_stack(stack)
    slices = planned.plan.slices
    if slices is None:
        title = planned.plan.accelerator.title
        raise SettingsError.of(stack, f"serves on {title}, not on TPU slices.", fix="Name a stack like v6e4.")
    return TpuStack(planned.file, planned.plan, slices)
