"""Versions of vLLM as numbers, to compare them by."""

from __future__ import annotations

import re


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version, e.g. (0, 26, 1) of 0.26.1rc1; those that it lacks are 0."""
    return (*(int(number) for number in re.findall(r"\d+", version)), 0, 0, 0)[:3]


def minor_version(version: str) -> int:
    """Return the second number of a version: 33 of 0.33.0. Every 1.x is newer than all of 0.x."""
    major, minor, _ = version_numbers(version)
    return 1000 * major + minor
