"""Nested data as flat properties, and how two values of a property are shown side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any


def properties(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return every property with its dotted path. A list of plain values is one property, a member of another list is named
    by its `name`, if all have one, and a text that holds a JSON object counts as that object."""
    inner = _object(data)
    if inner is not None:
        for key, value in inner.items():
            yield from properties(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list) and any(isinstance(member, Mapping | list) for member in data):
        names = [member.get("name") if isinstance(member, Mapping) else None for member in data]
        named = all(isinstance(name, str) for name in names) and len({*names}) == len(names)
        for index, member in enumerate(data):
            yield from properties(member, f"{path}[{names[index] if named else index}]")
    else:
        yield path, data


def _object(data: Any) -> Mapping[str, Any] | None:
    """Return the object that `data` is or spells out; None for anything else and for one without members."""
    if isinstance(data, str) and data.startswith("{"):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            return None
    return data if isinstance(data, Mapping) and data else None


def side_by_side(old: Any, new: Any) -> tuple[str, str]:
    """Return both values as text, None as nothing; of two lists only the members that differ, a flag before its value."""
    if not (isinstance(old, list) and isinstance(new, list)):
        return as_text(old), as_text(new)
    before, after = ([as_text(member) for member in members] for members in (old, new))
    kept: tuple[list[str], list[str]] = ([], [])
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for words, start, end, side in ((before, i1, i2, kept[0]), (after, j1, j2, kept[1])):
            flag = words[start - 1 : start] if start < end and start and _is_flag(words[start - 1]) else []
            side += [*flag, *words[start:end]]
    separator = " " if any(map(_is_flag, [*before, *after])) else ", "
    return separator.join(kept[0]), separator.join(kept[1])


def as_text(value: Any) -> str:
    """Return a value as a person writes it: texts bare, lists with commas, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(as_text, value)) or "[]"
    if isinstance(value, dict) and {*value} == {"low", "mid", "high"}:
        return f"{value['mid']} ({value['low']} to {value['high']})"
    return json.dumps(value)


def _is_flag(word: str) -> bool:
    return word.startswith("--")


def shortened(before: str, after: str, width: int) -> tuple[str, str]:
    """Return both texts in at most `width` characters each, cut where they do not differ as far as that goes."""
    if len(before) <= width and len(after) <= width:
        return before, after
    same = next((i for i, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), 0)
    start = max(0, same - width // 4)
    old, new = (_middle(f"…{text[start:]}" if start and text else text, width) for text in (before, after))
    return old, new


def _middle(text: str, width: int) -> str:
    """Return the text in at most `width` characters, cut in its middle."""
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
