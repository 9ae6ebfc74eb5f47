"""`gemma4 status`: what the last serving check measured, beside what the plan predicts. It asks nothing of the server."""

from __future__ import annotations

import sys
from dataclasses import asdict

from infra.errors import Gemma4Error
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.status_answers import CheckRow, Status
from infra.ops.commands.own_runs import rows_of_check
from infra.ops.endpoint.stack_state import CheckRecord, read_state, readable
from infra.ops.plan_inputs import plan_stack, project_root
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


def show_status(stack: str, *, as_json: bool) -> None:
    """Print the checks in the stack's state. Raises Gemma4Error where there is no state to read."""
    root = project_root()
    plan = plan_stack(stack, root=root).plan
    found = read_state(root, stack).checks
    if as_json:
        checks = [CheckRow(**asdict(one)) for one in found]
        print_answer(Status(stack=stack, planned_spec=plan.command.spec_hash, checks=checks))
    elif not found:
        print(f"{stack}: nothing has been checked yet; deploy it with: pulumi up -s {stack}")
    for check in [] if as_json else found:
        with readable(stack):
            _show(plan, check)


def print_rows(stack: str) -> None:
    """Print the checks in the stack's state as rows for `gemma4 scorecard`, one a line. Raises Gemma4Error where no check is
    one of the server that the files here plan."""
    root = project_root()
    plan = plan_stack(stack, root=root).plan
    found = read_state(root, stack).checks
    rows: list[str] = []
    for check in found:
        if "skipped" in check.result:
            print(f"{check.name}: not checked: {check.result['skipped']}", file=sys.stderr)
        elif check.spec != plan.command.spec_hash:
            print(
                f"{check.name}: was a check of {check.spec}, and the files here plan {plan.command.spec_hash}: its "
                f"flags are not known here. Run: pulumi up -s {stack}",
                file=sys.stderr,
            )
        else:
            with readable(stack):
                rows += rows_of_check(plan, check)
    if not rows:
        raise Gemma4Error(
            f"{stack}: no check of what is planned here; deploy it, which checks it: pulumi up -s {stack}"
        )
    print("\n".join(rows))


def _show(plan: Plan, check: CheckRecord) -> None:
    result = check.result
    show(f"{check.name}  {check.url}")
    if "skipped" in result:
        show(f"  not checked: {result['skipped']}")
        return
    if check.spec != plan.command.spec_hash:
        show(f"  the files here plan {plan.command.spec_hash}, deployed is {check.spec}: run pulumi up")
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
