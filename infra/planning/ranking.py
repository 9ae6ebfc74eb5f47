"""The order of candidates, and one line on each: why it stands there, and what the next better one costs.

What cannot be chosen well stands last: machines that nothing deploys yet, plans that may not fit or may stream too slowly,
what another candidate beats in everything, and machines that end by themselves where the need is a service that stays.

The others stand by price, where POINTS points of published score count as half the price; by price alone with a need that
names a least score. What lies within ALIKE or ALIKE_PREDICTED counts as equal: there the better score goes first, then
weights whose score was published, then those of Google.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from infra.planning.candidates import Candidate, Need
from infra.planning.checks.reading_pace import READING_SPEED
from infra.planning.memory.verdict import Verdict
from infra.planning.units import read_duration, read_usd

ALIKE = 1.25
"""Factor within which two list prices count as the same. A judgement."""
ALIKE_PREDICTED = 1.5
"""Factor within which two predicted speeds, or prices of a token, count as the same: each may err by a quarter."""
POINTS = 10.0
"""Points of published score that are worth twice the price, or half the speed. A judgement: 12B lies ten points above E4B
and costs about twice as much a token."""


def ranked(candidates: Iterable[Candidate], need: Need) -> tuple[Candidate, ...]:
    """Return candidates with the one to choose first."""
    found = list(candidates)
    best: list[Candidate] = []
    for one in sorted(found, key=lambda each: _merits(each, need)):  # what beats another stands before it
        if not any(_beats(other, one, need) for other in best):
            best.append(one)
    unbeaten = set(map(id, best))
    groups: dict[tuple[bool, ...], list[Candidate]] = {}
    for one in found:
        unfit, doubtful, ends = _drawbacks(one, need)
        groups.setdefault((unfit, doubtful, ends, id(one) not in unbeaten), []).append(one)
    return tuple(one for group in sorted(groups) for one in _by_bands(groups[group], need))


def reason(ranking: Sequence[Candidate], index: int, need: Need) -> str:
    """Return in a line why the candidate at `index` of a ranking stands there, and what the next better one costs."""
    one = ranking[index]
    unfit, _, ends = _drawbacks(one, need)
    if unfit:
        return "planned only: no component builds it yet"
    if doubt := doubt_about(one, need):
        return doubt
    better = next((number for number, other in enumerate(ranking[:index], 1) if _beats(other, one, need)), None)
    if better is not None:
        return f"no better than {better}, at {_cost_words(ranking[better - 1], need)}"
    if ends:
        lasts = read_duration(one.plan.deployment.ends_after_s or 0)
        return f"ends after {lasts} and queues again: for work that may end (--may-end)"
    return f"{_merit(ranking, index, need)}; {_next_better(ranking, one, need)}"


def doubt_about(one: Candidate, need: Need) -> str:
    """Return why a candidate may not serve the need though it is predicted to; empty where nothing speaks against it."""
    if one.plan.verdict is not Verdict.FITS:
        return "may not fit, by the errors of the prediction"
    if one.plan.server.cpu_offload_gib:
        return "reads weights from the host's memory for every token: a last resort"
    if one.rate.per_stream.low < min(need.floor, READING_SPEED):
        return "may stream slower than people read, by the errors of the prediction"
    if one.rate.with_new_prompts.low / one.rate.requests < min(need.floor, READING_SPEED):
        return "slower than people read while all bring new prompts: for prompts that repeat"
    return ""


def usd(candidate: Candidate, need: Need) -> float:
    """Return what a candidate costs in the unit of the order: dollars a million tokens, else dollars an hour."""
    return candidate.usd_per_million_new_prompts.mid if need.order == "tokens" else candidate.usd_per_hour


def _drawbacks(one: Candidate, need: Need) -> tuple[bool, bool, bool]:
    """Return whether nothing deploys it, whether there is a doubt about it, and whether it ends though the need does not."""
    ends = one.plan.deployment.ends_after_s is not None and not need.may_end
    return not one.plan.accelerator.deployable, bool(doubt_about(one, need)), ends


def _distrust(one: Candidate) -> int:
    """Return 0 for weights whose score was published, 1 for quantised ones of Google, 2 for those of other makers."""
    return 2 if one.plan.model.third_party else 0 if one.quality.own else 1


def _merits(one: Candidate, need: Need) -> tuple[float, float, int, float]:
    return usd(one, need), -_score(one), _distrust(one), -one.rate.per_stream.mid


def _beats(other: Candidate, one: Candidate, need: Need) -> bool:
    """Return whether `other` is at least as good in everything: drawbacks, price, score, maker and, within ALIKE, speed.

    The maker does not matter where `other` costs half.
    """
    if any(his and not mine for his, mine in zip(_drawbacks(other, need), _drawbacks(one, need), strict=True)):
        return False
    (his_usd, his_score, his_maker, his_speed), mine = _merits(other, need), _merits(one, need)
    trusted = his_maker <= mine[2] or 2 * his_usd <= mine[0]
    as_good = his_usd <= mine[0] and his_score <= mine[1] and trusted and ALIKE * his_speed <= mine[3]
    return as_good and _merits(other, need) < mine


def _by_bands(candidates: Iterable[Candidate], need: Need) -> list[Candidate]:
    """Sort by value, in bands of what counts as the same; within one by score, and then by maker, price and speed."""
    value, alike = _value_for(need), ALIKE if need.order == "price" else ALIKE_PREDICTED
    rows: list[Candidate] = []
    band: list[Candidate] = []
    for one in sorted(candidates, key=value):
        if band and value(one) > alike * value(band[0]):
            rows += sorted(band, key=lambda each: _within_band(each, need))
            band = []
        band.append(one)
    return rows + sorted(band, key=lambda each: _within_band(each, need))


def _value_for(need: Need) -> Callable[[Candidate], float]:
    """Return what candidates are ranked by, the least first, weighed with the score: dollars, or the time of a token, where
    twice the speed is worth four times the price."""

    def value(one: Candidate) -> float:
        raw = usd(one, need) ** 0.5 / one.rate.per_stream.mid if need.order == "speed" else usd(one, need)
        return raw if need.min_quality is not None else raw * 2 ** (-_score(one) / POINTS)

    return value


def _within_band(one: Candidate, need: Need) -> tuple[float, float, float, float]:
    price, score, maker, speed = _merits(one, need)
    return (score, price, maker, speed) if need.order == "speed" else (score, maker, price, speed)


def _score(one: Candidate) -> float:
    return one.quality.percent or 0.0


def _merit(ranking: Sequence[Candidate], index: int, need: Need) -> str:
    """Return what a candidate has that none before it has."""
    one, before = ranking[index], ranking[:index]
    if not before:
        return _first_merit(ranking, need)
    first, own = before[0], one.quality.own
    times = one.rate.per_stream.mid / first.rate.per_stream.mid
    less = usd(one, need) / usd(first, need)
    if _score(one) > max(map(_score, before)):
        return f"a better score ({one.quality.cell}) than those before it"
    if ALIKE * usd(one, need) < min(usd(other, need) for other in before):
        return f"the cheapest so far, {_cost_words(one, need)}"
    if own and not any(other.quality.own and _score(other) >= _score(one) for other in before):
        return "unquantised: the score is these very weights'"
    as_cheap = [other for other in before if usd(other, need) <= ALIKE * usd(one, need)]
    if not one.plan.model.third_party and all(other.plan.model.third_party for other in as_cheap):
        return f"{one.plan.model.maker}'s own checkpoint, where 1 is {first.plan.model.maker}'s"
    if times >= ALIKE:
        return f"{times:.1f} times as fast as 1"
    if less <= 1 / ALIKE:
        return f"{1 / less:.1f} times cheaper than 1"
    return f"a score of {one.quality.cell}, {_cost_words(one, need)}"


def _first_merit(ranking: Sequence[Candidate], need: Need) -> str:
    """Return why the first candidate is the first."""
    one = ranking[0]
    value = _value_for(need)
    rivals = [other for other in ranking if _drawbacks(other, need) <= _drawbacks(one, need)]
    if need.order == "speed":
        if all(other.rate.per_stream.mid <= ALIKE * one.rate.per_stream.mid for other in rivals):
            return "the fastest stream"
        return "the fastest stream for its price and score"
    most = ALIKE * usd(one, need)
    if all(_score(other) <= _score(one) for other in rivals if usd(other, need) <= most):
        cheaper = need.min_quality is None and any(ALIKE * usd(other, need) < usd(one, need) for other in rivals)
        return f"best score up to {_cost_words(one, need, times=ALIKE)}" + (" and worth it" if cheaper else "")
    return "cheapest for its score" if value(one) <= min(map(value, rivals)) else "as cheap as any for its score"


def _next_better(ranking: Sequence[Candidate], one: Candidate, need: Need) -> str:
    """Return what a better published score costs, or that none is better."""
    allowed = _drawbacks(one, need)
    better = [other for other in ranking if _score(other) > _score(one) and _drawbacks(other, need) <= allowed]
    if not better:
        return "no score here is better"
    other = min(better, key=lambda each: (usd(each, need), -_score(each)))
    return f"{other.quality.cell} costs {_cost_words(other, need)} ({ranking.index(other) + 1})"


def _cost_words(one: Candidate, need: Need, *, times: float = 1.0) -> str:
    unit = "/M" if need.order == "tokens" else "/h"
    return f"{read_usd(times * usd(one, need))}{unit}"
