"""`gemma4 diagnose`: what is wrong with a stack, a server or a saved log, each finding with its evidence, cause and fix."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import asdict

from rich.console import RenderableType

from infra.errors import Gemma4Error, GoogleError, SettingsError
from infra.google.times import moment_ms
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.diagnosis_answers import DiagnosisAnswer, FindingRow, LookRow, ModelSummary
from infra.ops.diagnosing.findings import Diagnosis, Look
from infra.ops.diagnosing.log_look import look_at_file, look_at_logs
from infra.ops.diagnosing.model_summary import ask_model
from infra.ops.diagnosing.server_look import look_at_servers
from infra.ops.diagnosing.service_look import look_at_services
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.endpoint.find_endpoint import find_endpoint, refuse_both
from infra.ops.google_access import stack_session
from infra.ops.log_sources import log_sources
from infra.ops.plan_inputs import Planned, plan_stack
from infra.ops.terminal.progress import waiting
from infra.planning.report.tables import labelled
from infra.planning.report.terminal import NARROW, show
from infra.planning.units import parse_duration

_MOST = 6
"""Findings in an answer."""


def diagnose_answer(
    stack: str | None = None, url: str | None = None, since: str = "1h", ask: bool = False
) -> DiagnosisAnswer:
    """Return what is wrong with a stack, or with the server at a URL. Raises SettingsError for bad input."""
    if stack is None and url is None:
        fix = "Name a stack, e.g. l4, a server with --url, or a saved log with --log FILE."
        raise SettingsError.of("stack", "is missing, and so is --url.", "There is nothing to look at.", fix)
    refuse_both(stack, url)
    diagnosis = Diagnosis()
    with waiting("looking for what is wrong") as say:
        if stack is not None:
            endpoint = _look_at_stack(diagnosis, plan_stack(stack), since)
        else:
            endpoint = find_endpoint(None, url)
            look_at_servers(diagnosis, endpoint)
        summary = _summary(diagnosis, endpoint, say) if ask and endpoint else None
    return _answer(diagnosis, stack or url or "", summary)


def saved_log_answer(log: str, stack: str | None = None, url: str | None = None, ask: bool = False) -> DiagnosisAnswer:
    """Return what is wrong by a saved log, `-` for standard input. A stack or a URL only says which model `ask` asks.

    It is no question of an assistant's: it reads a file of this machine. Raises SettingsError for bad input.
    """
    beside = "the stack" if stack is not None else "--url" if url is not None else ""
    if ask and not beside:
        fix = "Name the stack or the --url whose model to ask."
        raise SettingsError.of("--ask", "needs a served model.", "Nobody would be asked.", fix)
    if beside and not ask:
        fix = f"Leave out --log or {beside}; beside --ask, {beside} says which model is asked."
        raise SettingsError.of("--log", f"is given beside {beside}.", "Two things would be looked at.", fix)
    diagnosis = Diagnosis()
    with waiting("looking for what is wrong") as say:
        look_at_file(diagnosis, log)
        summary = _summary(diagnosis, find_endpoint(stack, url), say) if ask else None
    return _answer(diagnosis, "standard input" if log == "-" else log, summary)


def show_diagnosis(
    stack: str | None = None,
    url: str | None = None,
    log: str | None = None,
    since: str = "1h",
    ask: bool = False,
    *,
    as_json: bool = False,
) -> bool:
    """Print what is wrong with a stack, a server or a saved log, and return whether all is well."""
    answer = diagnose_answer(stack, url, since, ask) if log is None else saved_log_answer(log, stack, url, ask)
    if as_json:
        print_answer(answer)
    else:
        show(*_parts(answer), columns=NARROW)
    return answer.healthy


def _summary(diagnosis: Diagnosis, endpoint: Endpoint, say: Callable[[str], None]) -> ModelSummary | None:
    say("asking the model")
    name, text = ask_model(diagnosis, endpoint)
    return ModelSummary(model=name, text=text) if text else None


def _answer(diagnosis: Diagnosis, about: str, summary: ModelSummary | None) -> DiagnosisAnswer:
    return DiagnosisAnswer(
        about=about,
        healthy=diagnosis.healthy,
        findings=[FindingRow(**asdict(one)) for one in diagnosis.ordered()[:_MOST]],
        looked=[LookRow(**asdict(look)) for look in diagnosis.looks],
        model_summary=summary,
    )


def _look_at_stack(diagnosis: Diagnosis, planned: Planned, since: str) -> Endpoint | None:
    """Look at all that a stack has, and return its endpoint, None where it is not known."""
    try:
        seconds = parse_duration(since)
    except ValueError as error:
        raise SettingsError.of("--since", f"{since!r} {error}.", "Nothing was looked at.") from None
    plan, session = planned.plan, stack_session(planned.file)
    session.gcp.required_project()
    look_at_services(diagnosis, session, plan)
    if plan.platform.diagnosis:
        importlib.import_module(plan.platform.diagnosis).look_at(diagnosis, session, plan)
    now = session.clock()
    counts = look_at_logs(diagnosis, session, log_sources(plan), since=moment_ms(now - seconds))
    try:
        endpoint = find_endpoint(plan.stack)
    except GoogleError as error:
        diagnosis.looks.append(Look("the server", trouble=str(error)))
        return None
    except Gemma4Error as error:
        diagnosis.looks.append(Look("the server's address", trouble=str(error)))
        return None
    asleep = plan.settings.scaling.min_instances == 0 and not any(counts.values())
    if asleep and plan.deployment.startup_probe is not None:
        seen = f"not asked: it has logged nothing for {since}, so it has scaled to zero, and a question would start it"
        diagnosis.looks.append(Look("the server", seen))
    else:
        look_at_servers(diagnosis, endpoint)
    return endpoint


def _parts(answer: DiagnosisAnswer) -> Iterator[RenderableType]:
    troubles = [look for look in answer.looked if look.trouble]
    now = [one for one in answer.findings if not one.past]
    looked = [look for look in answer.looked if not look.trouble]
    head = f"{len(now)} found" if now else "nothing found that is wrong now"
    head += ", and not everything could be looked at" if troubles else ""
    yield f"{answer.about}: {head if looked or now else 'nothing could be looked at'}"
    for number, one in enumerate(answer.findings, start=1):
        yield ""
        yield f"{number}. {one.cause}{' (before its last start)' if one.past else ''}"
        seen = f"{one.where}{f', {one.at}' if one.at else ''}{f', {one.times} lines' if one.times > 1 else ''}"
        rows = [("where", seen), ("line", one.evidence), ("do", one.fix), ("sure", _SURE[one.sure])]
        yield labelled(
            [(f"   {head}", text) for head, text in rows + ([("see", one.thread)] if one.thread else [])], 10
        )
    if looked:
        yield ""
        yield "looked at:"
        yield labelled([(f"   {look.what}", look.seen) for look in looked], 32)
    if troubles:
        yield ""
        yield "could not be looked at:"
        yield labelled([(f"   {look.what}", look.trouble) for look in troubles], 32)
    if answer.model_summary:
        yield ""
        yield f"What {answer.model_summary.model} says of it (a model's words, which may be wrong):"
        yield labelled([("   |", answer.model_summary.text)], 5)


_SURE = {
    "sure": "yes: its own message says so",
    "likely": "likely: others report this message for it",
    "guess": "a guess, from what usually lies behind it",
    "vague": "only that something failed",
}
