"""Reads a stack's state through the Pulumi CLI: its outputs, what its serving checks measured, and when it was last changed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.errors import Gemma4Error
from infra.ops.terminal.progress import waiting

_CHECK = "dynamic/gemma4:ServingCheck"
_SPEC = "dynamic/gemma4:ServingSpec"
_REQUESTS = ("dynamic/gemma4:TpuQueuedResource",)
"""Types of resources that ask Google for a machine which has an end."""
_STACK = "pulumi:pulumi:Stack"
_EXPORT_S = 60


@dataclass(frozen=True)
class CheckRecord:
    """A serving check as the state has it."""

    name: str
    """Of the resource."""
    url: str
    """Where it asked, path included."""
    spec: str
    """Hash of the served specification."""
    at: str
    """Moment of the check by the state's own record, RFC 3339; empty where it has none."""
    result: Mapping[str, Any]
    """What it measured, fields of `CheckResult`; or `skipped`, why nothing was asked."""


@dataclass(frozen=True)
class SpecRecord:
    """What a machine is told to serve, as the state has it: its attributes by name."""

    node_id: str
    zone: str
    metadata: Mapping[str, str]
    """As deployed."""
    previous: Mapping[str, str]
    """Those that the last change replaced, with their values before it; empty where nothing is kept."""
    product: str
    """Whose machine it is, as `ServingSpecArgs` has it."""
    group: str
    """Its managed group; empty where it has none."""


@dataclass(frozen=True)
class RequestRecord:
    """The request for a machine that has an end, as the state has it."""

    name: str
    """Of the machine, as in the settings."""
    urn: str
    """What `pulumi up --replace` takes."""
    leaving: bool
    """A younger one has taken its place, and it was not deleted yet."""
    ticket: str
    """What the request for the machine carries as a label; empty where the state does not say."""


@dataclass(frozen=True)
class StackState:
    """What a stack's state says; empty where nothing is deployed."""

    outputs: Mapping[str, Any]
    """By name, as infra/components/shared/stack_outputs.py writes them; a secret is encrypted."""
    checks: tuple[CheckRecord, ...]
    updated_at: str
    """Moment when the state was last written, RFC 3339; empty where it has none."""
    specs: tuple[SpecRecord, ...] = ()
    """One of each machine."""
    requests: tuple[RequestRecord, ...] = ()
    """One of each machine that Google ends; while one is renewed two."""

    @property
    def tickets(self) -> Set[str]:
        """By which the state knows its requests."""
        return {one.ticket for one in self.requests}


def read_state(root: Path, stack: str) -> StackState:
    """Return what the stack's state says. Raises Gemma4Error where it cannot be read."""
    exported = export_state(root, stack)
    with readable(stack):
        return state_in(exported)


@contextmanager
def readable(stack: str) -> Iterator[None]:
    """Say of a state that another version wrote that it cannot be read. Raises Gemma4Error."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Gemma4Error(
            f"the state of {stack} holds a check that this version cannot read ({type(error).__name__}: {error}), so there "
            f"is nothing to show; check anew with: pulumi up -s {stack}"
        ) from None


def state_in(exported: Mapping[str, Any]) -> StackState:
    """Return what an exported state says."""
    deployment = exported.get("deployment") or {}
    resources = deployment.get("resources") or []
    checks = tuple(
        CheckRecord(
            name=resource["urn"].rsplit("::", 1)[-1],
            url=f"{outputs['url']}{outputs['path']}",
            spec=outputs["expected"]["spec_hash"],
            at=resource.get("modified") or resource.get("created") or "",
            result=outputs["result"],
        )
        for resource in resources
        if _CHECK in resource.get("type", "") and (outputs := resource.get("outputs") or {}).get("result")
    )
    specs = tuple(
        SpecRecord(
            held["node_id"],
            held["zone"],
            held["metadata"],
            held.get("previous") or {},
            held.get("product") or "",
            held.get("group") or "",
        )
        for resource in resources
        if _SPEC in resource.get("type", "") and (held := resource.get("outputs") or {}).get("metadata")
    )
    requests = tuple(
        RequestRecord(
            str((held.get("labels") or {}).get("slice") or ""),
            resource["urn"],
            bool(resource.get("delete")),
            str(held.get("ticket") or ""),
        )
        for resource in resources
        if resource.get("type", "").endswith(_REQUESTS)
        for held in [{**(resource.get("inputs") or {}), **(resource.get("outputs") or {})}]
    )
    outputs = next((one.get("outputs") or {} for one in resources if one.get("type") == _STACK), {})
    return StackState(outputs, checks, str((deployment.get("manifest") or {}).get("time") or ""), specs, requests)


def export_state(root: Path, stack: str) -> Mapping[str, Any]:
    """Return the stack's state as the Pulumi CLI exports it, secrets encrypted. Raises Gemma4Error."""
    if shutil.which("pulumi") is None:
        raise Gemma4Error(
            f"the state of {stack} is read with the Pulumi CLI, which is not on the PATH; install it, or name the server "
            "with --url where a command takes it."
        )
    command = ["pulumi", "stack", "export", "--stack", stack, "--non-interactive"]
    try:
        with waiting(f"reading the state of {stack} with the Pulumi CLI"):
            done = subprocess.run(  # noqa: S603
                command, cwd=root, capture_output=True, text=True, timeout=_EXPORT_S, check=False
            )
    except subprocess.TimeoutExpired:
        raise Gemma4Error(
            f"pulumi stack export did not end within {_EXPORT_S} s; is the state's backend reachable?"
        ) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Gemma4Error(f"the state of {stack} cannot be read: {said[-1] if said else 'pulumi said nothing'}")
    try:
        exported = json.loads(done.stdout)
    except (ValueError, RecursionError):
        exported = None
    if not isinstance(exported, dict):
        first = next(iter(done.stdout.split("\n")), "")[:80]
        raise Gemma4Error(f"pulumi stack export answered with no JSON object ({first!r}); is that the Pulumi CLI?")
    return exported
