"""The answer of `gemma4 evaluate`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data, Number


class KindRow(Data):
    """The questions of one kind."""

    kind: str = Field(description="e.g. `arithmetic` or `tools`")
    passed: int = Field(description="right answers")
    asked: int = Field(description="questions asked; one whose request failed counts as wrong")
    low: Number = Field(description="lower end of the share's 95 % confidence interval (Wilson), 0 to 1")
    high: Number = Field(description="upper end")
    least: int = Field(
        description="right answers below which the server is called broken; 0: too few were asked to say"
    )
    why_not: str = Field(description="why none was asked; else empty")


class WrongAnswer(Data):
    """A question that was not answered right."""

    id: str = Field(
        description="of the question, in infra/serving/evaluation/tasks.toml; a long text's with length and depth"
    )
    said: str = Field(description="the beginning of the answer, or what the request failed with")
    sign: str = Field(description="`empty`, `repeats itself` or `is no text`; else empty")


class EvaluationChange(Data):
    """What changed against an earlier run, over the questions that both were asked in the same words."""

    against: str = Field(description="file of the earlier run")
    verdict: Literal["worse", "better", "no difference", "nothing to compare"] = Field(
        description="a difference only where equal servers would differ so much in at most one comparison of 20"
    )
    p_value: Number = Field(description="of the exact McNemar test, two-sided")
    common: int = Field(description="questions in common")
    passed_before: int = Field(description="right answers of the earlier run, of those")
    passed_after: int = Field(description="right answers of this run")
    lost: list[str] = Field(description="questions that were right and are wrong now, the first twelve")
    won: list[str] = Field(description="questions that were wrong and are right now, the first twelve")
    lost_count: int = Field(description="all of them")
    won_count: int = Field(description="all of them")
    same_words: int = Field(
        description="answers in common that are the same word for word; another wording is no fault"
    )
    repeated_before: str = Field(description="answers that the earlier server gave again word for word, e.g. `9 of 11`")
    differences: list[str] = Field(description="what else is not the same: versions, model, machine, flags, load")


class EvaluationAnswer(JsonAnswer):
    """What `gemma4 evaluate --json` prints. Exit code 1 where the verdict is `broken` or the comparison says `worse`."""

    target: str = Field(description="the stack, with its slice, or the address")
    model: str = Field(description="the name by which requests asked for it")
    verdict: Literal["sound", "broken", "unknown"] = Field(
        description="`broken`: a kind is below its floor, a quarter of the answers are none, or it stopped answering; "
        "`unknown`: too little was asked to say"
    )
    reason: str = Field(description="in a sentence")
    floor: str = Field(description="why the floors are where they are")
    complete: bool = Field(description="false where it was interrupted")
    task_set: str = Field(description="date of the set of questions")
    passed: int = Field(description="right answers")
    asked: int = Field(description="questions asked")
    kinds: list[KindRow] = Field(description="in the order of the set")
    wrong: list[WrongAnswer] = Field(description="the first twelve; the file has them all")
    wrong_count: int = Field(description="all of them")
    repeated: str = Field(description="answers that came again word for word when asked twice, e.g. `9 of 11`")
    seconds: Number = Field(description="from the first question to the last answer")
    prompt_tokens: int = Field(description="of all questions once, as the server counts")
    output_tokens: int = Field(description="of all first answers")
    file: str = Field(description="where the run is stored")
    comparison: EvaluationChange | None = Field(description="null without --against")
