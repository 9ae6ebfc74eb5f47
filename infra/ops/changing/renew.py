"""`gemma4 renew`: replaces a machine before Google ends it, while it still serves. Made for a schedule: it asks what runs,
decides by the plan's own figures, and runs `pulumi up` only where something is due.

A renewal stands in the stack's state and not in its file: Pulumi replaces the machine's request, makes the next one first and
deletes the old one last (infra/components/ says how). What is under way is finished by a plain `pulumi up`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType

from infra.errors import Fault, Gemma4Error, RefusedError, SettingsError
from infra.google.times import moment, read_moment
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.renewal_answers import MachineTermRow, RenewalAnswer
from infra.ops.changing.ask_first import agreed
from infra.ops.changing.renewal_decision import RenewalDecision, decide
from infra.ops.changing.run_pulumi import Words, run_pulumi, spelled
from infra.ops.endpoint.stack_state import RequestRecord, read_state
from infra.ops.google_access import stack_session
from infra.ops.plan_inputs import Planned, plan_stack, project_root
from infra.ops.running.machine_term import MachineTerm
from infra.ops.running.platform_operations import operations_of
from infra.ops.terminal.progress import waiting
from infra.planning.plan import Plan
from infra.planning.platforms.renewal import RenewalLead
from infra.planning.report.rows import quota_amount
from infra.planning.report.terminal import NARROW, show, unbroken
from infra.planning.units import exact, parse_duration, read_duration, read_usd, spell_duration


def renew_answer(stack: str, before: str | None = None, yes: bool = False) -> RenewalAnswer:
    """Return what must be renewed now and what is run for it; with `yes`, after running it. `before` (a duration) stands in
    for the plan's own time before an end. Raises Gemma4Error where the stack cannot be asked, or running fails."""
    root = project_root()
    planned = plan_stack(stack, root=root)
    return _answer(root, planned, _before_s(before), yes=yes)


