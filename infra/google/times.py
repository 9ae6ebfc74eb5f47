"""Reads the times that Google writes: RFC 3339 timestamps, and durations such as `14400s`."""

from __future__ import annotations

from datetime import datetime


def timestamp_s(text: str) -> float | None:
    """Return an RFC 3339 timestamp in seconds since 1970; None where the text is not one."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def duration_s(text: str) -> float | None:
    """Return a duration in seconds; None where the text is not one."""
    try:
        return float(text.removesuffix("s"))
    except ValueError:
        return None
