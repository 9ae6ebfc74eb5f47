"""Compares two evaluations question by question, and says whether the second server is worse or whether that is chance.

Only questions count that both were asked in the same words. Answers that differ in their words without being wrong are no
fault: at temperature 0 a server still adds numbers in an order that depends on what else is in its batch. How often that
happens is seen from the questions that each server was asked twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from infra.serving.evaluation.evaluation_record import AskedItem
from infra.serving.evaluation.paired_statistics import exact_mcnemar

SIGNIFICANT = 0.05
"""p-value from which on a difference is called one: equal servers are told apart wrongly once in 20 comparisons at most."""

ComparisonVerdict = Literal["worse", "better", "no difference", "nothing to compare"]


@dataclass(frozen=True)
class EvaluationComparison:
    """What changed from the first run to the second."""

    common: int
    """Questions that both were asked in the same words."""
    passed_before: int
    passed_after: int
    lost: tuple[str, ...]
    """Questions that were right and are wrong now."""
    won: tuple[str, ...]
    """Questions that were wrong and are right now."""
    p_value: float
    same_words: int
    """Answers, of those in common, that are the same word for word."""
    repeated_before: tuple[int, int]
    """Answers that a server gave again word for word, of those that it was asked twice: of the first run."""
    repeated_after: tuple[int, int]

    @property
    def verdict(self) -> ComparisonVerdict:
        """Return what the counts say: a difference only where chance seldom makes one so large."""
        if not self.common:
            return "nothing to compare"
        if self.p_value > SIGNIFICANT:
            return "no difference"
        return "worse" if len(self.lost) > len(self.won) else "better"


def compare_items(before: Sequence[AskedItem], after: Sequence[AskedItem]) -> EvaluationComparison:
    """Return the comparison of two runs of one set of questions."""
    earlier = {item.id: item for item in before if item.asked}
    pairs = [
        (earlier[item.id], item)
        for item in after
        if item.asked and item.id in earlier and earlier[item.id].digest == item.digest
    ]
    right = [(old.outcome == "passed", new.outcome == "passed") for old, new in pairs]
    lost = tuple(new.id for (_, new), (was, now) in zip(pairs, right, strict=True) if was and not now)
    won = tuple(new.id for (_, new), (was, now) in zip(pairs, right, strict=True) if now and not was)
    return EvaluationComparison(
        common=len(pairs),
        passed_before=sum(was for was, _ in right),
        passed_after=sum(now for _, now in right),
        lost=lost,
        won=won,
        p_value=exact_mcnemar(len(lost), len(won)),
        same_words=sum(bool(new.answer_digest) and old.answer_digest == new.answer_digest for old, new in pairs),
        repeated_before=repeated(before),
        repeated_after=repeated(after),
    )


def repeated(items: Sequence[AskedItem]) -> tuple[int, int]:
    """Return how many answers came again word for word, and how many questions were asked twice."""
    twice = [item.same_again for item in items if item.same_again is not None]
    return sum(twice), len(twice)
