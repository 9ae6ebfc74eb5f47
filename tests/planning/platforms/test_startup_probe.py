"""The startup probe: what is chosen, what Cloud Run would reject, and what cannot outlast the start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import Fault, Findings
from infra.planning.gateway.service_limits import HttpProbe, check_request_timeout
from infra.planning.performance.startup import Stage, StartupEstimate, WeightPath
from infra.planning.platforms.cloud_run.startup_probe import (
    check_probe,
    choose_probe,
    deploy_timeout_s,
)
from infra.planning.units import Band


def start(low: float, mid: float, high: float, *, image_import: float = 0.0) -> StartupEstimate:
    stages = (
        Stage("image import", Band(0, image_import / 2, image_import), "registry", repeats=False),
        Stage("everything else", Band(low, mid, high), "host"),
    )
    return StartupEstimate(stages, WeightPath.MOUNT_STREAMER, ("Do less.",), (), "a test")


QUICK = start(100, 160, 300)
WIDE = start(320, 420, 10_800)


def keys(faults: tuple[Fault, ...]) -> list[str]:
    return [fault.key.removeprefix("probes.startup.") for fault in faults]


class TestChoice:
    def test_asks_health_at_a_short_period_for_as_long_as_the_cap_allows(self) -> None:
        probe = choose_probe(QUICK)
        assert probe == HttpProbe(0, 10, 5, 180, "/health")
        assert probe.window_s == 1800

    def test_a_delay_lengthens_the_window_only_where_the_start_may_outlast_the_cap(self) -> None:
        assert choose_probe(WIDE).initial_delay_s == 240
        assert choose_probe(start(70, 900, 2000)).initial_delay_s == 70
        assert choose_probe(QUICK).initial_delay_s == 0

    @given(st.integers(1, 1800))
    def test_the_threshold_fills_the_cap_at_any_period(self, period: int) -> None:
        probe = choose_probe(QUICK, period_s=period)
        assert 1800 - period < probe.period_s * probe.failure_threshold <= 1800
        assert probe.timeout_s <= period

    def test_what_a_user_set_stands(self) -> None:
        probe = choose_probe(WIDE, initial_delay_s=0, period_s=60, timeout_s=50, failure_threshold=30)
        assert probe == HttpProbe(0, 60, 50, 30)

    def test_our_own_choice_is_never_at_fault(self) -> None:
        assert check_probe(choose_probe(QUICK), QUICK) == Findings()
        assert check_probe(choose_probe(WIDE), WIDE).refusals == ()


class TestLimits:
    def test_the_published_layout_of_34_minutes_is_exactly_at_the_cap(self) -> None:
        assert check_probe(HttpProbe(240, 60, 50, 30), QUICK) == Findings()

    def test_7200_seconds_are_refused_word_for_word(self) -> None:
        found = check_probe(HttpProbe(240, 240, 239, 30), QUICK)
        assert [str(fault) for fault in found.refusals] == [
            "probes.startup.failureThreshold: 30 x periodSeconds 240 = 7,200 s is over Cloud Run's cap of 1,800 s with "
            "a GPU. The deployment would be rejected. Write at most 7 at this period, or leave failureThreshold out."
        ]
        assert found.warnings == ()

    @pytest.mark.parametrize(
        ("probe", "refused", "warned"),
        [
            (HttpProbe(240, 10, 5, 180), [], []),
            (HttpProbe(241, 10, 5, 180), [], ["initialDelaySeconds"]),
            (HttpProbe(1800, 10, 5, 180), [], ["initialDelaySeconds"]),
            (HttpProbe(1801, 10, 5, 180), ["initialDelaySeconds"], []),
            (HttpProbe(0, 240, 5, 7), [], []),
            (HttpProbe(0, 600, 5, 3), [], ["periodSeconds"]),
            (HttpProbe(0, 1801, 5, 1), ["periodSeconds"], []),
            (HttpProbe(0, 10, 10, 180), [], []),
            (HttpProbe(0, 10, 11, 180), ["timeoutSeconds"], []),
            (HttpProbe(0, 10, 5, 181), ["failureThreshold"], []),
            (
                HttpProbe(1900, 300, 301, 7),
                ["initialDelaySeconds", "timeoutSeconds", "failureThreshold"],
                ["periodSeconds"],
            ),
        ],
    )
    def test_documented_caps_refuse_and_contradicting_pages_warn(
        self, probe: HttpProbe, refused: list[str], warned: list[str]
    ) -> None:
        found = check_probe(probe, QUICK)
        assert (keys(found.refusals), keys(found.warnings)) == (refused, warned)


class TestWindow:
    def test_shorter_than_any_start_is_refused_with_the_way_out(self) -> None:
        found = check_probe(HttpProbe(0, 10, 5, 9), QUICK)
        assert [str(fault) for fault in found.refusals] == [
            "probes.startup: the probe gives up after 1 min 30 s, the start takes at least 1 min 40 s. Cloud Run would "
            "stop the container while it still loads, at every start. Leave probes.startup out: the window then fills "
            "Cloud Run's cap. Do less."
        ]

    @pytest.mark.parametrize(("threshold", "refused", "warned"), [(9, 1, 0), (10, 0, 1), (29, 0, 1), (30, 0, 0)])
    def test_refused_below_the_band_warned_inside_it(self, threshold: int, refused: int, warned: int) -> None:
        found = check_probe(HttpProbe(0, 10, 5, threshold), QUICK)
        assert (len(found.refusals), len(found.warnings)) == (refused, warned)

    def test_the_delay_counts_as_part_of_the_window(self) -> None:
        assert check_probe(HttpProbe(200, 10, 5, 10), QUICK) == Findings()

    def test_a_full_window_is_not_advised_to_be_widened(self) -> None:
        (warning,) = check_probe(choose_probe(WIDE), WIDE).warnings
        assert "Leave probes.startup out" not in warning.fix
        assert warning.fix == "Do less."

    def test_there_is_a_way_out_where_nothing_shortens_the_start(self) -> None:
        fastest = replace(WIDE, remedies=())
        (warning,) = check_probe(choose_probe(fastest), fastest).warnings
        assert "fewer bytes" in warning.fix


class TestTimeouts:
    def test_pulumi_waits_longer_than_import_and_window_together(self) -> None:
        estimate = start(100, 160, 300, image_import=540)
        assert deploy_timeout_s(choose_probe(estimate), estimate) == 2700
        slow = start(100, 160, 300, image_import=3000)
        assert deploy_timeout_s(choose_probe(slow), slow) == 5100

    def test_readiness_waits_ten_minutes_twice_the_estimate_or_the_longest_start(self) -> None:
        assert start(100, 160, 300).ready_timeout_s == 600
        assert start(500, 955, 1500).ready_timeout_s == 1920
        assert start(500, 955, 2401).ready_timeout_s == 2460

    def test_windows_and_time_outs_outlast_a_start_in_which_everything_is_slow(self) -> None:
        """The band of the whole start is narrower than that, since its stages are rarely slow together."""
        stages = (
            Stage("image import", Band(0, 100, 400), "registry", repeats=False),
            Stage("weights", Band(100, 400, 1100), "storage"),
            Stage("engine", Band(200, 400, 1000), "host"),
        )
        estimate = StartupEstimate(stages, WeightPath.STREAM, (), (), "a test")
        probe = choose_probe(estimate)
        assert estimate.extremes == Band(300, 800, 2100)
        assert 1700 < estimate.from_zero.high < 1800
        assert probe.initial_delay_s == 240, "the window alone would not last 2,100 s"
        (warning,) = check_probe(probe, estimate).warnings
        assert "35 min" in warning.fact
        assert check_probe(replace(probe, failure_threshold=31, initial_delay_s=0), estimate).refusals == ()
        assert check_probe(replace(probe, failure_threshold=29, initial_delay_s=0), estimate).refusals
        assert deploy_timeout_s(probe, estimate) >= probe.window_s + 400
        assert estimate.ready_timeout_s >= 2100

    def test_requests_are_capped_at_an_hour(self) -> None:
        assert check_request_timeout(3600, longest_answer_s=Band.around(60, 0.2)) == Findings()
        (refusal,) = check_request_timeout(3601, longest_answer_s=Band.around(60, 0.2)).refusals
        assert str(refusal) == (
            "scaling.requestTimeout: 3601 s is over Cloud Run's 3600 s. The deployment would be rejected. Write 60m."
        )

    def test_an_answer_longer_than_the_timeout_is_warned_about(self) -> None:
        (warning,) = check_request_timeout(300, longest_answer_s=Band.around(420, 0.2)).warnings
        assert warning.fact == "a typical answer takes ≈ 7 min (±20 %), longer than 5 min."
        assert warning.fix.startswith("Write at least 9m")

    def test_an_answer_longer_than_the_cap_is_not_told_to_raise_it(self) -> None:
        (warning,) = check_request_timeout(3600, longest_answer_s=Band.around(4000, 0.2)).warnings
        assert "Write" not in warning.fix
