"""What the Pulumi CLI here says of itself and of a stack: version, plugins, and the names of the resources in the state."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.errors import Gemma4Error
from infra.ops.endpoint.stack_state import export_state
from infra.preflight.subject import PulumiState

_QUICK_S = 20
_NAMES = ("name", "accountId", "repositoryId", "secretId")
"""Outputs that hold a resource's name in the cloud."""


def read_pulumi(root: Path, stack: str) -> PulumiState:
    """Return what the CLI says. What it does not say is left out, with the reason and the command that mends it."""
    if shutil.which("pulumi") is None:
        return PulumiState(resources=None, problem="there is no Pulumi CLI on the PATH")
    version = _said(["pulumi", "version"], root).strip().removeprefix("v")
    try:
        plugins = json.loads(_said(["pulumi", "plugin", "ls", "--json"], root))
    except ValueError:
        plugins = None
    listed = plugins if isinstance(plugins, list) else None
    try:
        return PulumiState(version, named_resources(export_state(root, stack)), plugins=listed)
    except Gemma4Error as error:
        said = str(error).rpartition("cannot be read: ")[2]
        if "no stack named" in said or "no previous deployment" in said:
            return PulumiState(version, frozenset(), plugins=listed)
        return PulumiState(version, None, said, _mend(said, stack), listed)


def named_resources(exported: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return type and name in the cloud of every resource in an exported state."""
    resources: Sequence[Mapping[str, Any]] = (exported.get("deployment") or {}).get("resources") or ()
    return frozenset(
        (str(one.get("type", "")), str(value))
        for one in resources
        for key in _NAMES
        if (value := {**(one.get("inputs") or {}), **(one.get("outputs") or {})}.get(key))
    )


def _mend(said: str, stack: str) -> str:
    if "login" in said or "logged in" in said or "PULUMI_ACCESS_TOKEN" in said:
        return "pulumi login"
    if "passphrase" in said:
        return "export PULUMI_CONFIG_PASSPHRASE=…"
    return f"pulumi stack export -s {stack}"


def _said(command: Sequence[str], root: Path) -> str:
    """Return what a command prints; empty where it fails or takes too long."""
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_QUICK_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
