"""Whether a YAML value can be spelled as the value of a vLLM flag: the same answers as vLLM's own type functions."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from infra.catalog.files import closest


@dataclass(frozen=True)
class ValueProblem:
    """The rest of a sentence that began with the value, and what to write instead."""

    fact: str
    fix: str


def value_problem(
    kind: str, choices: Collection[str], value: Any, *, many: bool, optional: bool
) -> ValueProblem | None:
    """What is wrong with `value` for a flag of this kind (see flags.Kind); None if vLLM takes it."""
    if value is None:
        return ValueProblem("is no value.", "Write one, or leave the flag out.")
    if optional and value == "None":
        return None
    if many and isinstance(value, list):
        found = (value_problem(kind, choices, item, many=False, optional=optional) for item in value)
        return next((problem for problem in found if problem), None)
    if choices:
        return None if str(value) in choices else _one_of(str(value), choices)
    if kind in ("json", "object", "text-or-object", "list"):
        return _structured(kind, value)
    if not isinstance(value, bool | dict | list) and PATTERNS[kind].fullmatch(str(value)):
        return None
    return ValueProblem(f"is not {EXAMPLES[kind][0]}.", f"Write a value like {EXAMPLES[kind][1]}.")


PATTERNS = {
    "text": re.compile(r"(?!-)[\s\S]*"),  # a leading dash makes the next flag of it
    "integer": re.compile(r"[+-]?\d+"),
    "number": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"),
    # lower case counts in thousands and takes decimals, upper case in 1,024s
    "size": re.compile(r"-?\d+|\d+(\.\d+)?[kmgt]|\d+[KMGT]"),
    "length": re.compile(r"-?\d+|\d+(\.\d+)?[kmgt]|\d+[KMGT]|[aA][uU][tT][oO]"),
}

EXAMPLES = {
    "text": ("a text that begins without a dash", "auto"),
    "integer": ("a whole number", "16"),
    "number": ("a number", "0.9"),
    "size": ("a whole number", "8192 or 8K"),
    "length": ("a whole number", "16384, 16K or auto"),
}


def _structured(kind: str, value: Any) -> ValueProblem | None:
    if isinstance(value, dict) or (isinstance(value, list) and kind in ("json", "list")):
        return None
    if isinstance(value, str) and kind in ("text-or-object", "list"):
        return None
    parsed = _parsed(value)
    if isinstance(parsed, dict) or (isinstance(parsed, list) and kind == "json"):
        return None
    pairs = re.findall(r"([A-Za-z_]\w*)=([^,\s]+)", value) if isinstance(value, str) else []
    example = ", ".join(f"{key}: {item}" for key, item in pairs) or "key: value"
    return ValueProblem("is no JSON object, the only form this flag takes.", f"Write {{{example}}}.")


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _one_of(value: str, choices: Collection[str]) -> ValueProblem:
    near = closest(value, choices)
    fix = f"Write {' or '.join(near)}." if near else f"Write one of: {', '.join(choices)}."
    return ValueProblem("is none of its values.", fix)
