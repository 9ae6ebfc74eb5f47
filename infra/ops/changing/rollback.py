"""`gemma4 rollback`: back to what was served before, at once, and checked.

It changes what runs, not the stack file: the way to keep it is to take the file's old version out of git.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from rich.console import RenderableType

from infra.errors import Gemma4Error, SettingsError
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.proof_answers import CheckAnswer
from infra.ops.answers.rollback_answers import RollbackAnswer, WayBackRow
from infra.ops.changing.ask_first import agreed
from infra.ops.changing.way_back import WayBack
from infra.ops.commands.check_again import check_lines, check_server
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.endpoint.find_endpoint import find_endpoint
from infra.ops.terminal.progress import waiting
from infra.planning.report.terminal import NARROW, show


def rollback_answer(stack: str, to: str | None = None, newest: bool = False, yes: bool = False) -> RollbackAnswer:
    """Return what would go back to what; with `yes`, after doing and checking it. `to` is a revision or the hash of a
    specification, `newest` means what was deployed last. Raises Gemma4Error where there is nothing to go back to."""
    endpoint, ways = _ways(stack, to, newest=newest)
    return _answer(stack, endpoint, ways, newest=newest, yes=yes)


def show_rollback(stack: str, *, to: str | None, newest: bool, yes: bool, as_json: bool) -> bool:
    """Print what goes back to what, ask on a terminal unless `yes`, do and check it. Return False where a check failed."""
    if as_json:
        answer = rollback_answer(stack, to, newest, yes)
        print_answer(answer)
        return all(one.passed for one in answer.checks)
    endpoint, ways = _ways(stack, to, newest=newest)
    show(*_preview(ways), columns=NARROW)
    if not yes and not agreed(f"Roll {stack} back?"):
        print("nothing was changed")
        return True
    answer = _answer(stack, endpoint, ways, newest=newest, yes=True)
    passed = all(one.passed for one in answer.checks)
    checked = CheckAnswer(endpoint=stack, passed=passed, expected=[], servers=answer.checks, next=answer.next)
    show(*check_lines(checked), columns=NARROW)
    return passed


def _ways(stack: str, to: str | None, *, newest: bool) -> tuple[Endpoint, Sequence[WayBack]]:
    if to is not None and newest:
        raise SettingsError.of("--newest", f"is given beside --to {to}.", "Both say where to go.", "Give one.")
    endpoint = find_endpoint(stack)
    assert endpoint.planned is not None and endpoint.session is not None  # noqa: S101, PT018 a stack's endpoint has both
    plan = endpoint.planned.plan
    if not plan.platform.rollback:
        raise Gemma4Error(f"{stack} serves {plan.platform.where}, where nothing is kept to go back to.")
    module = import_module(plan.platform.rollback)
    return endpoint, [*module.ways_back(endpoint, plan, endpoint.session, to=to, newest=newest)]


def _answer(stack: str, endpoint: Endpoint, ways: Sequence[WayBack], *, newest: bool, yes: bool) -> RollbackAnswer:
    checks = []
    for way in ways if yes else ():
        way.go()
        with waiting(f"checking {way.to}") as say:
            row, _ = check_server(endpoint, way.member, way.expected, None, say)
        checks.append(row)
        if not checks[-1].passed:
            break  # the others still serve
    failed = checks and not checks[-1].passed
    return RollbackAnswer(
        stack=stack,
        done=yes,
        changes=[WayBackRow(server=way.member.name, now=way.now, to=way.to, effect=way.effect) for way in ways],
        checks=checks,
        next=f"gemma4 diagnose {stack}"
        if failed
        else f"gemma4 status {stack}"
        if newest
        else f"mend the stack file, then: {ways[0].then}",
    )


def _preview(ways: Sequence[WayBack]) -> list[RenderableType]:
    return [
        f"{f'{way.member.name}: ' if way.member.name else ''}{way.now or 'now'} → {way.to}\n  {way.effect}"
        for way in ways
    ]
