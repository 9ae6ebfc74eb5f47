"""A cell is what was measured of it: counted, checked against the server's counters, and never faster than the machine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from infra.benchmark.aiperf import Answered, Load, Recorded
from infra.benchmark.measure_cells import (
    Limits,
    Rig,
    measure_repeat,
    measured_cell,
    requests_of,
    skipped_cell,
    warmup_of,
)
from infra.benchmark.stored_run import Repeat, RunSettings, Shape
from infra.errors import Gemma4Error, ServingError
from infra.serving.metrics import Metrics
from tests.benchmark.runs import repeat, stored
from tests.fakes.vllm_metrics import FakeMetrics

POINT = Shape(concurrency=2, input_tokens=1000, output_tokens=200, workload="")


def settings(**changed: Any) -> RunSettings:
    return stored().settings.model_copy(update={"requests": 4, "repeats": 1, **changed})


class Bench:
    """A rig whose load generator answers `answers` requests of 200 tokens, and whose server counts what `counting` adds."""

    def __init__(self, *, counting: Callable[[FakeMetrics], None] = lambda _: None, answers: int = 4) -> None:
        self.server, self.counting, self.answers = FakeMetrics(), counting, answers
        self.loads: list[Load] = []

    def send(self, load: Load) -> Recorded:
        self.loads.append(load)
        self.server.generation_tokens += 2 * 32 + 200 * self.answers
        self.counting(self.server)
        answered = tuple(Answered(10.0 + place, 0.25, 0.01, 2.0, 1003, 200) for place in range(self.answers))
        return Recorded(answered, {"500: dead": 4 - self.answers} if self.answers < 4 else {}, 2 * 32, 0, 0.5)

    def bodies(self, shape: Shape, *, warmup: int, requests: int, turn: str) -> Iterator[Mapping[str, Any]]:
        return ({"turn": turn} for _ in range(warmup + requests))

    def readings(self) -> Sequence[Metrics]:
        return (Metrics.parse(self.server.text("gemma")),)

    def measure(self, chosen: RunSettings | None = None) -> Repeat:
        ticks = itertools.count()
        rig = Rig(self.send, self.bodies, self.readings, "http://x", "gemma", clock=lambda: float(next(ticks)))
        return measure_repeat(rig, chosen or settings(), POINT, "0 0")


def notes(found: Repeat, chosen: RunSettings | None = None, **limits: Any) -> str:
    return "\n".join(measured_cell(POINT, [found], chosen or settings(), Limits(**limits)).notes)


class TestARepeat:
    def test_throughput_is_over_the_time_from_first_to_last(self) -> None:
        found = Bench().measure()
        assert found.duration_s == 5.0  # sent at 10, 11, 12, 13; two seconds each
        assert found.output_tokens_per_second == 4 * 200 / 5
        assert found.requests_per_second == 4 / 5

    def test_the_warm_up_is_sent_and_not_counted(self) -> None:
        bench = Bench()
        found = bench.measure()
        assert (bench.loads[0].warmup, bench.loads[0].counted) == (2, 4)
        assert found.server_output_tokens == sum(found.output_tokens) == 800

    def test_counters_before_it_do_not_count(self) -> None:
        bench = Bench()
        bench.server.generation_tokens = 10**6
        assert bench.measure().server_output_tokens == 800

    def test_no_answer_at_all_is_a_failure_in_the_servers_words(self) -> None:
        with pytest.raises(Gemma4Error, match="no request of 4 was answered: 4 × 500: dead"):
            Bench(answers=0).measure()

    def test_a_server_without_metrics_is_measured_all_the_same(self) -> None:
        def unread() -> Sequence[Metrics]:
            raise ServingError("404")

        bench = Bench()
        rig = Rig(bench.send, bench.bodies, unread, "http://x", "gemma")
        found = measure_repeat(rig, settings(), POINT, "0 0")
        assert found.server_output_tokens is found.prefix_hit_rate is None
        assert "the answers' usage stands alone" in notes(found)

    def test_acceptance_and_cached_prompts_are_those_of_this_repeat(self) -> None:
        def counted(server: FakeMetrics) -> None:
            server.prefix_queries, server.prefix_hits = 1500, 400
            server.speculation = (30, 120, 80)

        bench = Bench(counting=counted)
        bench.server.prefix_queries, bench.server.prefix_hits = 500, 0
        bench.server.speculation = (10, 40, 20)
        found = bench.measure()
        assert found.acceptance == 60 / 80
        assert found.prefix_hit_rate == 400 / 1000


class TestWhatIsSaidOfACell:
    def test_equal_counts_need_no_word(self) -> None:
        assert notes(Bench().measure()) == ""

    def test_tokens_that_nobody_here_asked_for_are_named(self) -> None:
        def another(server: FakeMetrics) -> None:
            server.generation_tokens += 77

        assert "the server counted 877 generated tokens, the answers 800: somebody else" in notes(
            Bench(counting=another).measure()
        )

    def test_a_counter_that_lost_tokens_is_of_one_of_several_servers(self) -> None:
        def lost(server: FakeMetrics) -> None:
            server.generation_tokens -= 500

        assert "restarted or is one of several" in notes(Bench(counting=lost).measure())

    def test_a_cache_that_answers_for_unique_prompts_is_named(self) -> None:
        def hit(server: FakeMetrics) -> None:
            server.prefix_queries, server.prefix_hits = 4000, 1000

        found = Bench(counting=hit).measure()
        assert "25% of the prompts' tokens were found in the prefix cache, although" in notes(found)
        assert "25% of the prompts' tokens were found in the prefix cache, on purpose" in notes(
            found, settings(prefix_cache="shared")
        )

    def test_failed_requests_are_counted_with_their_reason(self) -> None:
        assert "1 of 4 requests failed: 500: dead" in notes(Bench(answers=3).measure())

    def test_answers_of_another_length_are_named(self) -> None:
        found = repeat(output_tokens=[200, 199], server_output_tokens=399)
        assert "1 answers have another length than 200 tokens, as 199" in notes(found)

    def test_requests_that_wait_are_named(self) -> None:
        assert "1 requests run at once, the others wait" in notes(Bench().measure(), requests_at_once=1)
        assert notes(Bench().measure(), requests_at_once=2) == ""

    def test_missing_repeats_are_named(self) -> None:
        assert "1 of 3 repeats were measured" in notes(Bench().measure(), settings(repeats=3))


class TestTheRoofline:
    def test_a_rate_above_it_is_impossible_and_below_it_measured(self) -> None:
        fast = Bench().measure()  # 160 tokens a second
        impossible = measured_cell(POINT, [fast], settings(), Limits(159.0))
        assert impossible.status == "impossible"
        assert "160 tok/s were measured, and the machine's memory and arithmetic allow 159" in impossible.why
        assert impossible.repeats == [fast], "kept, to be looked into"
        assert measured_cell(POINT, [fast], settings(), Limits(161.0)).status == "measured"

    def test_one_repeat_of_several_is_enough(self) -> None:
        slow, fast = repeat(rate=10.0), repeat(rate=200.0)
        assert measured_cell(POINT, [slow, fast, slow], settings(repeats=3), Limits(150.0)).status == "impossible"

    def test_an_unknown_machine_has_none(self) -> None:
        assert measured_cell(POINT, [repeat(rate=1e9)], settings(), Limits()).status == "measured"


def test_defaults_follow_the_concurrency() -> None:
    usual = settings(requests=None, warmup_requests=None)
    one, many = POINT.model_copy(update={"concurrency": 1}), POINT.model_copy(update={"concurrency": 64})
    assert [requests_of(usual, point) for point in (one, many)] == [8, 192]
    assert [warmup_of(usual, point) for point in (one, many)] == [1, 64]
    assert warmup_of(settings(warmup_requests=0), many) == 0


def test_a_skipped_cell_keeps_its_reason() -> None:
    assert (skipped_cell(POINT, "no room").status, skipped_cell(POINT, "no room").why) == ("skipped", "no room")
