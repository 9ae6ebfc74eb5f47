"""The version of this program."""

from __future__ import annotations

NOT_INSTALLED = "checkout"
"""Stands for the version of a checkout that is not installed."""


def program_version() -> str:
    """Return the installed version, or NOT_INSTALLED."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gemma4")
    except PackageNotFoundError:
        return NOT_INSTALLED
