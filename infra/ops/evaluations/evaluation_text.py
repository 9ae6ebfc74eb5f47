"""Prints what an evaluation found."""

from __future__ import annotations

from infra.ops.answers.evaluation_answers import EvaluationAnswer, EvaluationChange, KindRow
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.units import read_count, read_duration

_SAID = 46
"""Characters of a wrong answer, which fit one line of 80 with the name of its question."""


def draw_evaluation(answer: EvaluationAnswer) -> None:
    """Print the verdict, the kinds, the wrong answers, and the comparison where there is one."""
    share = f"{answer.passed} of {answer.asked} right"
    show(f"{answer.target}  {answer.model}  {answer.verdict}, {share}" + ("" if answer.complete else ", interrupted"))
    show(f"  {answer.reason}")
    columns = [
        Column(""),
        Column("right", figures=True),
        Column("95 %"),
        Column("floor", figures=True),
        Column("", folds=True),
    ]
    show(FittedTable(columns, [_row(kind) for kind in answer.kinds]))
    for wrong in answer.wrong:
        sign = f"{wrong.sign}: " if wrong.sign and wrong.sign != "empty" else ""
        said = f"{sign}{wrong.said}" or "an empty answer"
        show(f"  wrong: {wrong.id}: {said if len(said) <= _SAID else said[:_SAID].rstrip('…') + '…'}")
    if answer.wrong_count > len(answer.wrong):
        show(f"  and {answer.wrong_count - len(answer.wrong)} more")
    if answer.comparison:
        _draw_change(answer.comparison, answer.repeated)
    show(
        f"  {read_count(answer.prompt_tokens)} tokens read, {read_count(answer.output_tokens)} written in "
        f"{read_duration(answer.seconds)}; asked twice, {answer.repeated} came again word for word"
    )
    show(f"  floors: {answer.floor}")
    show(f"  stored: {answer.file}")


def _row(kind: KindRow) -> list[str]:
    if not kind.asked:
        return [kind.kind, "-", "", "", f"not asked: {kind.why_not}"]
    below = "below the floor" if kind.passed < kind.least else ""
    interval = f"{100 * kind.low:.0f} to {100 * kind.high:.0f} %"
    return [kind.kind, f"{kind.passed} of {kind.asked}", interval, str(kind.least) if kind.least else "-", below]


def _draw_change(change: EvaluationChange, repeated: str) -> None:
    show(f"against {change.against}: {change.verdict}")
    if change.verdict == "nothing to compare":
        show("  no question was asked of both in the same words")
        return
    show(
        f"  of {change.common} questions in common {change.passed_before} were right and {change.passed_after} are now: "
        f"{change.lost_count} lost, {change.won_count} won (p = {change.p_value:.3g}, exact McNemar)"
    )
    for word, names, count in (("lost", change.lost, change.lost_count), ("won", change.won, change.won_count)):
        if names:
            more = f" and {count - len(names)} more" if count > len(names) else ""
            show(f"  {word}: {', '.join(names)}{more}")
    show(
        f"  {change.same_words} of {change.common} answers are the same word for word. Others need not be worse: even one "
        f"server words an answer otherwise when other requests share its batch (asked twice, the same came again in "
        f"{change.repeated_before} before and {repeated} now)."
    )
    for difference in change.differences:
        show(f"  not the same: {difference}")
