"""`gemma4 metrics`: one answer of all servers, once or watched, with what each server does not say or do."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from infra.ops.answers.metrics_answers import MetricsAnswer
from infra.ops.commands.read_metrics import two_readings
from infra.ops.endpoint.endpoint import Endpoint, Member
from infra.ops.live_metrics.load_answer import load_answer, read_all
from infra.ops.live_metrics.member_readings import MemberReadings
from infra.ops.live_metrics.metrics_screen import LINE_HEADING, metrics_lines, metrics_table
from infra.ops.live_metrics.watch_metrics import watch
from infra.ops.terminal.safe_output import safe_output
from infra.planning.report.terminal import plain
from tests.fakes.vllm import FakeVllm
from tests.fakes.vllm_metrics import FakeMetrics
from tests.projects import Capture, Command, command


class Clock:
    """Seconds that pass only where a test says so, on the wall too."""

    def __init__(self) -> None:
        self.now = 1.8e9

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


def two_slices() -> tuple[ExitStack, FakeVllm, FakeMetrics]:
    """One address with two slices behind it, which count for themselves; the second one's counters."""
    stack = ExitStack()
    fake = stack.enter_context(FakeVllm())
    green = FakeMetrics()
    fake.prefixes = ("/members/blue", "/members/green")
    fake.metrics_by_prefix["/members/green"] = green
    return stack, fake, green


def of_slices(fake: FakeVllm) -> Endpoint:
    return Endpoint(fake.url, tuple(Member(name, f"/members/{name}") for name in ("blue", "green")))


def of(fake: FakeVllm) -> Endpoint:
    return Endpoint(fake.url, (Member("", ""),))


def once(endpoint: Endpoint, clock: Clock, between: Callable[[], None] = lambda: None) -> MetricsAnswer:
    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        between()

    return two_readings(endpoint, 2.0, sleep=sleep, clock=clock, wall=clock)


def words(answer: MetricsAnswer) -> str:
    return plain(metrics_table(answer), columns=80)


class TestOnce:
    def test_speeds_are_of_two_readings_and_the_rest_since_the_start(self, server: FakeVllm, clock: Clock) -> None:
        counted = server.metrics
        counted.started_at, counted.running, counted.kv_usage = clock.now - 600, 3, 0.12
        counted.ttft_s, counted.finished["stop"] = [0.3] * 10, 10

        def work() -> None:
            counted.generation_tokens += 100

        answer = once(of(server), clock, work)
        load = answer.members[0].load
        assert load
        assert (answer.over, answer.speeds_over_s, load.generation_tokens_per_second) == ("since start", 2.0, 50.0)
        assert load.ttft
        assert (load.ttft.count, load.running, load.finished) == (10, 3, {"stop": 10})
        said = words(answer)
        assert "since its start (10 min ago); tokens a second over the last 2 s" in " ".join(said.split())
        assert "finished: stop           10" in said

    def test_what_this_version_lacks_is_unknown_and_what_has_not_happened_is_not(
        self, server: FakeVllm, clock: Clock
    ) -> None:
        server.metrics.missing = {"num_preemptions", "request_success"}
        answer = once(of(server), clock)
        cells = {line[:19].strip(): line[19:].strip() for line in words(answer).splitlines()}
        assert (cells["preemptions"], cells["finished"], cells["drafts accepted"]) == ("unknown",) * 3
        assert (cells["first token, p50"], cells["prefix cache hits"], cells["running"]) == ("-", "-", "0")
        assert "this version of vLLM does not report: finished, preemptions" in words(answer)

    def test_a_nearly_full_cache_is_warned_of(self, server: FakeVllm, clock: Clock) -> None:
        server.metrics.kv_usage = 0.85
        assert once(of(server), clock).warnings == []
        server.metrics.kv_usage = 0.86
        (warning,) = once(of(server), clock).warnings
        assert "86% of the KV cache is in use" in warning

    def test_the_command_prints_it_in_80_columns_and_as_data(self, server: FakeVllm, gemma4: Command) -> None:
        answer = gemma4("metrics", "--url", server.url, "--interval", "0.5")
        assert (answer.code, max(map(len, answer.out.splitlines()))) <= (0, 80)
        assert gemma4("metrics", "--url", server.url, "--interval", "0.5", "--json").data["over"] == "since start"

    @pytest.mark.parametrize("interval", ["0", "-1", "nan", "1e9"])
    def test_an_interval_that_is_none_is_one_clean_error(self, gemma4: Command, interval: str) -> None:
        answer = gemma4("metrics", "--url", "http://127.0.0.1:9", "--interval", interval)
        assert answer.code == 2
        assert "--interval" in answer.err

    def test_where_nobody_answers_it_fails_and_says_why(self, gemma4: Command) -> None:
        answer = gemma4("metrics", "--url", "http://127.0.0.1:9", "--interval", "0.5")
        assert answer.code == 1
        assert "nothing listens there" in answer.err


class TestSeveralSlices:
    def test_each_has_a_column_and_all_together_one(self, clock: Clock) -> None:
        stack, fake, green = two_slices()
        with stack:
            fake.metrics.running, green.running = 2, 5
            fake.metrics.ttft_s, green.ttft_s = [0.05] * 9, [0.35]
            answer = once(of_slices(fake), clock)
        assert answer.together
        assert answer.together.ttft
        assert answer.together.running == 7
        assert answer.together.ttft.p50_s == pytest.approx(0.05, rel=0.1), (
            "of ten requests, not the mean of two medians"
        )
        assert ["blue", "green", "in", "all"] in [line.split() for line in words(answer).splitlines()]

    def test_one_that_does_not_answer_is_said_and_the_others_are_shown(self, clock: Clock) -> None:
        stack, fake, _ = two_slices()
        with stack:
            fake.metrics.running = 2
            fake.prefixes = ("/members/blue",)  # the other path is not found
            answer = once(of_slices(fake), clock)
        blue, green = answer.members
        assert blue.load
        assert green.load is None
        assert "404" in green.error
        assert answer.together
        assert answer.together.running == 2
        assert "green: no answer: " in words(answer)
        assert any(line.split()[1:4] == ["green", "no", "answer:"] for line in metrics_lines(answer))


