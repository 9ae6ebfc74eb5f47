"""Quantiles of Student's t against published ones."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from infra.benchmark.student_t import t_quantile, t_share

# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: critical values of Student's t distribution.
PUBLISHED = {
    (0.90, 1): 3.078,
    (0.975, 1): 12.706,
    (0.975, 2): 4.303,
    (0.95, 4): 2.132,
    (0.999, 4): 7.173,
    (0.975, 8): 2.306,
    (0.99, 8): 2.896,
    (0.975, 30): 2.042,
    (0.999, 100): 3.174,
}


@pytest.mark.parametrize(("asked", "published"), PUBLISHED.items())
def test_is_as_published(asked: tuple[float, int], published: float) -> None:
    assert t_quantile(*asked) == pytest.approx(published, abs=6e-4)


def test_becomes_the_normal_distribution_with_many_degrees() -> None:
    assert t_quantile(0.9995, 1e7) == pytest.approx(NormalDist().inv_cdf(0.9995), rel=1e-5)


@pytest.mark.parametrize("freedom", [1, 2, 3.5, 8, 60])
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.95, 0.9999, 1 - 1e-7])
def test_the_share_below_a_quantile_is_what_was_asked_for(probability: float, freedom: float) -> None:
    found = t_quantile(probability, freedom)
    assert t_share(found, freedom) == pytest.approx(probability, abs=1e-12)
    assert t_share(-found, freedom) == pytest.approx(1 - probability, abs=1e-12)


def test_with_one_degree_it_is_cauchy_s() -> None:
    assert t_quantile(0.9, 1) == pytest.approx(math.tan(math.pi * 0.4), rel=1e-12)


@pytest.mark.parametrize("probability", [0.2, 1.0, math.nan])
def test_what_has_no_quantile_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        t_quantile(probability, 3)
