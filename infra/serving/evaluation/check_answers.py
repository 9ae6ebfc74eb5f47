"""The stage `evaluation` of the serving check: asks the questions once and holds the answers to the floor."""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.errors import ServingError
from infra.planning.performance.evaluation_time import LONGEST_CHECKED
from infra.serving.client import ServingClient
from infra.serving.evaluation.evaluation_record import AskedItem, count_kinds, judge
from infra.serving.evaluation.evaluator import EvaluationScope, Evaluator
from infra.serving.evaluation.task_set import Kind, task_set
from infra.serving.expectation import CheckExpectation

_SHOWN = 3
"""Wrong answers in the error."""
_SAID_EVERY = 10
"""Answers between two lines of progress."""


def check_answers(
    client: ServingClient,
    expected: CheckExpectation,
    *,
    progress: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, tuple[int, int]]:
    """Return by kind how many questions were answered right and how many were asked.

    Kinds that the plan switches off are not asked. Raises ServingError where the answers are those of a broken server, with
    the kinds that are below their floor and some of the wrong answers.
    """
    questions = task_set()

    def said(done: int, total: int, _: AskedItem) -> None:
        if done % _SAID_EVERY == 0 or done == total:
            progress(f"checking: evaluation: {done} of {total} questions answered")

    evaluator = Evaluator(client, questions, planned_scope(expected), progress=said, sleep=sleep)
    items = evaluator.run()
    if evaluator.interrupted:
        raise KeyboardInterrupt
    floor = questions.floor(expected.evaluated_as)
    found = judge(items, floor)
    if found.verdict == "broken":
        wrong = [item for item in items if item.asked and item.outcome != "passed"]
        broken = [item for item in wrong if item.kind in found.broken_kinds] or wrong
        shown = "; ".join(f"{item.id}: {item.answer or item.why or 'no text'}" for item in broken[:_SHOWN])
        raise ServingError(f"the answers are those of a broken server: {found.reason}. For example {shown}")
    return {count.kind: (count.passed, count.asked) for count in count_kinds(items, floor) if count.asked}


def in_words(counts: dict[str, tuple[int, int]]) -> str:
    """Return the counts as a note for the reader: all of them together, then the kinds with a wrong answer."""
    passed, asked = (sum(pair[at] for pair in counts.values()) for at in (0, 1))
    missed = ", ".join(f"{kind} {right} of {all_}" for kind, (right, all_) in counts.items() if right < all_)
    return f"{passed} of {asked} questions with known answers were answered right" + (f": {missed}" if missed else "")


def planned_scope(expected: CheckExpectation) -> EvaluationScope:
    """Return what a check asks: each question once, long texts up to `LONGEST_CHECKED` tokens."""
    off = switched_off(expected)
    longest = min(LONGEST_CHECKED, expected.max_model_len)
    if longest < min(task_set().context.lengths):
        off["context"] = f"serving.maxModelLen is {expected.max_model_len}"
    return EvaluationScope(expected.model, longest, without=off, repeats=False)


def switched_off(expected: CheckExpectation) -> dict[Kind, str]:
    """Return the kinds that a plan leaves out, each with the setting that does."""
    off: dict[Kind, str] = {}
    if not expected.tools:
        off["tools"] = "serving.tools is false"
    if not expected.image:
        off["image"] = "serving.modalities.image is 0"
    return off
