"""`gemma4 status`: what runs of a stack now, what the last check measured, and what it has cost. It wakes no server."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict

from rich.console import RenderableType

from infra.errors import Gemma4Error, GoogleError, ServingError
from infra.google.session import GoogleSession
from infra.google.times import moment, read_moment, timestamp_s
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.status_answers import CheckRow, CostSinceRow, ServerSaysRow, SliceNowRow, Status
from infra.ops.commands.measured_figures import figure_table, figures_of
from infra.ops.commands.own_runs import rows_of_check
from infra.ops.endpoint.find_endpoint import find_endpoint
from infra.ops.endpoint.stack_state import CheckRecord, StackState, read_state, readable
from infra.ops.google_access import stack_session
from infra.ops.plan_inputs import Planned, plan_stack, project_root
from infra.ops.running.platform_operations import operations_of
from infra.ops.running.running_now import RunningNow
from infra.ops.running.usage import Usage
from infra.ops.terminal.progress import waiting
from infra.planning.plan import Plan
from infra.planning.report.tables import labelled
from infra.planning.report.terminal import NARROW, show
from infra.planning.units import read_duration, read_usd


def status_answer(stack: str | None = None, url: str | None = None) -> Status:
    """Return what runs now: of a stack by what Google and its state say, without waking it; of a URL by asking the server.

    Raises SettingsError unless exactly one is given, and for a stack file that cannot be read.
    """
    return _of_stack(stack)[0] if stack is not None and url is None else _of_url(stack, url)


def show_status(stack: str | None, url: str | None, *, as_json: bool) -> bool:
    """Print what runs now, and return whether it serves as planned."""
    if stack is None or url is not None:
        answer = _of_url(stack, url)
        parts = list(_url_lines(answer))
    else:
        answer, now, planned = _of_stack(stack)
        parts = [] if as_json else list(_stack_lines(answer, now, planned.plan))
    if as_json:
        print_answer(answer)
    else:
        show(*parts, columns=NARROW)
    return bool(answer.serving)


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


def usd_words(least: float, most: float) -> str:
    """Return an amount, or the two ends between which it lies where they read differently."""
    low, high = read_usd(least), read_usd(most)
    return low if low == high else f"{low} to {high}"


def _of_stack(stack: str) -> tuple[Status, RunningNow, Planned]:
    root = project_root()
    planned = plan_stack(stack, root=root)
    plan = planned.plan
    gaps: list[str] = []
    try:
        state = read_state(root, stack)
    except Gemma4Error as error:
        state = None
        gaps.append(str(error))
    session = stack_session(planned.file)
    with waiting(f"asking Google what runs of {stack}"):
        now = _now(session, plan, state)
        cost = _cost_since(session, plan, state) if state and now.serving is not None else None
    gaps += now.gaps
    slices = [_dated(one, session.clock(), state) for one in now.slices]
    late = [f"{one.host} was granted after the last `up`, and serves by itself" for one in slices if one.late]
    checks = state.checks if state else ()
    serving, summary, then = now.serving, f"{stack} {now.summary}", now.next
    unproven = _unproven(checks, plan) if state and serving else ""
    if unproven:
        serving, summary, then = False, f"{stack} runs, and {unproven}", f"gemma4 check {stack}"
    answer = Status(
        stack=stack,
        url=str(state.outputs.get("url") or "") if state else "",
        serving=serving,
        summary=summary,
        planned_spec=plan.command.spec_hash,
        deployed_spec=now.deployed_spec or _spec_of(state),
        service=now.service,
        slices=slices,
        machines=list(now.machines),
        orphans=list(now.orphans),
        server=None,
        checks=[CheckRow(**asdict(one)) for one in checks],
        cost=cost,
        next=then or (f"gemma4 ask {stack} Hello" if serving else f"gemma4 preflight {stack}"),
        remarks=[*late, *now.remarks],
        gaps=gaps,
    )
    return answer, now, planned


def _dated(one: SliceNowRow, now: float, state: StackState | None) -> SliceNowRow:
    """Return a slice with what the state's date says of it: whether it came after the last `up`."""
    updated_at = timestamp_s(state.updated_at) if state else None
    late = bool(updated_at and one.serving and one.age_s is not None and now - float(one.age_s) > updated_at)
    return one.model_copy(update={"late": late})


def _now(session: GoogleSession, plan: Plan, state: StackState | None) -> RunningNow:
    try:
        session.gcp.required_project()
        return operations_of(plan).look(session, plan, state.tickets if state else None)
    except Gemma4Error as error:
        return RunningNow(None, "is not known to serve: nothing could be asked", gaps=(str(error),))


def _spec_of(state: StackState | None) -> str:
    return str((state.outputs.get("plan") or {}).get("spec") or "") if state else ""


