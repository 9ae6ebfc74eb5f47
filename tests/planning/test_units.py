"""Bands and durations: the values that every estimate is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.planning.units import (
    Band,
    parse_duration,
    read_duration,
    read_rate,
    read_seconds,
    read_usd,
    spell_duration,
)


class TestBand:
    def test_a_total_adds_all_errors_on_one_side(self) -> None:
        assert Band.total([Band(1, 2, 4), Band(10, 20, 40)]) == Band(11, 22, 44)

    def test_dividing_turns_the_ends_around(self) -> None:
        assert Band(1, 2, 4).dividing(8) == Band(2, 4, 8)

    def test_ends_that_cross_are_refused(self) -> None:
        with pytest.raises(ValueError, match="must rise"):
            Band(2, 1, 3)

    @pytest.mark.parametrize(
        ("band", "margin"),
        [(Band.around(10, 0.2), "±20 %"), (Band.around(10, 0.2, error_up=1), "−20/+100 %"), (Band.exactly(3), "")],
    )
    def test_the_margin_in_words(self, band: Band, margin: str) -> None:
        assert band.margin == margin


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
