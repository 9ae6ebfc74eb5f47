"""Words that somebody may have meant, which every message about an unknown name offers; and text that a terminal may show."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def similar(word: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """At most so many of the `known` words, as they are spelled, that resemble `word` in any case by at least `cutoff`
    (0 to 1); the best first."""
    spelled = {item.lower(): item for item in known}
    return [spelled[match] for match in difflib.get_close_matches(word.lower(), spelled, n=most, cutoff=cutoff)]


def did_you_mean(word: str, known: Iterable[str], *, prefix: str = "", cutoff: float = 0.6) -> str:
    """`Did you mean x?` with `prefix` before the nearest of `known`; empty where nothing is near."""
    near = similar(word, known, most=1, cutoff=cutoff)
    return f"Did you mean {prefix}{near[0]}?" if near else ""


def printable(text: str) -> str:
    """`text` with every character that a terminal obeys instead of showing it spelled out, as \\x1b or \\u202e: control
    characters, marks of writing direction, halves of a character. Ends of lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)
