"""Values that the estimates share: a predicted quantity with its band, and durations as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,9})([smhd])")


BAND_CLAIM = "about 80 % of runs lie inside"
"""What a band claims, wherever it is explained. `gemma4 scorecard` counts."""


@dataclass(frozen=True)
class Band:
    """A predicted quantity: the likeliest value between two ends, of which BAND_CLAIM is claimed. Same unit throughout."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.mid <= self.high:
            raise ValueError(f"a band must rise: {self.low} <= {self.mid} <= {self.high}")

    @classmethod
    def exactly(cls, value: float) -> Band:
        """A quantity without an error."""
        return cls(value, value, value)

    @classmethod
    def around(cls, mid: float, error: float, *, error_up: float | None = None) -> Band:
        """`mid` with a relative error, e.g. 0.2 for ±20 %; `error_up` where the error upwards differs."""
        return cls(mid * (1 - error), mid, mid * (1 + (error if error_up is None else error_up)))

    @classmethod
    def total(cls, parts: Iterable[Band]) -> Band:
        """The sum of parts whose errors may all fall on the same side: the cautious band."""
        low = mid = high = 0.0
        for part in parts:
            low, mid, high = low + part.low, mid + part.mid, high + part.high
        return cls(low, mid, high)

    @classmethod
    def independent_total(cls, parts: Iterable[Band]) -> Band:
        """The sum of parts whose errors have nothing to do with each other: on each side the root of the sum of their
        squares, since where one part takes long the others need not."""
        bands = tuple(parts)
        mid = sum(part.mid for part in bands)
        down, up = (math.hypot(*(getattr(part, end) - part.mid for part in bands)) for end in ("low", "high"))
        return cls(mid - down, mid, mid + up)

    def times(self, factor: float) -> Band:
        """The band scaled by a factor that is exact and not negative."""
        return Band(self.low * factor, self.mid * factor, self.high * factor)

    def dividing(self, numerator: float) -> Band:
        """`numerator` divided by this quantity: a price from a rate, a time from a speed."""
        return Band(numerator / self.high, numerator / self.mid, numerator / self.low)


def exact(value: float) -> float:
    """Return `value` to twelve digits: what is read off it, or a difference made from it, is that of the plan itself."""
    return float(f"{value:.12g}")


def exact_band(band: Band) -> dict[str, float]:
    """Return the band as JSON data, not rounded for reading."""
    return {"low": exact(band.low), "mid": exact(band.mid), "high": exact(band.high)}


def parse_duration(text: str) -> int:
    """Seconds of a duration such as 90s, 20m, 4h or 7d; ValueError for any other form."""
    match = _DURATION.fullmatch(text.strip())
    if match is None and re.fullmatch(r"\d{10,}[smhd]", text.strip()):
        raise ValueError("is longer than anything here lasts; write for example 7d")
    if match is None:
        raise ValueError("is not a duration; write a whole number and a unit: 90s, 20m, 4h or 7d")
    return int(match[1]) * _SECONDS[match[2]]


def spell_duration(seconds: float) -> str:
    """A duration as `parse_duration` reads it, in the largest unit that divides it: 2700 -> 45m."""
    whole = round(seconds)
    unit = next(unit for unit in "dhms" if whole % _SECONDS[unit] == 0 and (whole or unit == "s"))
    return f"{whole // _SECONDS[unit]}{unit}"


