"""Two small tests of counted answers, by their definitions: a library for them is 100 times this program's size.

Wilson's interval: E. B. Wilson, JASA 22 (1927). The exact test of paired answers: Q. McNemar, Psychometrika 12 (1947), with
the binomial distribution in place of its approximation.
"""

from __future__ import annotations

import math

_Z_95 = 1.959964
"""Standard deviations of a normal distribution that hold 95 % of it."""


def wilson_interval(passed: int, asked: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share, between 0 and 1; (0, 1) where nothing was asked."""
    if not asked:
        return 0.0, 1.0
    share, spread = passed / asked, _Z_95**2 / asked
    middle = (share + spread / 2) / (1 + spread)
    half = _Z_95 * math.sqrt(share * (1 - share) / asked + spread / (4 * asked)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def exact_mcnemar(lost: int, won: int) -> float:
    """Return the two-sided p-value of paired answers of which `lost` turned wrong and `won` turned right.

    It is the chance that two equal servers, which differ on that many questions, split them at least as unevenly. Questions
    that both answered alike say nothing about a difference.
    """
    differing = lost + won
    splits = sum(math.comb(differing, count) for count in range(min(lost, won) + 1))
    return min(1.0, float(2 * splits / 2**differing))
