"""What servers do, read from /metrics: percentiles, differences, restarts, and several servers together."""

from __future__ import annotations

import math

import pytest

from infra.serving.histogram import Histogram
from infra.serving.load import ServerLoad, Span
from infra.serving.metrics import Metrics
from tests.fakes.vllm_metrics import FakeMetrics


def reading(counted: FakeMetrics) -> Metrics:
    return Metrics.parse(counted.text("gemma"))


def observed(*seconds: float, bounds: tuple[float, ...] = (0.1, 0.2, 0.4)) -> Histogram:
    upto = {bound: float(sum(value <= bound for value in seconds)) for bound in (*bounds, math.inf)}
    return Histogram(upto, sum(seconds))


class TestPercentiles:
    def test_they_lie_on_a_straight_line_through_their_bucket(self) -> None:
        four = observed(0.11, 0.12, 0.13, 0.14)
        assert four.percentile(0.5) == pytest.approx(0.15)
        assert four.percentile(1) == pytest.approx(0.2)
        assert observed(0.05, 0.15, 0.25, 0.35).percentile(0.5) == pytest.approx(0.2)

    def test_what_lies_above_the_last_bound_counts_as_that_bound(self) -> None:
        assert observed(0.05, 9.0, 9.0).percentile(0.9) == 0.4

    def test_there_are_none_without_observations(self) -> None:
        assert (observed().percentile(0.5), observed().mean) == (None, None)

    def test_of_two_servers_they_are_those_of_all_requests_and_not_the_mean_of_two(self) -> None:
        quick, slow = observed(*[0.05] * 9), observed(0.35)
        both = Histogram.together([quick, slow])
        assert both.percentile(0.9) == pytest.approx(0.1)
        assert both.count == 10
        assert both.total == pytest.approx(0.8)

    def test_bounds_that_only_one_version_has_are_left_out(self) -> None:
        both = Histogram.together([observed(0.15), observed(0.15, bounds=(0.2, 0.4))])
        assert list(both.upto) == [0.2, 0.4, math.inf]
        assert both.upto[0.2] == 2


class TestTwoReadings:
    def test_counts_are_differences_and_what_is_now_stays(self) -> None:
        server = FakeMetrics()
        server.ttft_s, server.generation_tokens, server.finished["stop"] = [5.0, 5.0], 100, 2
        before = reading(server)
        server.ttft_s += [0.15] * 8
        server.generation_tokens, server.finished["stop"], server.running = 180, 10, 3
        load = ServerLoad.of([Span.between(before, reading(server), rate_s=4.0)])
        assert load.ttft is not None
        assert load.ttft.count == 8
        assert load.ttft.mean == pytest.approx(0.15)
        assert (load.generation_tokens_per_second, load.running, load.finished) == (20.0, 3, {"stop": 8})

    def test_since_the_start_only_speeds_are_differences(self) -> None:
        server = FakeMetrics()
        server.ttft_s, server.prompt_tokens = [0.15] * 4, 1000
        before = reading(server)
        server.prompt_tokens = 1100
        load = ServerLoad.of([Span.since_start(reading(server), before=before, rate_s=2.0)])
        assert load.ttft is not None
        assert (load.ttft.count, load.prompt_tokens_per_second) == (4, 50.0)

    @pytest.mark.parametrize("says_when_it_began", [True, False])
    def test_after_a_restart_counts_begin_at_zero_and_are_never_negative(self, says_when_it_began: bool) -> None:
        server = FakeMetrics()
        server.missing = set() if says_when_it_began else {"process_start_time_seconds"}
        server.generation_tokens, server.ttft_s, server.preemptions = 9000, [0.1] * 50, 7
        before = reading(server)
        server.restart(at=server.started_at + 60)
        server.generation_tokens, server.ttft_s = 40, [0.3] * 2
        now = reading(server)
        assert now.restarted_since(before)
        load = ServerLoad.of([Span.between(before, now, rate_s=2.0)])
        assert load.ttft is not None
        assert (load.generation_tokens_per_second, load.ttft.count, load.preemptions) == (20.0, 2, 0)

    def test_a_restarted_server_that_has_counted_more_is_known_by_its_start(self) -> None:
        server = FakeMetrics()
        server.generation_tokens = 10
        before = reading(server)
        server.restart(at=server.started_at + 60)
        server.generation_tokens = 50
        assert ServerLoad.of([Span.between(before, reading(server), rate_s=1.0)]).generation_tokens_per_second == 50


class TestWhatIsNotReported:
    def test_it_is_unknown_and_not_zero(self) -> None:
        server = FakeMetrics()
        server.missing = {
            "num_preemptions",
            "inter_token_latency",
            "kv_cache_usage_perc",
            "prefix_cache",
            "kv_cache_size",
        }
        now = reading(server)
        load = ServerLoad.of([Span.since_start(now, before=now, rate_s=1.0)])
        assert (load.preemptions, load.inter_token, load.kv_usage, load.prefix_hit_rate) == (None,) * 4
        assert {"preemptions", "inter_token", "kv_usage", "prefix_hit_rate", "acceptance_rate"} <= set(load.unknown)

    def test_it_differs_from_what_has_not_happened(self) -> None:
        now = reading(FakeMetrics())
        load = ServerLoad.of([Span.since_start(now, before=now, rate_s=1.0)])
        assert load.prefix_hit_rate is None
        assert "prefix_hit_rate" not in load.unknown
        assert (load.preemptions, load.finished) == (0, {})

    def test_what_one_of_two_does_not_report_is_unknown_of_both(self) -> None:
        older = FakeMetrics()
        older.missing = {"num_preemptions"}
        spans = [Span.since_start(now, before=now, rate_s=1.0) for now in (reading(older), reading(FakeMetrics()))]
        assert ServerLoad.of(spans).preemptions is None


class TestSeveralServers:
    def test_counts_are_added_before_they_are_divided(self) -> None:
        busy, idle = FakeMetrics(), FakeMetrics()
        busy.prefix_queries, busy.prefix_hits, busy.speculation = 900, 900, (100, 300, 210)
        idle.prefix_queries, idle.prefix_hits, idle.speculation = 100, 0, (0, 0, 0)
        spans = [Span.since_start(now, before=now, rate_s=1.0) for now in (reading(busy), reading(idle))]
        load = ServerLoad.of(spans)
        assert (load.prefix_hit_rate, load.acceptance_rate) == (0.9, 0.7)
        assert load.accepted_length == pytest.approx(3.1)

    def test_cache_usage_is_that_of_all_tokens(self) -> None:
        small, large = FakeMetrics(), FakeMetrics()
        small.kv_tokens, small.kv_usage = 10_000, 0.9
        large.kv_tokens, large.kv_usage = 90_000, 0.1
        spans = [Span.since_start(now, before=now, rate_s=1.0) for now in (reading(small), reading(large))]
        load = ServerLoad.of(spans)
        assert load.kv_usage == pytest.approx(0.18)
        assert load.kv_tokens == 100_000
