"""Says whether an answer is right. Exact about what was asked, lenient about what says nothing of quality: blanks, Markdown,
quotation marks, a full stop at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from infra.serving.chat_answer import ChatAnswer
from infra.serving.evaluation.task_set import (
    CallCheck,
    Check,
    CopyCheck,
    FieldsCheck,
    NoCallCheck,
    NumberCheck,
    Task,
    TextCheck,
    WordCheck,
)

_NUMBER = re.compile(r"-?\d+(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?")
_FENCED = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
_QUOTES = "\"'`*“”‘’ \n\t"


def is_right(task: Task, answer: ChatAnswer) -> bool:
    """Return whether the answer to the task is right."""
    check: Check = task.check
    text = answer.content.strip()
    match check:
        case NumberCheck():
            return _last_number(text) == check.value
        case FieldsCheck():
            return _fields_agree(check, text)
        case CallCheck():
            return _call_agrees(check, answer)
        case NoCallCheck():
            return not answer.tool_calls and any(_holds(text, word) for word in check.words)
        case WordCheck():
            held = any(_holds(text, word) for word in check.right)
            return held and not any(_holds(text, word) for word in check.wrong)
        case TextCheck():
            accepted = [_plain(one, check.any_case) for one in check.accepted]
            return _plain(text, check.any_case) in accepted
        case CopyCheck():
            return _copied(text) == _blanks(task.prompt)


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def _fields_agree(check: FieldsCheck, text: str) -> bool:
    fenced = _FENCED.search(text)
    try:
        found = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return False
    wanted = {**check.fields, **dict.fromkeys(check.nulls)}
    return isinstance(found, dict) and _values_agree(wanted, found, any_order=check.any_order)


def _call_agrees(check: CallCheck, answer: ChatAnswer) -> bool:
    if [call.name for call in answer.tool_calls] != [check.name]:
        return False
    try:
        arguments = json.loads(answer.tool_calls[0].arguments)
    except (ValueError, RecursionError):
        return False
    return isinstance(arguments, dict) and _values_agree(check.arguments, arguments)


def _values_agree(wanted: Mapping[str, Any], found: Mapping[str, Any], *, any_order: bool = False) -> bool:
    return wanted.keys() == found.keys() and all(
        _value_agrees(value, found[key], any_order=any_order) for key, value in wanted.items()
    )


def _value_agrees(wanted: Any, found: Any, *, any_order: bool) -> bool:
    """Compare values: texts without their case, numbers by their size. A number that came as a text is wrong."""
    if isinstance(wanted, bool) or wanted is None:
        return found is wanted
    if isinstance(wanted, list):
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            return False
        left, right = ([one.strip().casefold() for one in values] for values in (wanted, found))
        return sorted(left) == sorted(right) if any_order else left == right
    if isinstance(wanted, str):
        return isinstance(found, str) and found.strip().casefold() == wanted.casefold()
    return isinstance(found, int | float) and not isinstance(found, bool) and found == wanted


def _holds(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _plain(text: str, any_case: bool) -> str:
    line = _blanks(text.strip(_QUOTES).rstrip(".").strip(_QUOTES))
    return line.casefold() if any_case else line


def _copied(text: str) -> str:
    """Return the answer without a code fence or quotation marks that the model put around the whole of it."""
    fenced = _FENCED.fullmatch(text)
    text = fenced[1] if fenced else text
    for opening, closing in ('""', "``", "“”"):
        if len(text) > 1 and text.startswith(opening) and text.endswith(closing):
            text = text[1:-1]
    return _blanks(text)


def _blanks(text: str) -> str:
    return " ".join(text.split())
