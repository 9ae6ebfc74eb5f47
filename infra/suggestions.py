"""Suggests the known word that a user may have meant; and makes quoted and generated text safe to print on a terminal."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def similar(word: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return the `known` words that resemble `word` by at least `cutoff` (0 to 1), whatever their case, the best first."""
    spelled = {item.lower(): item for item in known}
    return [spelled[match] for match in difflib.get_close_matches(word.lower(), spelled, n=most, cutoff=cutoff)]


def did_you_mean(word: str, known: Iterable[str], *, prefix: str = "", cutoff: float = 0.6) -> str:
    """Return `Did you mean x?` with `prefix` before the nearest of `known`, or an empty text where none is near."""
    near = similar(word, known, most=1, cutoff=cutoff)
    return f"Did you mean {prefix}{near[0]}?" if near else ""


def printable(text: str) -> str:
    """Return `text` with every character that a terminal would obey spelled out, as \\x1b or \\u202e: control characters,
    marks of writing direction, halves of a character. Line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters but for line ends and tabs, marks of writing direction, line separators, halves of a character, and
invisible tags."""


def readable(text: str, *, kept: str = "") -> str:
    """Return generated text with every character that would steer a terminal spelled out, but for those in `kept`. Unlike
    `printable` it keeps what writing needs and no terminal obeys: other spaces, joiners of letters and of pictures."""
    return _STEERS.sub(lambda found: found[0] if found[0] in kept else ascii(found[0])[1:-1], text)