def _unproven(checks: Iterable[CheckRecord], plan: Plan) -> str:
    """Return why no check in the state proves what runs; empty where one does, or where it was left out on purpose."""
    found = list(checks)
    if not found:
        return "was never checked"
    others = sorted({one.spec for one in found if one.spec != plan.command.spec_hash})
    return f"the last check was of {', '.join(others)}, not of {plan.command.spec_hash}" if others else ""


def _cost_since(session: GoogleSession, plan: Plan, state: StackState) -> CostSinceRow | None:
    since = timestamp_s(state.updated_at)
    if since is None or not state.outputs.get("url"):
        return None
    try:
        found = list(operations_of(plan).usage(session, plan, since=since, until=session.clock()))
    except GoogleError as error:
        found = [Usage.unknown("running time", str(error))]
    return cost_row(found, since)


def cost_row(found: Iterable[Usage], since: float) -> CostSinceRow:
    """Return the cost of parts that ran since a moment; what is not known of a part is left out of the sum and said."""
    parts = list(found)
    counted = [one for one in parts if one.usd is not None]
    notes = [f"{one.what}: {one.note}" for one in parts if one.note]
    return CostSinceRow(
        since=moment(since),
        running_s=sum(one.seconds or 0.0 for one in counted) if counted else None,
        usd_least=sum(one.usd[0] for one in counted if one.usd) if counted else None,
        usd_most=sum(one.usd[1] for one in counted if one.usd) if counted else None,
        notes=notes,
    )


def _of_url(stack: str | None, url: str | None) -> Status:
    endpoint = find_endpoint(stack, url)
    client, gaps = endpoint.client(), list[str]()
    healthy, version, models, longest = False, "", list[str](), None
    with waiting(f"asking {endpoint.url}"):
        try:
            client.health()
            healthy = True
            served = client.models()
            models, longest = [one.name for one in served], served[0].max_model_len if served else None
            version = client.version()
        except (ServingError, GoogleError) as error:
            gaps.append(str(error))
    serves = healthy and bool(models)
    said = "answers /health and serves " + ", ".join(models) if serves else "does not say that it serves"
    return Status(
        stack="",
        url=endpoint.url,
        serving=serves,
        summary=f"{endpoint.url} {said}",
        planned_spec="",
        deployed_spec="",
        service=None,
        slices=[],
        machines=[],
        orphans=[],
        server=ServerSaysRow(healthy=healthy, version=version, models=models, max_model_len=longest),
        checks=[],
        cost=None,
        next=f"gemma4 {'check' if serves else 'diagnose'} {endpoint.words}",
        remarks=[],
        gaps=gaps,
    )


def _url_lines(answer: Status) -> Iterable[RenderableType]:
    yield answer.summary
    if answer.server and answer.server.version:
        yield f"  vLLM {answer.server.version}"
    if answer.server and answer.server.max_model_len:
        yield f"  at most {answer.server.max_model_len:,} tokens a request, prompt and answer"
    yield from answer.gaps
    yield f"Next: {answer.next}"


def _stack_lines(answer: Status, now: RunningNow, plan: Plan) -> Iterable[RenderableType]:
    yield answer.summary
    yield from now.lines
    if answer.deployed_spec:
        same = (
            "as the files here plan it"
            if answer.deployed_spec == answer.planned_spec
            else (f"the files here plan {answer.planned_spec}")
        )
        yield labelled([("  serves", f"{answer.deployed_spec}, {same}")], 11)
    for check in answer.checks:
        try:
            with readable(answer.stack):
                shown = list(_check_lines(check, plan))
        except Gemma4Error as error:
            shown = [str(error)]
        yield from shown
    if answer.cost:
        yield labelled([("  cost", _cost_words(answer.cost))], 11)
        yield from (labelled([("", note)], 11) for note in answer.cost.notes)
    yield from (labelled([("  note", remark)], 11) for remark in answer.remarks)
    yield from (labelled([("  not known", gap)], 11) for gap in answer.gaps)
    yield f"Next: {answer.next}"


def _cost_words(cost: CostSinceRow) -> str:
    if cost.usd_least is None or cost.usd_most is None:
        return f"since the last up ({read_moment(cost.since)}) not known"
    ran = read_duration(cost.running_s or 0.0)
    amount = usd_words(cost.usd_least, cost.usd_most)
    return f"{amount} since the last up ({read_moment(cost.since)}): {ran} of running, at list prices"


def _check_lines(check: CheckRow, plan: Plan) -> Iterable[RenderableType]:
    """Yield what a check measured beside the prediction. Raises KeyError where another version wrote it."""
    at = f" of {read_moment(check.at)}" if check.at else ""
    if "skipped" in check.result:
        yield f"{check.name}{at}: not checked: {check.result['skipped']}"
        return
    yield f"{check.name}{at}"
    yield figure_table(figures_of(plan if check.spec == plan.command.spec_hash else None, check.result))
    planned = plan.server.image_version or "whatever the image holds"
    yield f"  vLLM {check.result['vllm_version']}, planned {planned}"
    yield from (labelled([("  note", note)], 6) for note in check.result["notes"])
