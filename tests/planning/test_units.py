"""Bands and durations: the values that every estimate is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.planning.units import (
    Band,
    counted,
    parse_duration,
    read_duration,
    read_minutes,
    read_rate,
    read_seconds,
    read_spread,
    read_usd,
    spell_duration,
)


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
        ("band", "spread"),
        [
            (Band.around(10, 0.2), "(±20 %)"),
            (Band.around(10, 0.5), "(5 to 15)"),
            (Band.around(10, 0.2, error_up=1), "(8 to 20)"),
            (Band.around(1000, 0.2, error_up=24), "(800 to 25,000)"),
            (Band.exactly(3), ""),
            (Band.exactly(0), ""),
        ],
    )
    def test_the_spread_is_a_percentage_or_two_ends_but_never_a_percentage_of_more_than_a_factor_of_two(
        self, band: Band, spread: str
    ) -> None:
        assert read_spread(band, "{:,.0f}".format) == spread

    def test_two_ends_of_one_unit_name_it_once(self) -> None:
        assert read_spread(Band(540, 900, 1440), read_minutes) == "(9.0 to 24 min)"
        assert read_spread(Band(60, 300, 1440), read_minutes) == "(60 s to 24 min)"
        assert read_spread(Band(0.5, 0.9, 2), read_usd) == "($0.50 to $2.00)"


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
        ],
    )
    def test_are_read_out_to_a_useful_precision(self, seconds: float, text: str) -> None:
        assert read_duration(seconds) == text

    @pytest.mark.parametrize(
        ("seconds", "text"), [(0.0002, "1 ms"), (0.0038, "4 ms"), (0.01, "0.01 s"), (0.342, "0.34 s"), (12, "12 s")]
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
