"""Asks before a change, on a terminal; elsewhere --yes has to say it."""

from __future__ import annotations

import sys

from infra.errors import SettingsError


def agreed(question: str) -> bool:
    """Return whether whoever sits at the terminal says yes. Raises SettingsError where nobody sits there."""
    if not sys.stdin.isatty():
        fix = "Add --yes to change it without being asked, or run it on a terminal."
        raise SettingsError.of("--yes", "is missing, and there is no terminal to ask on.", "Nothing was changed.", fix)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
