"""`gemma4 check`: proves again that a server does what is planned, through the URL that its users call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rich.console import RenderableType

from infra.errors import GoogleError, ServingError
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.proof_answers import CheckAnswer, ServerCheckRow
from infra.ops.commands.measured_figures import figure_table, figures_of
from infra.ops.endpoint.endpoint import Endpoint, Member
from infra.ops.endpoint.find_endpoint import find_endpoint, find_member
from infra.ops.terminal.progress import waiting
from infra.planning.plan import Plan
from infra.planning.report.tables import labelled
from infra.planning.report.terminal import NARROW, show
from infra.providers.server_context import log_tail, platform_reason
from infra.serving.check import run_check
from infra.serving.expectation import CheckExpectation
from infra.serving.planned_expectation import planned_expectation
from infra.serving.served_expectation import served_expectation

_BESIDE_TEXT = ("reasoning", "tools", "image", "audio", "video")


def check_answer(
    stack: str | None = None, url: str | None = None, slice_name: str | None = None, wait_s: float | None = None
) -> CheckAnswer:
    """Check every server of a stack, or one slice of it, or the server at a URL, and return what each did.

    A server that has scaled to zero is started, and waited for as long as planned or `wait_s` seconds. Raises Gemma4Error
    where the endpoint is not found.
    """
    endpoint = find_endpoint(stack, url)
    only = find_member(endpoint, slice_name)
    plan = endpoint.planned.plan if endpoint.planned else None
    expected = planned_expectation(plan) if plan else None
    other = _other_specification(endpoint)
    servers: list[ServerCheckRow] = []
    for member in endpoint.members if only is None else (only,):
        if other:
            servers.append(_row(member, f"{endpoint.url}{member.prefix}", stage="models", error=other))
            continue
        name = member.name or endpoint.name
        with waiting(f"checking {name}") as say:
            row, expected = check_server(endpoint, member, expected, wait_s, partial(_say, say, name))
        servers.append(row)
    passed = all(one.passed for one in servers)
    return CheckAnswer(
        endpoint=endpoint.name,
        passed=passed,
        expected=_beside_text(expected) if expected else [],
        servers=servers,
        next="" if passed else f"pulumi up -s {endpoint.name}" if other else f"gemma4 diagnose {endpoint.words}",
    )


def show_check(
    stack: str | None, url: str | None, *, slice_name: str | None, wait_s: float | None, as_json: bool
) -> bool:
    """Print what the check found, and return whether every server passed."""
    answer = check_answer(stack, url, slice_name, wait_s)
    if as_json:
        print_answer(answer)
    else:
        show(*check_lines(answer), columns=NARROW)
    return answer.passed


def check_lines(answer: CheckAnswer) -> list[RenderableType]:
    """Return an answer in lines for a terminal."""
    parts: list[RenderableType] = []
    for one in answer.servers:
        about = f"{answer.endpoint} {one.name}".rstrip()
        place = [] if one.url == answer.endpoint else [f"  at {one.url}"]
        if not one.passed:
            parts += [f"{about} FAILED at stage {one.stage}", *place, one.error]
            parts += ["The server's last log lines:", *(f"  {line}" for line in one.log)] if one.log else []
            continue
        asked = ", ".join(["text", *answer.expected])
        took = f" in {one.duration_s:.0f} s" if one.duration_s is not None else ""
        parts += [f"{about} passed{took}: {asked}", *place, figure_table(one.figures)]
        parts += [f"  {row.figure} is outside the predicted band" for row in one.figures if row.in_band is False]
        parts += [f"  vLLM {one.vllm_version}"] if one.vllm_version else []
        parts += [labelled([("  note", note)], 6) for note in one.notes]
    return [*parts, f"Next: {answer.next}"] if answer.next else parts


def _say(say: Callable[[str], None], name: str, line: str) -> None:
    say(f"{name}: {line}")


def check_server(
    endpoint: Endpoint,
    member: Member,
    expected: CheckExpectation | None,
    wait_s: float | None,
    progress: Callable[[str], None],
) -> tuple[ServerCheckRow, CheckExpectation | None]:
    """Return the check of one server, and what was expected of it: without a plan what the server says of itself."""
    plan = endpoint.planned.plan if endpoint.planned else None
    place = f"{endpoint.url}{member.prefix}"
    try:
        if endpoint.tokens:
            endpoint.tokens.token()  # who may not make one need not wait for the server
        client = endpoint.client(member)
        expected = expected or served_expectation(client)
        patience = {} if wait_s is None else {"ready_timeout_s": wait_s}
        result = run_check(
            client,
            expected.model_copy(update=patience),
            progress=progress,
            log_tail=_log_tail(endpoint, plan, member),
            platform=_platform(endpoint, plan, member),
        )
    except (ServingError, GoogleError) as error:
        first, *log = str(error).split("\n")
        stage = (error.stage or "ready") if isinstance(error, ServingError) else "identity"
        lines = [line.strip() for line in log if line.strip() and not line.startswith("The server's last log lines")]
        return _row(member, place, stage=stage, error=first, log=lines), expected
    figures = figures_of(plan, result.model_dump())
    version, notes = result.vllm_version, list(result.notes)
    row = _row(member, place, version=version, notes=notes, duration_s=result.duration_s)
    return row.model_copy(update={"figures": figures, "passed": True}), expected


def _row(
    member: Member,
    place: str,
    *,
    stage: str = "",
    error: str = "",
    log: Sequence[str] = (),
    version: str = "",
    notes: Sequence[str] = (),
    duration_s: float | None = None,
) -> ServerCheckRow:
    return ServerCheckRow(
        name=member.name,
        url=place,
        passed=False,
        stage=stage,
        error=error,
        log=list(log),
        vllm_version=version,
        figures=[],
        notes=list(notes),
        duration_s=duration_s,
    )


def _other_specification(endpoint: Endpoint) -> str:
    """Return why the planned server cannot be the one that is deployed; empty where it may be. The check would wait for it."""
    deployed = (endpoint.state.outputs.get("plan") or {}).get("spec") if endpoint.state else None
    planned = endpoint.planned.plan.command.spec_hash if endpoint.planned else None
    if not deployed or deployed == planned:
        return ""
    return (
        f"serving check, stage models: deployed is {deployed}, and the files here plan {planned}, so nothing was asked. "
        f"Deploy what is planned, which checks it, or go back to the files of {deployed}."
    )


def _log_tail(endpoint: Endpoint, plan: Plan | None, member: Member) -> Callable[[], Sequence[str]]:
    place = endpoint.log_place(member)
    return partial(log_tail, endpoint.session, place) if endpoint.session and place else lambda: ()


def _platform(endpoint: Endpoint, plan: Plan | None, member: Member) -> Callable[[], str]:
    place = endpoint.log_place(member)
    return partial(platform_reason, endpoint.session, place) if endpoint.session and place else lambda: ""


def _beside_text(expected: CheckExpectation) -> list[str]:
    return [*expected.adapters, *(name for name in _BESIDE_TEXT if getattr(expected, name))]
