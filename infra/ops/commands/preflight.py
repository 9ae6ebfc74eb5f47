"""`gemma4 preflight`: what would stop `pulumi up` of a stack, with the command that mends it. Nothing is created."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from infra.errors import Fault, GoogleError, SettingsError
from infra.google.upstream_versions import HUGGING_FACE
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.preflight_answers import ObstacleRow, PassedRow, Preflight
from infra.ops.commands.plan import list_resources
from infra.ops.google_access import google_session, stack_session
from infra.ops.plan_inputs import Planned, plan_stack, project_root
from infra.ops.pulumi_cli import read_pulumi
from infra.ops.terminal.error_output import FAILED, REFUSED
from infra.ops.terminal.progress import waiting
from infra.planning.report.tables import labelled
from infra.planning.report.terminal import show, unbroken
from infra.preflight.all_checks import FIRST, all_checks
from infra.preflight.preflight_check import PreflightCheck, PreflightResult
from infra.preflight.run_checks import run_checks
from infra.preflight.subject import Subject
from infra.serving.server_errors import sentence
from infra.suggestions import did_you_mean

REGISTRY = ""
"""Another address than Docker Hub's; for tests."""
_MARKS = {"failed": ("✗", "red"), "unknown": ("?", "yellow"), "ok": ("✓", "green")}
_ALTERNATIVE = "; or "


def preflight_answer(stack: str, only: list[str] | None = None) -> Preflight:
    """Return what would stop `pulumi up` of the stack. `only` names checks, or the first word of several (quota, image, org).

    Raises SettingsError for a stack without a project and for an unknown check, GoogleError where Google cannot be reached.
    """
    root = project_root()
    planned = plan_stack(stack, root=root)
    if planned.plan.project is None:
        fix = f"Run: pulumi config set gcp:project my-project -s {stack}"
        raise SettingsError([Fault("gcp:project", "is missing.", "There is no project to ask about.", fix)])
    checks = _chosen(all_checks(planned.plan), only or [])
    session = google_session(planned.file)
    with waiting("reading the plan's resources and the stack's state"):
        resources = list_resources(planned).rows
        pulumi = read_pulumi(root, stack)
    subject = Subject(
        plan=planned.plan,
        connect=lambda: stack_session(planned.file),
        resources=resources,
        pulumi=pulumi,
        caller=_caller(planned),
        hub_token=os.environ.get("HF_TOKEN", "").strip(),
        hub=os.environ.get("HF_ENDPOINT") or HUGGING_FACE,
        registry=REGISTRY,
    )
    with waiting(f"asking {len(checks)} things") as say:
        results = run_checks(checks, subject, first=FIRST, done=_progress(checks, say))
    return _answer(stack, session.project, subject.caller, checks, results)


def show_preflight(stack: str, only: list[str] | None = None, *, as_json: bool = False) -> int:
    """Print the answer, and return the exit code: 0 all green, 3 something would stop `pulumi up`, 1 not all could be asked."""
    answer = preflight_answer(stack, only)
    if as_json:
        print_answer(answer)
    else:
        show(*_screen(answer))
    return {"ready": 0, "stopped": REFUSED, "unknown": FAILED}[answer.verdict]


def _caller(planned: Planned) -> str:
    try:
        return stack_session(planned.file).caller
    except GoogleError:
        return ""  # the check of the credentials says what is wrong


def _chosen(checks: list[PreflightCheck], only: Sequence[str]) -> list[PreflightCheck]:
    """Return the checks that are named, and the first one, which the others need. Raises SettingsError."""
    if not only:
        return checks
    known = {word for check in checks for word in (check.id, check.id.partition("-")[0])}
    if strange := [word for word in only if word not in known]:
        fix = did_you_mean(strange[0], known) or f"Write one of: {', '.join(check.id for check in checks)}."
        raise SettingsError.of("--only", f"there is no check {strange[0]!r} of this stack.", "Nothing was asked.", fix)
    wanted = [check for check in checks if check.id in only or check.id.partition("-")[0] in only]
    if any(check.google for check in wanted) and all(check.id != FIRST for check in wanted):
        wanted = [check for check in checks if check.id == FIRST or check in wanted]
    return wanted


