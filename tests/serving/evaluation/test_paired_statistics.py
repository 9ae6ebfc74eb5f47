"""The two statistics against published values, and what they promise: few false alarms, and differences that are found."""

from __future__ import annotations

import random

import pytest

from infra.serving.evaluation.evaluation_comparison import SIGNIFICANT
from infra.serving.evaluation.paired_statistics import exact_mcnemar, wilson_interval

QUESTIONS = 60


@pytest.mark.parametrize(
    ("passed", "asked", "low", "high"),
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (81, 263, 0.255, 0.366), (0, 0, 0.0, 1.0)],
)
def test_wilson_agrees_with_published_values(passed: int, asked: int, low: float, high: float) -> None:
    """81 of 263: R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3 (0.2553 to 0.3662)."""
    assert wilson_interval(passed, asked) == pytest.approx((low, high), abs=0.0006)


@pytest.mark.parametrize(
    ("lost", "won", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (0, 6, 0.03125), (8, 2, 0.109375)]
)
def test_mcnemar_is_the_binomial_sum(lost: int, won: int, p: float) -> None:
    assert exact_mcnemar(lost, won) == pytest.approx(p)


def differences(before: float, after: float, rounds: int, seed: int) -> float:
    """The share of pairs of runs that are called different. Each question has its own chance on either server, and chances
    of two equal servers are the same question by question."""
    chance = random.Random(seed)
    found = 0
    for _ in range(rounds):
        spread = [chance.betavariate(4 * before, 4 * (1 - before)) for _ in range(QUESTIONS)]
        then = [chance.random() < one for one in spread]
        now = [chance.random() < one * after / before for one in spread]
        lost = sum(was and not is_now for was, is_now in zip(then, now, strict=True))
        won = sum(is_now and not was for was, is_now in zip(then, now, strict=True))
        found += exact_mcnemar(lost, won) <= SIGNIFICANT
    return found / rounds


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_equal_servers_are_seldom_told_apart(share: float) -> None:
    assert differences(share, share, rounds=2000, seed=round(100 * share)) <= 0.05


def test_a_server_that_fell_from_90_to_60_percent_is_found() -> None:
    assert differences(0.9, 0.6, rounds=500, seed=1) >= 0.95
