"""What an evaluation found: one record a question, and how many of each kind were right. Plain data, stored as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from infra.serving.evaluation.paired_statistics import wilson_interval
from infra.serving.evaluation.task_set import KINDS, Floor, Kind

LEAST_JUDGED = 4
"""A kind of which fewer were asked is not held to its floor."""
MOST_SIGNS = 0.25
"""Share of answers that are empty, repeat themselves or are no text, from which on a server is broken whatever else it does."""
_LEAST_FOR_SIGNS = 8
STOPPED = "the server stopped answering"
"""Why a question was not asked after several requests in a row without any answer."""

Outcome = Literal["passed", "failed", "error", "not asked"]


class RecordData(BaseModel):
    """Base: camelCase keys; keys that a newer program wrote are ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class AskedItem(RecordData):
    """One question and what came back."""

    id: str = Field(description="of the task; a long text's with its length and depth")
    kind: Kind = Field(description="of the task")
    digest: str = Field(description="of all that was asked; answers are compared where it agrees")
    outcome: Outcome = Field(description="`error`: the request failed, which counts as wrong")
    why: str = Field(description="of an error its message, of a question that was not asked the reason; else empty")
    answer: str = Field(description="text or tool calls, cut after some hundred characters")
    answer_digest: str = Field(description="of the whole answer; empty without one")
    sign: str = Field(description="`empty`, `repeats itself` or `is no text`; else empty")
    prompt_tokens: int = Field(description="as the server counts")
    completion_tokens: int = Field(description="as the server counts")
    seconds: float = Field(description="until the whole answer was there")
    same_again: bool | None = Field(description="whether a second asking gave the same answer; null: asked once")

    @property
    def asked(self) -> bool:
        """Whether it counts: it was asked, with or without an answer."""
        return self.outcome != "not asked"


class KindCount(RecordData):
    """How many questions of a kind were right."""

    kind: Kind = Field(description="of the tasks")
    passed: int = Field(description="right answers")
    asked: int = Field(description="questions asked, errors included")
    low: float = Field(description="lower end of the share's 95 % interval (Wilson)")
    high: float = Field(description="upper end")
    least: int = Field(
        description="right answers below which the server is called broken; 0: too few were asked to say"
    )
    why_not: str = Field(description="why none was asked; else empty")

    @property
    def broken(self) -> bool:
        """Whether fewer were right than the floor asks for."""
        return self.passed < self.least


class Judgement(RecordData):
    """Whether the server answers as a working one does, whatever it was compared with."""

    verdict: Literal["sound", "broken", "unknown"] = Field(description="`unknown`: too few questions were asked")
    broken_kinds: list[Kind] = Field(description="kinds below their floor")
    signs: dict[str, int] = Field(description="wrong answers that no working server gives, counted by what they show")
    reason: str = Field(description="in a sentence")


def count_kinds(items: Sequence[AskedItem], floor: Floor) -> tuple[KindCount, ...]:
    """Return the counts of every kind that has an item, in the order of `KINDS`."""
    counts = []
    for kind in KINDS:
        own = [item for item in items if item.kind == kind]
        asked = [item for item in own if item.asked]
        passed = sum(item.outcome == "passed" for item in asked)
        low, high = wilson_interval(passed, len(asked))
        if own:
            counts.append(
                KindCount(
                    kind=kind,
                    passed=passed,
                    asked=len(asked),
                    low=round(low, 3),
                    high=round(high, 3),
                    least=math.ceil(floor.shares[kind] * len(asked)) if len(asked) >= LEAST_JUDGED else 0,
                    why_not="" if asked else own[0].why,
                )
            )
    return tuple(counts)


def judge(items: Sequence[AskedItem], floor: Floor) -> Judgement:
    """Return whether the server that gave these answers is broken: a kind is below its floor, or answers are no answers."""
    kinds = count_kinds(items, floor)
    broken = [count for count in kinds if count.broken]
    asked = [item for item in items if item.asked]
    signs: dict[str, int] = {}
    for item in asked:
        if item.sign and item.outcome != "passed":
            signs[item.sign] = signs.get(item.sign, 0) + 1
    stopped = any(item.why == STOPPED for item in items)
    damaged = len(asked) >= _LEAST_FOR_SIGNS and sum(signs.values()) >= MOST_SIGNS * len(asked)
    if broken or damaged or stopped:
        below = ", ".join(f"{one.kind} ({one.passed} of {one.asked})" for one in broken)
        shown = ", ".join(f"{times} {'is' if times == 1 else 'are'} {_said(sign)}" for sign, times in signs.items())
        parts = [STOPPED if stopped else ""]
        parts += [f"below the floor: {below}" if below else "", f"of {len(asked)} answers {shown}" if shown else ""]
        verdict: Literal["sound", "broken", "unknown"] = "broken"
        reason = "; ".join(filter(None, parts))
    elif any(count.least for count in kinds):
        verdict, reason = "sound", "every kind that was asked is above its floor"
    else:
        verdict, reason = "unknown", f"fewer than {LEAST_JUDGED} questions of any kind were asked"
    return Judgement(verdict=verdict, broken_kinds=[one.kind for one in broken], signs=signs, reason=reason)


def _said(sign: str) -> str:
    return {"repeats itself": "repetition", "is no text": "no text"}.get(sign, sign)