def _progress(
    checks: Sequence[PreflightCheck], say: Callable[[str], None]
) -> Callable[[PreflightCheck, PreflightResult], None]:
    left = {check.id: check.title for check in checks}

    def done(check: PreflightCheck, result: PreflightResult) -> None:
        left.pop(check.id, None)
        asked = len(checks) - len(left)
        say(f"asked {asked} of {len(checks)}, still waiting for: {', '.join([*left.values()][:3])}")

    return done


def _answer(
    stack: str,
    project: str,
    caller: str,
    checks: Sequence[PreflightCheck],
    results: dict[str, PreflightResult],
) -> Preflight:
    obstacles = [
        ObstacleRow(
            id=check.id,
            title=check.title,
            state=state,
            fact=results[check.id].fact,
            consequence=results[check.id].consequence,
            fix=_fixes(results[check.id].fix),
            advisory=check.advisory,
        )
        for state in ("failed", "unknown")
        for check in checks
        if results[check.id].state == state
    ]
    counted = {one.state for one in obstacles if not (one.advisory and one.state == "unknown")}
    return Preflight(
        stack=stack,
        project=project,
        caller=caller,
        verdict="stopped" if "failed" in counted else "unknown" if counted else "ready",
        obstacles=obstacles,
        passed=[PassedRow(id=one.id, fact=results[one.id].fact) for one in checks if results[one.id].state == "ok"],
        not_needed=[check.id for check in checks if results[check.id].state == "not needed"],
    )


def _fixes(fix: str) -> list[str]:
    return [one for line in fix.splitlines() for one in line.split(_ALTERNATIVE)]


def _screen(answer: Preflight) -> Iterator[RenderableType]:
    """Yield the answer as text: what failed first, with its remedy; then what passed, a line each."""
    failed = sum(one.state == "failed" for one in answer.obstacles)
    open_questions = len(answer.obstacles) - failed
    asked = len(answer.obstacles) + len(answer.passed)
    said = [f"{failed} of {asked} checks would stop `pulumi up`"] if failed else []
    said += [f"{open_questions} of {asked} could not be told"] if open_questions else []
    yield Text(f"{answer.stack}: {', '.join(said) or f'all {asked} checks passed'}", style="bold")
    for one, title in _together(answer.obstacles):
        yield ""
        mark, colour = _MARKS[one.state]
        yield Text(f"{mark} {title}", style=colour)
        yield labelled([("", " ".join(filter(None, (sentence(one.fact), one.consequence))))], 0)
        if one.fix:
            yield unbroken(
                f"    {'or: ' if at and one.id != 'permissions' else ''}{fix}" for at, fix in enumerate(one.fix)
            )
    yield ""
    mark, colour = _MARKS["ok"]
    yield labelled([(Text(f"{mark} {one.id}", style=colour), one.fact) for one in answer.passed], 0)
    if answer.not_needed:
        yield Text(f"– not needed: {', '.join(answer.not_needed)}", style="dim")
    yield ""
    yield _next(answer)


def _together(obstacles: Sequence[ObstacleRow]) -> Iterator[tuple[ObstacleRow, str]]:
    """Yield obstacles with their titles: those that say the same, and nothing to do, as one."""
    said: dict[tuple[str], list[ObstacleRow]] = {}
    for one in obstacles:
        said.setdefault((one.id,) if one.fix else (one.fact,), []).append(one)
    for same in said.values():
        yield same[0], ", ".join(one.title for one in same)


def _next(answer: Preflight) -> str:
    again = f"gemma4 preflight {answer.stack}"
    if answer.verdict == "ready":
        return f"Next: pulumi up -s {answer.stack}"
    if answer.verdict == "stopped":
        return f"Next: mend what failed, then ask again: {again}"
    return f"Next: look at what could not be told; pulumi up -s {answer.stack} may work. Ask again: {again}"
