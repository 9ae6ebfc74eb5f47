"""The resources that the real program registers for a plan, as the reports show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ResourceRow:
    """One resource that the program would create; `component` is the name of the component that owns it."""

    type: str
    name: str
    component: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What the program sets, as JSON data: secrets, values that only the cloud knows, files and very long texts stand as
    marks."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Pulumi's options for the resource, where they are not the default: `protect`, `timeouts`, `ignoreChanges`."""


@dataclass(frozen=True)
class ResourceList:
    """All resources of a run of the real program, the stack and its components included; providers are not counted."""

    rows: tuple[ResourceRow, ...]
    missing: str = ""
    """Why there is no list; empty where there is one."""
