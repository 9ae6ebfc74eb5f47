"""`gemma4 status`: what the last serving check measured, beside what the plan predicts. It asks nothing of the server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.errors import Gemma4Error
from infra.ops.commands.own_runs import rows_of_check
from infra.ops.plan_inputs import plan_stack, project_root
from infra.ops.terminal.json_output import print_json
from infra.planning.plan import Plan
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.units import (
    read_count,
    read_duration,
    read_minutes,
    read_predicted,
    read_seconds,
    read_tokens_per_second,
)

_CHECK = "dynamic/gemma4:ServingCheck"
_EXPORT_S = 60


def show_status(stack: str, *, as_json: bool) -> None:
    """Print the checks in the stack's state. Raises Gemma4Error where there is no state to read."""
    root = project_root()
    plan = plan_stack(stack, root=root).plan
    found = _read_checks(stack, root)
    if as_json:
        print_json({"stack": stack, "plannedSpec": plan.command.spec_hash, "checks": found})
    elif not found:
        print(f"{stack}: nothing has been checked yet; deploy it with: pulumi up -s {stack}")
    for check in [] if as_json else found:
        with _readable(stack):
            _show(plan, check)


def print_rows(stack: str) -> None:
    """Print the checks in the stack's state as rows for `gemma4 scorecard`, one a line. Raises Gemma4Error where no check is
    one of the server that the files here plan."""
    root = project_root()
    plan = plan_stack(stack, root=root).plan
    found = _read_checks(stack, root)
    rows: list[str] = []
    for check in found:
        if "skipped" in check["result"]:
            print(f"{check['name']}: not checked: {check['result']['skipped']}", file=sys.stderr)
        elif check["spec"] != plan.command.spec_hash:
            print(
                f"{check['name']}: was a check of {check['spec']}, and the files here plan {plan.command.spec_hash}: its "
                f"flags are not known here. Run: pulumi up -s {stack}",
                file=sys.stderr,
            )
        else:
            with _readable(stack):
                rows += rows_of_check(plan, check)
    if not rows:
        raise Gemma4Error(
            f"{stack}: no check of what is planned here; deploy it, which checks it: pulumi up -s {stack}"
        )
    print("\n".join(rows))


def _read_checks(stack: str, root: Path) -> list[dict[str, Any]]:
    exported = export(root, stack)
    with _readable(stack):
        return checks_in(exported)


@contextmanager
def _readable(stack: str) -> Iterator[None]:
    """Say of a check that another version wrote that it cannot be read. Raises Gemma4Error."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Gemma4Error(
            f"the state of {stack} holds a check that this version cannot read ({type(error).__name__}: {error}), so there "
            f"is nothing to show; check anew with: pulumi up -s {stack}"
        ) from None


def checks_in(exported: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return name, URL, served specification, moment and result of every serving check in an exported state."""
    resources = (exported.get("deployment") or {}).get("resources") or []
    return [
        {
            "name": resource["urn"].rsplit("::", 1)[-1],
            "url": f"{outputs['url']}{outputs['path']}",
            "spec": outputs["expected"]["spec_hash"],
            "at": resource.get("modified") or resource.get("created") or "",
            "result": outputs["result"],
        }
        for resource in resources
        if _CHECK in resource.get("type", "") and (outputs := resource.get("outputs") or {}).get("result")
    ]


def export(root: Path, stack: str) -> Mapping[str, Any]:
    """Return the stack's state as the Pulumi CLI exports it, secrets encrypted. Raises Gemma4Error."""
    if shutil.which("pulumi") is None:
        raise Gemma4Error(
            "gemma4 status reads the stack's state with the Pulumi CLI, which is not on the PATH; install it."
        )
    print(f"reading the state of {stack} with the Pulumi CLI …", file=sys.stderr, flush=True)
    command = ["pulumi", "stack", "export", "--stack", stack, "--non-interactive"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_EXPORT_S, check=False)  # noqa: S603
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


def _show(plan: Plan, check: Mapping[str, Any]) -> None:
    result = check["result"]
    show(f"{check['name']}  {check['url']}")
    if "skipped" in result:
        show(f"  not checked: {result['skipped']}")
        return
    if check["spec"] != plan.command.spec_hash:
        show(f"  the files here plan {plan.command.spec_hash}, deployed is {check['spec']}: run pulumi up")
    measured = result["kv_tokens"]
    alone = plan.speed.alone.total  # its own prompt has been read when the first token comes
    rows = [
        (
            "KV cache",
            read_predicted(plan.kv_tokens, read_count, " tokens"),
            f"{int(measured):,}" if measured else "unknown",
        ),
        (
            "first token",
            f"{read_predicted(plan.speed.ttft_s, read_seconds)} without network",
            f"{result['ttft_s']:.2f} s through it",
        ),
        (
            "alone",
            read_predicted(alone, read_tokens_per_second),
            read_tokens_per_second(result["tokens_per_second"]),
        ),
        (
            "ready",
            read_predicted(plan.startup.from_zero, read_duration, " from zero", ends=read_minutes),
            f"after {read_duration(result['ready_s'])} of waiting",
        ),
    ]
    show(FittedTable([Column(""), Column("predicted"), Column("measured")], rows))
    show(f"  vLLM {result['vllm_version']}, planned {plan.server.image_version or 'whatever the image holds'}")
    for note in result["notes"]:
        show(f"  note: {note}")
