"""Histograms as Prometheus counts them, and the percentiles that can be read from them.

Only histograms can be added: the percentile of two servers together is not the mean of their percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Histogram:
    """Counts of observations up to each bound, which is included. The last bound is infinite: its count is that of all."""

    upto: Mapping[float, float]
    """By bound, rising, how many observations are not above it."""
    total: float
    """Sum of all observations."""

    @property
    def count(self) -> float:
        """The number of observations."""
        return self.upto.get(math.inf, 0.0)

    @property
    def mean(self) -> float | None:
        """The exact mean; None without observations."""
        return self.total / self.count if self.count > 0 else None

    @classmethod
    def together(cls, histograms: Sequence[Histogram]) -> Histogram:
        """Return the histogram of all observations, by the bounds that every one of the histograms has."""
        first, *others = histograms
        bounds = [bound for bound in first.upto if all(bound in other.upto for other in others)]
        upto = {bound: sum(one.upto[bound] for one in histograms) for bound in bounds}
        return cls(upto, sum(one.total for one in histograms))

    def percentile(self, share: float) -> float | None:
        """Return the value that `share` of the observations (0 to 1) do not exceed, as a straight line through its bucket
        has it. None without observations. What lies above the last finite bound counts as that bound, as in Prometheus."""
        rank = share * self.count
        if self.count <= 0:
            return None
        for (lower, below), (upper, reached) in pairwise([(0.0, 0.0), *self.upto.items()]):
            if reached >= rank and reached > below:
                return lower if math.isinf(upper) else lower + (upper - lower) * (rank - below) / (reached - below)
        return None
