"""What a flag takes, and whether a YAML value can be spelled so: as vLLM's own type functions decide."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from infra.suggestions import similar

Kind = Literal["switch", "text", "integer", "number", "size", "length", "json", "object", "text-or-object", "list"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `name` is the main spelling; `kind` is what its value must be (a switch takes none)."""

    name: str
    kind: Kind
    aliases: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    """The twins that switch it off: `--no-…`, and since 0.33 `--disable-…` of `--enable-…` and the reverse."""
    choices: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    """The keys of an object; empty where they are free."""
    default: str | int | float | bool | None = None
    """As the parser has it; None also where the server decides later."""
    many: bool = False
    """Takes several values after one spelling."""
    optional: bool = False
    """Takes the word None."""
    deprecated: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases, *self.negatives)


@dataclass(frozen=True)
class ValueProblem:
    """The rest of a sentence that began with the value, and what to write instead."""

    fact: str
    fix: str


def value_problem(flag: Flag, value: Any) -> ValueProblem | None:
    """Return what is wrong with `value` for a flag that takes one, None where vLLM takes it."""
    if value is None:
        return ValueProblem("is not a value.", "Write one, or leave the flag out.")
    if flag.optional and value == "None":
        return None
    if flag.many and isinstance(value, list):
        return next((problem for item in value if (problem := value_problem(replace(flag, many=False), item))), None)
    if flag.choices:
        return None if str(value) in flag.choices else _one_of(str(value), flag.choices)
    if flag.kind in ("json", "object", "text-or-object", "list"):
        return _structured(flag, value)
    if not isinstance(value, bool | dict | list) and PATTERNS[flag.kind].fullmatch(str(value)):
        return None
    return ValueProblem(f"is not {EXAMPLES[flag.kind][0]}.", f"Write a value like {EXAMPLES[flag.kind][1]}.")


def member_problem(flag: Flag, keys: Iterable[str]) -> ValueProblem | None:
    """Return what is wrong with these keys of an object, None where it has them all."""
    unknown = next((key for key in keys if flag.members and key not in flag.members), None)
    if unknown is None:
        return None
    near = similar(unknown, flag.members)
    fix = f"Did you mean {' or '.join(near)}?" if near else f"It has: {', '.join(flag.members)}."
    return ValueProblem(f"has no member {unknown!r} to set.", fix)


PATTERNS = {
    "text": re.compile(r"(?!-\D)[\s\S]*"),  # a leading dash makes the next flag of it
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


def _structured(flag: Flag, value: Any) -> ValueProblem | None:
    if isinstance(value, str) and flag.kind in ("text-or-object", "list") and PATTERNS["text"].fullmatch(value):
        return None
    parsed = value
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = None
    if isinstance(parsed, dict) and flag.kind != "list":
        return member_problem(flag, parsed)
    if isinstance(parsed, list) and flag.kind in ("json", "list"):
        return None
    pairs = re.findall(r"([A-Za-z_]\w*)=([^,\s]+)", value) if isinstance(value, str) else []
    example = ", ".join(f"{key}: {item}" for key, item in pairs) or "key: value"
    return ValueProblem("is not a JSON object, the only form that this flag takes.", f"Write {{{example}}}.")


def _one_of(value: str, choices: Collection[str]) -> ValueProblem:
    near = similar(value, choices)
    fix = f"Write {' or '.join(near)}." if near else f"Write one of: {', '.join(choices)}."
    return ValueProblem("is not one of its values.", fix)
