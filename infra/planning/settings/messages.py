"""One sentence for each way in which a written value can be wrong: key, fact, and what to write instead."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from infra.errors import Fault
from infra.suggestions import did_you_mean

_WRONG_TYPE = {
    "int_parsing": "is not a whole number",
    "int_type": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_parsing": "is not a number",
    "float_type": "is not a number",
    "finite_number": "is not a finite number",
    "bool_parsing": "is neither true nor false",
    "bool_type": "is neither true nor false",
    "string_type": "is not text",
    "tuple_type": "is not a list",
    "dict_type": "is not a group of keys",
    "model_type": "is not a group of settings",
}


def describe_all(errors: Iterable[Mapping[str, Any]], root: type[BaseModel]) -> list[Fault]:
    """Return the faults behind the entries of a pydantic ValidationError of `root`. A list is not called too short where
    its members are wrong: pydantic does not count those."""
    entries = list(errors)
    inner = {entry["loc"][:-1] for entry in entries}
    return [describe(entry, root) for entry in entries if not (entry["type"] == "too_short" and entry["loc"] in inner)]


def describe(error: Mapping[str, Any], root: type[BaseModel]) -> Fault:
    """Return the fault behind one entry of a pydantic ValidationError of `root`."""
    path = [part for part in error["loc"] if part != "[key]"]
    field = _field(path, root)
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    kind, value, context = error["type"], error.get("input"), error.get("ctx", {})
    hint = f"Write for example {_spell(key, field)}." if field is not None and field.examples else ""
    if kind == "string_type" and isinstance(value, bool | int | float):
        what = "true or false" if isinstance(value, bool) else "a number"
        fix = f'Write {key}: "{_yaml(value)}".'
        if field is not None and not isinstance(field.examples[0], Mapping):
            fix = f"Write for example {_spell(key, field)}; in quotes where it looks like a number."
        return Fault(key, f"{shown(value)} is read as {what}, not as text.", fix=fix)
    if kind in _WRONG_TYPE:
        return Fault(key, f"{shown(value)} {_WRONG_TYPE[kind]}.", fix=hint)
    if kind == "literal_error":
        choices = [choice.strip("'") for choice in context["expected"].replace(" or ", ", ").split(", ")]
        fix = did_you_mean(str(value), choices, cutoff=0.5)
        return Fault(key, f"{shown(value)} is not one of {', '.join(choices)}.", fix=fix)
    if kind in ("greater_than_equal", "greater_than"):
        floor = context.get("ge", context.get("gt"))
        return Fault(
            key, f"{shown(value)} is too small: {'at least' if 'ge' in context else 'more than'} {floor:,}.", fix=hint
        )
    if kind in ("less_than_equal", "less_than"):
        ceiling = context.get("le", context.get("lt"))
        return Fault(
            key, f"{shown(value)} is too large: {'at most' if 'le' in context else 'less than'} {ceiling:,}.", fix=hint
        )
    if kind == "missing":
        return Fault(key, "is missing.", fix=hint)
    if kind in ("too_short", "too_long"):
        least, most = context.get("min_length"), context.get("max_length")
        bound = f"at least {least} is needed" if kind == "too_short" else f"at most {most} are taken"
        return Fault(key, f"has {context.get('actual_length', 0)} entries; {bound}.", fix=hint)
    if kind == "value_error":
        return Fault(key, f"{shown(value)} {context['error']}.")
    return Fault(key, f"{shown(value)} is not valid here: {error['msg']}.", fix=hint)


def _field(path: list[Any], root: type[BaseModel]) -> Any:
    group: Any = root
    field = None
    for part in path:
        if not (isinstance(group, type) and issubclass(group, BaseModel)):
            break
        field = next((item for name, item in group.model_fields.items() if part in (item.alias, name)), None)
        group = field.annotation if field is not None else None
    return field


def shown(value: Any) -> str:
    """Return a wrong value as a message quotes it: short, and spelled as it was written."""
    if isinstance(value, Mapping):
        return "a group of keys"
    text = repr(value) if isinstance(value, str) else _yaml(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def example(field: Any) -> str:
    """Return a good value of a field, as a stack file spells it."""
    return _yaml(field.examples[0]) if field.examples else "…"


def _spell(key: str, field: Any) -> str:
    """Return the example of a field with its key before it. For an entry of a map, the example is an entry as well."""
    value, name = field.examples[0], key.split("[")[0]
    if isinstance(value, Mapping):
        entry, inner = next(iter(value.items()))
        return f"{name.rsplit('.', 1)[0]}.{entry}: {_yaml(inner)}"
    return f"{name}: {_yaml(value)}"


def _yaml(value: Any) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    return value if isinstance(value, str) and not value.isdecimal() else json.dumps(value, default=str)