def read_duration(seconds: float) -> str:
    """A duration for reading, to a precision that an estimate deserves: 42 s, 3 min 40 s, 24 min, 1 h 10 min, 30 days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 600:
        minutes, rest = divmod(10 * round(seconds / 10), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60) if minutes >= 90 else (0, minutes)
    if not hours:
        return f"{minutes} min"
    if hours >= 48:
        days, hours = divmod(round(seconds / 3600), 24)
        return f"{days} days {hours} h" if hours else f"{days} days"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def read_minutes(seconds: float) -> str:
    """A duration as the end of a range, in one unit below an hour and a half: 42 s, 3.7 min, 24 min, 2 h 10 min."""
    return f"{seconds / 60:.1f} min" if 90 <= seconds < 600 else read_duration(seconds)


def read_seconds(seconds: float) -> str:
    """A short time for reading: 4 ms, 31 ms, 0.34 s, 7.10 s; from ten seconds on as `read_duration` has it."""
    if 0 < seconds < 0.0995:
        return f"{max(1, round(1000 * seconds))} ms"
    return f"{seconds:.2f} s" if seconds < 10 else read_duration(seconds)


def read_usd(usd: float) -> str:
    """An amount of money for reading: $0.31, $3.19, $2,326; tenths of a cent below ten cents."""
    if abs(usd) >= 100:
        return f"${usd:,.0f}"
    return f"${usd:.2f}" if abs(usd) >= 0.1 or usd == 0 else f"${usd:.3f}"


def read_rate(value: float) -> str:
    """A speed or a count to two or three figures: 0.83, 31, 1,240."""
    if value >= 1000:
        return f"{round(value, -1):,.0f}"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def read_tokens_per_second(value: float) -> str:
    """A speed for reading: 0.83 tok/s, 31 tok/s, 1,240 tok/s."""
    return f"{read_rate(value)} tok/s"


def read_gib(size: float) -> str:
    """A size in bytes as GiB to a tenth, without its unit: 8.1."""
    return f"{size / 2**30:,.1f}"


def read_count(value: float) -> str:
    """A number of things for reading: 64, 2,048."""
    return f"{value:,.0f}"


def read_predicted(
    band: Band,
    read: Callable[[float], str],
    what: str = "",
    *,
    ends: Callable[[float], str] | None = None,
    brief: bool = False,
) -> str:
    """Return a prediction with its band, and between the two `what` it is: ≈ 26 tok/s alone (±19 %). Where the ends lie
    unevenly they are named, ≈ $1.36 ($1.18 to $1.62); with `brief` the farther one counts for both, or the two stand alone.
    So they do wherever the upper end is more than twice the lower one: 9 to 24 min. No band where the quantity is exact
    at the precision of `read`. `ends` reads the ends, by default as the middle is read. This is the one place where a
    prediction becomes text.
    """
    low, high = (ends or read)(band.low), (ends or read)(band.high)
    mid = read(band.mid)
    if low == high:
        return f"≈ {mid}{what}"
    down, up = (100 * abs(end / band.mid - 1) if band.mid else 0.0 for end in (band.low, band.high))
    even = abs(down - up) <= EVEN_PERCENT or (brief and max(down, up) <= _MOST_EVEN)
    if band.high > WIDEST_POINT * band.low or (brief and not even):
        return f"{_without_unit(low, high)} to {high}{what}"
    if even:
        return f"≈ {mid}{what} (±{max(1, round(max(down, up)))} %)"
    last = _without_unit(high, mid)
    return f"≈ {mid}{what} ({_without_unit(low, high)} to {last})"


def read_cell(band: Band, read: Callable[[float], str]) -> str:
    """Return a prediction for a column of predictions, shorter than `read_predicted` has it: 26 ±19%, or 9 to 24."""
    return read_predicted(band, read, brief=True).removeprefix("≈ ").replace("(", "").replace(" %)", "%")


WIDEST_POINT = 2.0
"""The upper end of a band over its lower one, above which a figure is no point any more and its ends stand alone."""
EVEN_PERCENT = 2.0
"""By how many percent of the middle the two ends may differ to be written as one: the wider one."""
_MOST_EVEN = 100 * (WIDEST_POINT - 1) / (WIDEST_POINT + 1)
"""The most percent on both sides that span no more than WIDEST_POINT."""


def _without_unit(figure: str, other: str) -> str:
    """Return a figure without its unit where the other one names the same."""
    number, _, unit = figure.partition(" ")
    return number if other.count(" ") == 1 and unit and other.endswith(f" {unit}") else figure


def counted(number: float, noun: str) -> str:
    """A number with its noun: 1 slice, 8 users, 2,048 requests."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"
