"""Computes quantiles of Student's t distribution, for intervals of a few repeats."""

from __future__ import annotations

import math
from functools import cache

_STEPS = 200
_TINY = 1e-300


@cache
def t_quantile(probability: float, freedom: float) -> float:
    """Return the t below which a share `probability` lies, for `freedom` > 0 degrees of freedom.

    `probability` is at least 0.5 and below 1: the distribution is symmetric. Found by halving an interval, to twelve digits.
    """
    if not 0.5 <= probability < 1:
        raise ValueError(f"a probability from 0.5 to 1 is needed, not {probability}")
    low, high = 0.0, 1.0
    while t_share(high, freedom) < probability:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        mid = (low + high) / 2
        if mid in (low, high):
            break
        low, high = (mid, high) if t_share(mid, freedom) < probability else (low, mid)
    return (low + high) / 2


def t_share(t: float, freedom: float) -> float:
    """Return the share of the distribution below `t` (Abramowitz and Stegun, Handbook, 26.7.1)."""
    tail = _beta_share(freedom / (freedom + t * t), freedom / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail


def _beta_share(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function (Abramowitz and Stegun, Handbook, 26.5.1 and 26.5.2)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # there the continued fraction converges slowly
        return 1 - _beta_share(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / a / _beta_fraction(x, a, b)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function (26.5.8), from its front by Lentz's method."""
    value = front = 1.0
    back = 0.0
    for step in range(1, _STEPS):
        half = step // 2
        if step % 2:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        back = 1 / ((1 + term * back) or _TINY)
        front = (1 + term / front) or _TINY
        value *= front * back
        if abs(front * back - 1) < 1e-15:
            break
    return value