def show_renewal(stack: str, *, before: str | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Print what must be renewed now, ask on a terminal unless `yes`, and run it; with `dry_run` print only.

    Raises SettingsError where nobody can be asked.
    """
    if dry_run and yes:
        fact = "is given beside --yes."
        raise SettingsError.of("--dry-run", fact, "One says to change nothing, the other to ask nobody.", "Give one.")
    if as_json:
        print_answer(renew_answer(stack, before, yes))
        return
    root = project_root()
    planned = plan_stack(stack, root=root)
    answer = _answer(root, planned, _before_s(before), yes=False)
    show(*_lines(answer), columns=NARROW)
    if answer.action == "nothing" or dry_run:
        return
    if yes or agreed(f"Run this for {stack}?"):
        _answer(root, planned, _before_s(before), yes=True)
        show(f"Look at it with: gemma4 status {stack}")
    else:
        print("nothing was changed")


def _before_s(text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise SettingsError.of("--before", f"{text!r} {error}.", fix="Write for example --before 2h.") from None


def _answer(root: Path, planned: Planned, before_s: float | None, *, yes: bool) -> RenewalAnswer:
    plan, lead = planned.plan, planned.plan.deployment.renewal(planned.plan.startup)
    if lead is None or plan.paused:
        return _nothing_ends(plan, lead)
    _check_length(plan, lead, before_s)
    session = stack_session(planned.file)
    session.gcp.required_project()
    state = read_state(root, plan.stack)  # first: what is asked for meanwhile is young, and not taken for an orphan
    requests = state.requests
    with waiting(f"asking Google until when {plan.stack} runs"):
        terms = [*operations_of(plan).terms(session, plan, state.tickets)]
    unfinished = [one.name for one in requests if one.leaving]
    decision = decide(terms, lead, session.clock(), before_s=before_s, unfinished=unfinished)
    commands = _commands(plan, decision, requests, [one for one in terms if one.orphan])
    if yes and commands:
        run_pulumi(commands, root)
    return RenewalAnswer(
        stack=plan.stack,
        action=decision.action,
        names=[*decision.names],
        done=yes and bool(commands),
        summary=_summary(plan, decision),
        machines=[_row(one) for one in terms],
        due_at="" if decision.due_at is None else moment(decision.due_at),
        queue_s=lead.queue_s,
        start_s=lead.start_s,
        margin_s=lead.margin_s,
        quotas=[*_quotas(plan)],
        usd_per_hour=exact(_usd_per_hour(plan)),
        commands=[spelled(one) for one in commands],
    )


def _usd_per_hour(plan: Plan) -> float:
    """Return what one machine costs, which may run several servers."""
    return plan.cost.usd_per_hour_at_most / plan.deployment.machines


def _nothing_ends(plan: Plan, lead: RenewalLead | None) -> RenewalAnswer:
    """Return the answer for a stack of which nothing has to be renewed, ever or while it is paused."""
    why = "is paused" if plan.paused else "has no machine whose end is known beforehand"
    return RenewalAnswer(
        stack=plan.stack,
        action="nothing",
        names=[],
        done=False,
        summary=f"{plan.stack} {why}, so there is nothing to renew",
        machines=[],
        due_at="",
        queue_s=lead.queue_s if lead else None,
        start_s=lead.start_s if lead else None,
        margin_s=lead.margin_s if lead else None,
        quotas=[],
        usd_per_hour=exact(_usd_per_hour(plan)),
        commands=[],
    )


def _check_length(plan: Plan, lead: RenewalLead, before_s: float | None) -> None:
    """Raise RefusedError where machines end so soon that each would be replaced as soon as it serves."""
    runs_s, needed_s = plan.deployment.ends_after_s, lead.before_end_s(plan.deployment.machines - 1)
    if before_s is not None or runs_s is None or runs_s > needed_s + lead.step_s:
        return
    key = plan.platform.run_duration_setting
    fact = f"{spell_duration(runs_s)} is too short to be renewed: the next one is asked for {read_duration(needed_s)} before."
    longest = spell_duration(3600 * -(-(2 * (needed_s + lead.step_s)) // 3600))
    consequence = "Each machine would be replaced as soon as it serves."
    raise RefusedError([Fault(key, fact, consequence, f"Write at least {longest}, or say --before.")])


def _commands(
    plan: Plan, decision: RenewalDecision, requests: Sequence[RequestRecord], orphans: Sequence[MachineTerm]
) -> list[Words]:
    """Return what to run. Raises Gemma4Error where the state does not hold what runs, and where an orphan has the name that the
    next machine needs. An orphan that serves nothing counts as none: `pulumi up` takes it away before it asks for the next."""
    if decision.action == "nothing":
        return []
    standing = [one for one in orphans if one.phase in ("starts", "serves")]
    up, urns = (
        ["pulumi", "up", "--stack", plan.stack, "--yes"],
        {one.name: one.urn for one in requests if not one.leaving},
    )
    running = {*decision.names} if decision.action == "renew" else {one.name for one in standing}
    if lost := [name for name in decision.names if name in running and name not in urns]:
        raise Gemma4Error(
            f"the state of {plan.stack} does not hold {', '.join(lost)}, which runs; pulumi up -s {plan.stack} asks for "
            f"another beside it, and gemma4 status {plan.stack} has the command that deletes what no state knows"
        )
    if decision.action != "renew":
        return [up]
    if taken := [one.host for one in standing if one.name in decision.names]:
        raise Gemma4Error(
            f"{', '.join(taken)} stands where the next machine would, and the state of {plan.stack} does not know it, so it "
            f"cannot be renewed; delete it first: gemma4 status {plan.stack} has the command"
        )
    return [[*up, "--skip-preview", *(word for name in decision.names for word in ("--replace", urns[name]))]]


def _summary(plan: Plan, decision: RenewalDecision) -> str:
    names = ", ".join(decision.names)
    if decision.action == "ask again":
        return f"{plan.stack}: {names} has ended or was never asked for; it is asked for again"
    if decision.action == "go on":
        return f"{plan.stack}: {names} is being asked for or replaced already; `pulumi up` goes on with it"
    if decision.due_at is None:
        return f"{plan.stack}: no end is known of what runs, so nothing is due"
    due = read_moment(moment(decision.due_at))
    if decision.action == "renew":
        return f"{plan.stack}: {names} must be renewed now (since {due})"
    return f"{plan.stack}: nothing is due; the next renewal is due {due}"


def _quotas(plan: Plan) -> Iterator[str]:
    for need in plan.quotas:
        yield f"{quota_amount(need.with_one_more(plan.deployment.machines))} in {need.place}"


def _row(one: MachineTerm) -> MachineTermRow:
    ends_at = "" if one.ends_at is None else moment(one.ends_at)
    return MachineTermRow(name=one.name, host=one.host, phase=one.phase, orphan=one.orphan, ends_at=ends_at)


def _lines(answer: RenewalAnswer) -> Iterator[RenderableType]:
    yield answer.summary
    for one in answer.machines:
        yield f"· {one.host} {_PHASES[one.phase]}{f', ends {read_moment(one.ends_at)}' if one.ends_at else ''}"
        if one.orphan:
            yield f"  No state knows it, and nothing renews or deletes it: see gemma4 status {answer.stack}"
    if answer.queue_s is None or answer.start_s is None or answer.margin_s is None or not answer.machines:
        return
    parts = f"{read_duration(answer.queue_s)} in the queue, {read_duration(answer.start_s)} to start"
    yield f"A machine is renewed before its end by {parts}, {read_duration(answer.margin_s)} in reserve."
    usd = read_usd(answer.usd_per_hour)
    yield f"While two exist, both are paid for, {usd} an hour each, and need quota: {', '.join(answer.quotas)}."
    if answer.commands:
        yield "Runs, and deploys with it whatever else the files here plan:"
        yield unbroken(f"  {command}" for command in answer.commands)


_PHASES = {
    "waits": "waits for capacity",
    "starts": "is there and does not serve as planned",
    "serves": "serves",
    "over": "has ended",
    "missing": "was not asked for",
}
