"""`gemma4 evaluate`: asks a server questions with known answers, or takes a stored run, and compares it with an earlier one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from infra.benchmark.stored_run import Target
from infra.errors import ServingError, SettingsError
from infra.google.times import moment
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.evaluation_answers import EvaluationAnswer, EvaluationChange, KindRow, WrongAnswer
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.endpoint.find_endpoint import find_endpoint, find_member
from infra.ops.evaluations.evaluation_scope import MOST_CONCURRENCY, architecture_of, chosen_kinds, scope_of
from infra.ops.evaluations.evaluation_text import draw_evaluation
from infra.ops.evaluations.stored_evaluation import (
    EvaluatedPlan,
    EvaluationVersions,
    StoredEvaluation,
    earlier_evaluation,
    evaluation_folder,
    load_evaluation,
    store_evaluation,
    target_name,
)
from infra.ops.program_version import program_version
from infra.ops.terminal.error_output import FAILED, INTERRUPTED
from infra.ops.terminal.progress import waiting
from infra.serving.client import ServedModel, ServingClient, ServingTimeouts
from infra.serving.evaluation.evaluation_comparison import compare_items, repeated
from infra.serving.evaluation.evaluation_record import AskedItem, count_kinds, judge
from infra.serving.evaluation.evaluator import Evaluator
from infra.serving.evaluation.task_set import Kind, task_set
from infra.serving.server_errors import AnswerError
from infra.serving.waking import WAKE_LIMIT_S, until_awake

_LISTED = 12
_SAID = 100  # characters of an answer
_PATIENT = ServingTimeouts(question_s=900.0, completion_s=900.0)
"""A service that has scaled to zero starts for minutes, and a long text is read for minutes on a slow machine."""


def show_evaluation(
    stack: str | None,
    url: str | None,
    *,
    tasks: Sequence[str] = (),
    against: str | None = None,
    stored: str | None = None,
    slice_name: str | None = None,
    model: str | None = None,
    longest_context: int | None = None,
    concurrency: int | None = None,
    output: str | None = None,
    as_json: bool = False,
) -> int:
    """Print the answer and return the exit code: 1 where the server is broken or worse, 130 where somebody interrupted.

    `output` is the file to store the run in; evaluation_answer says what the others are.
    """
    if stored is not None:
        answer = _of_stored(stored, against, given=stack is not None or url is not None)
    else:
        answer = _of_server(stack, url, tasks, against, slice_name, model, longest_context, concurrency, output)
    if as_json:
        print_answer(answer)
    else:
        draw_evaluation(answer)
    if not answer.complete and not stored:
        return INTERRUPTED
    worse = answer.comparison is not None and answer.comparison.verdict == "worse"
    return FAILED if answer.verdict == "broken" or worse else 0


def evaluation_answer(
    stack: str | None = None,
    url: str | None = None,
    *,
    tasks: list[str] | None = None,
    against: str | None = None,
    stored: str | None = None,
    slice_name: str | None = None,
    model: str | None = None,
    longest_context: int | None = None,
    concurrency: int | None = None,
) -> EvaluationAnswer:
    """Ask a server all questions, or those of the kinds `tasks`, store the answers in evaluations/, and judge them.

    `against` is a file of an earlier run to compare with, or `last`. `stored` takes a stored run in place of a server.
    `longest_context` bounds the long texts in tokens. Raises SettingsError for what cannot be asked, and ServingError where
    the server does not answer at all. An assistant may call this, so that it writes no file that a caller names.
    """
    if stored is not None:
        return _of_stored(stored, against, given=stack is not None or url is not None)
    return _of_server(stack, url, tasks or (), against, slice_name, model, longest_context, concurrency, None)


def _of_server(
    stack: str | None,
    url: str | None,
    tasks: Sequence[str],
    against: str | None,
    slice_name: str | None,
    model: str | None,
    longest_context: int | None,
    concurrency: int | None,
    output: str | None,
) -> EvaluationAnswer:
    kinds = chosen_kinds(tasks)
    if concurrency is not None and not 1 <= concurrency <= MOST_CONCURRENCY:
        raise SettingsError.of("--concurrency", f"must be 1 to {MOST_CONCURRENCY}.", fix="Write --concurrency 4.")
    if longest_context is not None and longest_context < 0:
        raise SettingsError.of("--longest-context", "must be 0 or more tokens.", fix="Write --longest-context 8192.")
    endpoint = find_endpoint(stack, url)
    member = find_member(endpoint, slice_name)
    target = Target(stack=stack, url=endpoint.url, model="", member=member.name if member else "")
    earlier = earlier_evaluation(against, target_name(target), task_set().version) if against else None
    client = endpoint.client(member, timeouts=_PATIENT)
    started = datetime.now(UTC)
    with waiting(f"waiting for {endpoint.name} to answer; a service that has scaled to zero starts first"):
        served = _served(endpoint, client, model)
    run = _asked(endpoint, client, served, target, kinds, started, longest_context, concurrency)
    file = Path(output) if output else evaluation_folder() / f"{run.id}.json"
    store_evaluation(run, file)
    return _answer(run, file, earlier)


def _of_stored(stored: str, against: str | None, *, given: bool) -> EvaluationAnswer:
    if given:
        raise SettingsError.of(
            "--stored", "is given beside a server.", "It stands in for one.", "Give a stack or --url, or --stored."
        )
    run = load_evaluation(Path(stored), "--stored")
    earlier = earlier_evaluation(against, target_name(run.target), run.task_set) if against else None
    return _answer(run, Path(stored), earlier)


def _served(endpoint: Endpoint, client: ServingClient, model: str | None) -> ServedModel:
    """Return the model to ask, with its context. Raises SettingsError where the server has none of that name, and
    ServingError where it does not answer."""
    try:
        until_awake(client, limit_s=endpoint.planned.plan.ready_timeout_s if endpoint.planned else WAKE_LIMIT_S)
        listed = client.models()
    except AnswerError as error:
        look = (
            f"see: gemma4 status {endpoint.name}"
            if endpoint.planned
            else "start the server, or name another with --url"
        )
        said = str(error).rstrip(".")
        raise ServingError(f"nothing was asked: {said}; {look}.", status=error.status) from None
    wanted = model or endpoint.served_model or (listed[0].name if listed else "")
    for one in listed:
        if one.name == wanted:  # an adapter's context is that of its model, which stands first
            return ServedModel(one.name, one.max_model_len or listed[0].max_model_len)
    names = ", ".join(one.name for one in listed) or "none"
    fix = f"It serves: {names}."
    raise SettingsError.of("--model", f"{endpoint.name} serves no model {wanted!r}.", "There is nobody to ask.", fix)


def _asked(
    endpoint: Endpoint,
    client: ServingClient,
    served: ServedModel,
    target: Target,
    kinds: tuple[Kind, ...],
    started: datetime,
    longest_context: int | None,
    concurrency: int | None,
) -> StoredEvaluation:
    """Ask the questions, with progress on standard error, and return the run."""
    questions = task_set()
    plan = endpoint.planned.plan if endpoint.planned else None
    scope = scope_of(served, kinds, questions, plan, longest_context=longest_context, concurrency=concurrency)
    with waiting(f"asking {endpoint.name}") as say:

        def progress(done: int, total: int, item: AskedItem) -> None:
            say(f"asking {endpoint.name}: {done} of {total} answered, the last one about {item.kind}")

        evaluator = Evaluator(client, questions, scope, progress=progress)
        items = evaluator.run()
    return StoredEvaluation(
        id=f"{started:%Y%m%dT%H%M%SZ}-{target_name(target)}",
        started_at=moment(started.timestamp()),
        ended_at=moment(datetime.now(UTC).timestamp()),
        complete=not evaluator.interrupted,
        task_set=questions.version,
        architecture=plan.model.architecture if plan else architecture_of(served.name),
        target=target.model_copy(update={"model": served.name}),
        versions=EvaluationVersions(
            gemma4=program_version(), vllm=_vllm_version(client), plan=plan.command.spec_hash if plan else None
        ),
        plan=EvaluatedPlan(model=plan.model.hub_id, accelerator=plan.accelerator.id, flags=list(plan.command.argv))
        if plan
        else None,
        max_model_len=served.max_model_len,
        concurrency=scope.concurrency,
        items=list(items),
    )


def _answer(run: StoredEvaluation, file: Path, earlier: tuple[Path, StoredEvaluation] | None) -> EvaluationAnswer:
    floor = task_set().floor(run.architecture)
    judgement = judge(run.items, floor)
    asked = [item for item in run.items if item.asked]
    wrong = [item for item in asked if item.outcome != "passed"]
    took = datetime.fromisoformat(run.ended_at) - datetime.fromisoformat(run.started_at)
    return EvaluationAnswer(
        target=_named(run.target),
        model=run.target.model,
        verdict=judgement.verdict,
        reason=judgement.reason,
        floor=f"{floor.reason}; {task_set().unproven}",
        complete=run.complete,
        task_set=run.task_set,
        passed=len(asked) - len(wrong),
        asked=len(asked),
        kinds=[KindRow(**one.model_dump()) for one in count_kinds(run.items, floor)],
        wrong=[
            WrongAnswer(id=one.id, said=_shortened(one.answer or one.why), sign=one.sign) for one in wrong[:_LISTED]
        ],
        wrong_count=len(wrong),
        repeated=_of(repeated(run.items)),
        seconds=round(took.total_seconds(), 1),
        prompt_tokens=sum(item.prompt_tokens for item in asked),
        output_tokens=sum(item.completion_tokens for item in asked),
        file=str(file),
        comparison=_change(*earlier, run) if earlier else None,
    )


def _change(file: Path, before: StoredEvaluation, after: StoredEvaluation) -> EvaluationChange:
    found = compare_items(before.items, after.items)
    return EvaluationChange(
        against=str(file),
        verdict=found.verdict,
        p_value=round(found.p_value, 4),
        common=found.common,
        passed_before=found.passed_before,
        passed_after=found.passed_after,
        lost=list(found.lost[:_LISTED]),
        won=list(found.won[:_LISTED]),
        lost_count=len(found.lost),
        won_count=len(found.won),
        same_words=found.same_words,
        repeated_before=_of(found.repeated_before),
        differences=_differences(before, after),
    )


def _differences(before: StoredEvaluation, after: StoredEvaluation) -> list[str]:
    """Return what else is not the same in two runs, each as `what: earlier → later`."""
    pairs = [
        ("server", _named(before.target), _named(after.target)),
        ("model", before.target.model, after.target.model),
        ("vLLM", before.versions.vllm, after.versions.vllm),
        ("requests at once", before.concurrency, after.concurrency),
        ("longest request", before.max_model_len, after.max_model_len),
    ]
    if before.plan and after.plan:
        pairs += [
            ("checkpoint", before.plan.model, after.plan.model),
            ("machine", before.plan.accelerator, after.plan.accelerator),
        ]
        old, new = (dict(_flags(run.plan.flags)) for run in (before, after) if run.plan)
        keys = [key for key in dict.fromkeys((*old, *new)) if key != "--served-model-name"]
        pairs += [(key, old.get(key, "absent"), new.get(key, "absent")) for key in keys]
    return [f"{what}: {was} → {now}" for what, was, now in pairs if was != now][:_LISTED]


def _flags(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Return flags with their values; the words of a flag that takes several are joined."""
    found: list[tuple[str, str]] = []
    for word in argv:
        if word.startswith("--"):
            found.append((word, ""))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {word}".strip())
    return found


def _named(target: Target) -> str:
    return " ".join(filter(None, (target.stack or target.url, target.member)))


def _of(counts: tuple[int, int]) -> str:
    return f"{counts[0]} of {counts[1]}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SAID else f"{text[:_SAID]}…"


def _vllm_version(client: ServingClient) -> str:
    try:
        return client.version()
    except AnswerError as error:
        print(f"vLLM's version is unknown: {error}", file=sys.stderr)
        return ""