class TestReadingAgain:
    def rounds(self, endpoint: Endpoint, clock: Clock) -> Callable[[], MetricsAnswer]:
        members = MemberReadings.of(endpoint, clock=clock, wall=clock)
        read_all(members)

        def next_round() -> MetricsAnswer:
            clock.sleep(5)
            return load_answer(endpoint, read_all(members), watching=True, at=clock())

        return next_round

    def test_every_figure_is_of_the_interval(self, server: FakeVllm, clock: Clock) -> None:
        server.metrics.ttft_s, server.metrics.finished["stop"] = [9.0] * 100, 100
        next_round = self.rounds(of(server), clock)
        server.metrics.ttft_s = [*server.metrics.ttft_s, 0.3, 0.3]
        server.metrics.finished["stop"] += 2
        answer = next_round()
        assert answer.together
        assert answer.together.ttft
        assert (answer.over, answer.together.ttft.count, answer.together.finished) == ("interval", 2, {"stop": 2})
        assert next_round().together.ttft.count == 0  # type: ignore[union-attr]

    def test_a_restart_is_said_and_nothing_is_negative(self, server: FakeVllm, clock: Clock) -> None:
        server.metrics.started_at, server.metrics.generation_tokens = clock.now - 100, 5000
        next_round = self.rounds(of(server), clock)
        server.metrics.restart(at=clock.now + 3)
        server.metrics.generation_tokens = 10
        answer = next_round()
        assert answer.members[0].restarted
        assert answer.together
        assert answer.together.generation_tokens_per_second == 2.0
        assert "restarted since the reading before" in answer.notes[0]
        assert not next_round().members[0].restarted

    def test_instances_that_answer_in_turn_are_each_compared_with_themselves(
        self, server: FakeVllm, clock: Clock
    ) -> None:
        first, second = server.metrics, FakeMetrics()
        first.started_at, first.generation_tokens = clock.now - 900, 1000
        second.started_at, second.generation_tokens = clock.now - 400, 90_000
        next_round = self.rounds(of(server), clock)
        server.metrics = second
        other = next_round()
        assert other.together
        assert (other.together.generation_tokens_per_second, other.members[0].restarted) == (None, False)
        assert "2 instances answered in turn" in other.notes[0]
        server.metrics = first
        first.generation_tokens += 100
        again = next_round()
        assert again.together
        assert (again.together.generation_tokens_per_second, again.speeds_over_s) == (10.0, 10.0)

    def test_requests_that_wait_for_long_are_warned_of_and_only_then(self, server: FakeVllm, clock: Clock) -> None:
        server.metrics.waiting = 1
        next_round = self.rounds(of(server), clock)
        assert [next_round().warnings for _ in range(6)] == [[]] * 6
        (warning,) = next_round().warnings
        assert "waiting in line for 35 s" in warning
        server.metrics.waiting = 0
        next_round()
        server.metrics.waiting = 1
        assert next_round().warnings == []


class TestWatching:
    def lines(self, endpoint: Endpoint, clock: Clock, capsys: Capture, *, as_json: bool, rounds: int = 2) -> list[str]:
        left = [rounds]

        def sleep(seconds: float) -> None:
            clock.sleep(seconds)
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1

        watch(endpoint, interval_s=5, as_json=as_json, clock=clock, wall=clock, sleep=sleep)
        return capsys.readouterr().out.splitlines()

    def test_elsewhere_than_on_a_terminal_it_is_a_line_an_interval_until_ctrl_c(
        self, server: FakeVllm, clock: Clock, capsys: Capture
    ) -> None:
        heading, *lines = self.lines(of(server), clock, capsys, as_json=False)
        assert heading == LINE_HEADING
        assert len(lines) == 2
        assert all(len(line) <= 80 for line in lines)

    def test_on_a_terminal_it_is_one_screen_that_is_drawn_again(
        self, server: FakeVllm, clock: Clock, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with safe_output():  # as the command runs it
            self.lines(of(server), clock, capsys, as_json=False)
        assert terminal.getvalue().count("KV cache in use") >= 2
        assert "\x1b[1A" in terminal.getvalue(), "the cursor goes up over the table before"
        assert "\\x1b" not in terminal.getvalue()

    def test_as_data_it_is_an_object_a_line(self, server: FakeVllm, clock: Clock, capsys: Capture) -> None:
        for line in self.lines(of(server), clock, capsys, as_json=True):
            assert MetricsAnswer.model_validate(json.loads(line)).over == "interval"

    def test_a_server_that_goes_away_and_comes_back_is_watched_all_along(
        self, server: FakeVllm, clock: Clock, capsys: Capture
    ) -> None:
        server.mode, server.refusals_left = "loading", 2
        _, first, second = self.lines(of(server), clock, capsys, as_json=False)
        assert "no answer" in first
        assert "no answer" not in second

    def test_between_two_readings_the_time_asked_for_passes_though_answers_are_slow(
        self, server: FakeVllm, clock: Clock, capsys: Capture
    ) -> None:
        began = clock.now
        self.lines(of(server), clock, capsys, as_json=False, rounds=3)
        assert clock.now - began == 20
