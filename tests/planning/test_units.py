"""Bands and durations: the values that every estimate is made of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.planning.units import (
    Band,
    counted,
    parse_duration,
    read_cell,
    read_count,
    read_duration,
    read_gib,
    read_minutes,
    read_predicted,
    read_rate,
    read_seconds,
    read_tokens_per_second,
    read_usd,
    spell_duration,
)


def test_a_large_size_is_read_with_its_thousands_apart() -> None:
    assert (read_gib(2579.7 * 2**30), read_gib(8.04 * 2**30)) == ("2,579.7", "8.0")


class TestBand:
    def test_a_total_adds_all_errors_on_one_side(self) -> None:
        assert Band.total([Band(1, 2, 4), Band(10, 20, 40)]) == Band(11, 22, 44)

    def test_errors_that_are_independent_add_up_to_less_than_all_of_them_on_one_side(self) -> None:
        parts = (Band(7, 10, 14), Band(16, 20, 23), Band.exactly(5))
        assert Band.independent_total(parts) == Band(30, 35, 40)
        assert Band.independent_total(parts[:1]) == parts[0]

    def test_dividing_turns_the_ends_around(self) -> None:
        assert Band(1, 2, 4).dividing(8) == Band(2, 4, 8)

    def test_ends_that_cross_are_refused(self) -> None:
        with pytest.raises(ValueError, match="must rise"):
            Band(2, 1, 3)

    @pytest.mark.parametrize(
        ("band", "said"),
        [
            (Band.around(10, 0.2), "≈ 10 cups (±20 %)"),
            (Band.around(10, 0.33), "≈ 10 cups (±33 %)"),
            (Band.around(10, 0.34), "7 to 13 cups"),
            (Band.around(1000, 0.2, error_up=0.4), "≈ 1,000 cups (800 to 1,400)"),
            (Band.around(1000, 0.2, error_up=0.21), "≈ 1,000 cups (±21 %)"),
            (Band.around(1000, 0.001), "≈ 1,000 cups (±1 %)"),
            (Band.around(10, 0.5), "5 to 15 cups"),
            (Band.around(1000, 0.2, error_up=24), "800 to 25,000 cups"),
            (Band(0, 0, 3), "0 to 3 cups"),
            (Band(9.9, 10, 10.1), "≈ 10 cups"),
            (Band.exactly(3), "≈ 3 cups"),
            (Band.exactly(0), "≈ 0 cups"),
        ],
    )
    def test_a_prediction_has_its_band_and_one_that_spans_more_than_a_factor_of_two_no_middle(
        self, band: Band, said: str
    ) -> None:
        assert read_predicted(band, read_count, " cups") == said

    def test_a_cell_of_a_column_of_predictions_is_short(self) -> None:
        assert read_cell(Band.around(1000, 0.2), read_count) == "1,000 ±20%"
        assert read_cell(Band.around(0.3, 0.5), read_usd) == "$0.15 to $0.45"
        assert read_cell(Band(80, 100, 150), read_count) == "80 to 150"
        assert read_cell(Band.exactly(7), read_count) == "7"

    def test_a_brief_band_is_as_wide_as_its_farther_end_or_its_ends_stand_alone(self) -> None:
        assert read_predicted(Band(85, 100, 120), read_count, brief=True) == "≈ 100 (±20 %)"
        assert read_predicted(Band(80, 100, 115), read_count, brief=True) == "≈ 100 (±20 %)"
        assert read_predicted(Band(80, 100, 150), read_count, brief=True) == "80 to 150"
        assert read_predicted(Band(70, 100, 150), read_count, brief=True) == "70 to 150"

    @given(st.floats(1, 1e6), st.floats(0, 0.99), st.floats(0, 10), st.booleans())
    def test_no_figure_of_more_than_a_factor_of_two_is_a_point(
        self, mid: float, down: float, up: float, brief: bool
    ) -> None:
        said = read_predicted(Band.around(mid, down, error_up=up), "{:,.3f}".format, brief=brief)
        wide = (1 + up) > 2 * (1 - down)
        assert not wide or "≈" not in said
        assert wide or brief or "≈" in said
        if found := re.search(r"±(\d+) %", said):
            assert int(found[1]) + 0.5 >= 100 * max(down, up)
            assert int(found[1]) <= 34

    def test_two_ends_of_one_unit_name_it_once(self) -> None:
        assert read_predicted(Band(540, 900, 1440), read_duration, ends=read_minutes) == "9.0 to 24 min"
        assert read_predicted(Band(60, 300, 1440), read_duration, " from zero", ends=read_minutes) == (
            "60 s to 24 min from zero"
        )
        assert read_predicted(Band(160, 170, 240), read_duration, ends=read_minutes) == "≈ 2 min 50 s (2.7 to 4.0 min)"
        assert read_predicted(Band(0.5, 0.9, 2), read_usd) == "$0.50 to $2.00"
        assert read_predicted(Band(30, 40, 58), read_tokens_per_second, " alone") == "≈ 40 tok/s alone (30 to 58)"


@pytest.mark.parametrize(("number", "said"), [(0, "0 slices"), (1, "1 slice"), (2048, "2,048 slices")])
def test_a_count_has_its_noun_in_the_right_number(number: int, said: str) -> None:
    assert counted(number, "slice") == said


class TestDurations:
    @pytest.mark.parametrize(
        ("text", "seconds"), [("90s", 90), ("20m", 1200), ("4h", 14_400), ("7d", 604_800), (" 1h ", 3600)]
    )
    def test_are_read_in_four_units(self, text: str, seconds: int) -> None:
        assert parse_duration(text) == seconds

    @pytest.mark.parametrize("text", ["", "90", "1.5h", "-4h", "4 h", "1h30m", "4w", "h"])
    def test_anything_else_says_how_to_write_one(self, text: str) -> None:
        with pytest.raises(ValueError, match="90s, 20m, 4h or 7d"):
            parse_duration(text)

    @given(st.integers(0, 10_000_000))
    def test_spelling_and_reading_back_agree(self, seconds: int) -> None:
        assert parse_duration(spell_duration(seconds)) == seconds

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(0, "0s"), (45, "45s"), (2700, "45m"), (3600, "1h"), (86_400, "1d"), (90_000, "25h")],
    )
    def test_are_spelled_in_the_largest_whole_unit(self, seconds: int, text: str) -> None:
        assert spell_duration(seconds) == text

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (41.7, "42 s"),
            (119, "2 min"),
            (218, "3 min 40 s"),
            (598, "10 min"),
            (1441, "24 min"),
            (5380, "1 h 30 min"),
            (7200, "2 h"),
            (86_400, "24 h"),
            (47.6 * 3600, "47 h 36 min"),
            (7 * 86_400, "7 days"),
            (30 * 86_400, "30 days"),
            (50.9 * 3600, "2 days 3 h"),
        ],
    )
    def test_are_read_out_to_a_useful_precision(self, seconds: float, text: str) -> None:
        assert read_duration(seconds) == text

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(0.0002, "1 ms"), (0.0038, "4 ms"), (0.031, "31 ms"), (0.0996, "0.10 s"), (0.342, "0.34 s"), (12, "12 s")],
    )
    def test_short_times_are_never_read_as_none(self, seconds: float, text: str) -> None:
        assert read_seconds(seconds) == text


class TestFigures:
    @pytest.mark.parametrize(
        ("usd", "text"), [(0, "$0.00"), (0.0042, "$0.004"), (0.305, "$0.30"), (3.1868, "$3.19"), (2326.3, "$2,326")]
    )
    def test_money(self, usd: float, text: str) -> None:
        assert read_usd(usd) == text

    @pytest.mark.parametrize(("rate", "text"), [(0.834, "0.83"), (2.04, "2"), (31.2, "31"), (1243.0, "1,240")])
    def test_rates(self, rate: float, text: str) -> None:
        assert read_rate(rate) == text
