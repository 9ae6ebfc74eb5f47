"""One line of a diff, and how a plan in its JSON form is read for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.planning.report.properties import shortened

Json = Mapping[str, Any]
Keys = tuple[str, ...]
"""Keys into a plan's JSON, one below the other."""

RANKS = ("refused", "tight", "fits")
"""Verdicts of a plan, the worst first."""

SECTIONS = {
    "verdict": "Verdict",
    "price": "Price",
    "figures": "Figures",
    "warnings": "Warnings",
    "settings": "Settings",
    "command": "Command",
    "resources": "Resources",
    "other": "Everything else",
}
"""Sections of a comparison in reading order, with their titles."""


@dataclass(frozen=True)
class Change:
    """One line of a diff, as text and as data; an empty text, or null, means absent there. `tone` is judged only where it
    is plain: `better`, `worse`, or empty."""

    section: str
    subject: str
    before: str
    after: str
    old: Any = None
    new: Any = None
    tone: str = ""

    def as_json(self) -> dict[str, Any]:
        """The change as data, with the whole of both values, not rounded."""
        return {
            "section": self.section,
            "subject": self.subject,
            "before": self.before,
            "after": self.after,
            "old": self.old,
            "new": self.new,
            "tone": self.tone,
        }

    def brief(self, width: int) -> tuple[str, str]:
        """Return both texts, each in at most `width` characters and in one line."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return shortened(before, after, width)


def differing(old: Json, new: Json) -> list[str]:
    """Return the keys of which only one of two mappings has a value, or another one: those of `old` first."""
    keys = [*old, *(key for key in new if key not in old)]
    return [key for key in keys if (key in old) != (key in new) or old.get(key) != new.get(key)]


def value_at(data: Any, path: Keys) -> Any:
    """Return the value under a path, None where there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def knows(plan: Json, path: Keys) -> bool:
    """Return whether the program that wrote a plan knew a key: below what is null or a list, any key counts as known."""
    value: Any = plan
    for key in path:
        if not isinstance(value, Mapping):
            return True
        if key not in value:
            return False
        value = value[key]
    return True
