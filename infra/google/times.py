"""Reads and writes times as Google does: RFC 3339 timestamps, and durations such as `14400s`."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp_s(text: str) -> float | None:
    """Return an RFC 3339 timestamp in seconds since 1970; None where the text is not one."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def moment(seconds_since_1970: float) -> str:
    """Return a time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(round(seconds_since_1970), UTC).isoformat().replace("+00:00", "Z")


def moment_ms(seconds_since_1970: float) -> str:
    """Return a time as RFC 3339 in UTC, to the millisecond, as Cloud Logging compares them."""
    return datetime.fromtimestamp(seconds_since_1970, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_moment(at: str) -> str:
    """Return an RFC 3339 timestamp as people read it: in UTC, to the minute. Any other text is returned as it is."""
    seconds = timestamp_s(at)
    return at if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def duration_s(text: str) -> float | None:
    """Return a duration in seconds; None where the text is not one."""
    try:
        return float(text.removesuffix("s"))
    except ValueError:
        return None
