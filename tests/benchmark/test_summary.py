"""What is computed of a cell's repeats."""

from __future__ import annotations

import pytest

from infra.benchmark.summary import interval, latency, summary_of
from tests.benchmark.runs import cell, repeat


def test_percentiles_run_over_the_requests_of_all_repeats() -> None:
    found = summary_of(cell(repeat([n / 100 for n in range(51)]), repeat([n / 100 for n in range(51, 101)])))
    assert found
    assert found.ttft
    assert (found.ttft.p50, found.ttft.p90, found.ttft.p99) == pytest.approx((0.5, 0.9, 0.99))
    assert found.requests == 101


def test_the_interval_is_students() -> None:
    """Three values: t(2) = 4.303, standard deviation 1, so 4.303 / sqrt(3) on each side."""
    found = interval([9.0, 10.0, 11.0])
    assert (found.mean, found.low, found.high) == pytest.approx((10.0, 10 - 2.4843, 10 + 2.4843), abs=2e-4)


def test_one_repeat_has_no_interval() -> None:
    assert interval([10.0]).half_width is None


def test_one_request_is_each_percentile() -> None:
    found = latency([0.25])
    assert found
    assert (found.p50, found.p90, found.p99, found.mean) == pytest.approx((0.25,) * 4)


def test_a_cell_without_measurements_has_no_summary() -> None:
    assert summary_of(cell(status="skipped", why="no room")) is None


def test_requests_of_one_token_have_no_inter_token_latency() -> None:
    found = summary_of(cell(repeat((0.1,), itl_s=[])))
    assert found
    assert found.itl is None
