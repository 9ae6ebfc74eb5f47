"""`gemma4 explain`: what a setting means, read from the settings model itself."""

from __future__ import annotations

import json
from typing import Any, get_args

from pydantic import BaseModel
from rich.text import Text

from infra.errors import SettingsError
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.planning_answers import Explanations, SettingRow
from infra.ops.commands.explain_terms import choices, known_words, word_rows
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.settings.declarations import SECRET_KEY
from infra.planning.settings.paths import known_paths, subgroup
from infra.planning.settings.stackfile import NAMESPACE
from infra.suggestions import did_you_mean


def show_setting(key: str, *, as_json: bool) -> None:
    """Print one setting, the members of a group, all settings, or what is known of another word."""
    found = explain_answer(key)
    described = [row.model_dump() for row in found.terms]
    if as_json:
        print_answer(found)
    elif len(described) == 1:
        _show_one(described[0])
    else:
        columns = [Column("setting"), Column("default"), Column("meaning", folds=True)]
        settings = [row for row in described if row["type"] != "group"]
        show(FittedTable(columns, [(row["key"], _default(row), row["meaning"]) for row in settings]))


def explain_answer(key: str = "") -> Explanations:
    """Return one setting, a group with its members, all settings where `key` is empty, or what is known of another word.
    Raises SettingsError for a word that is unknown."""
    key = key.strip().removeprefix(f"{NAMESPACE}:")
    rows = {path: field for path, field in known_paths() if not key or path == key or path.startswith(f"{key}.")}
    described = [describe_setting(path, field) for path, field in rows.items()] or word_rows(key)
    if not described:
        known = [path for path, _ in known_paths()]
        last = [path for path in known if path.rsplit(".", 1)[-1].lower() == key.rsplit(".", 1)[-1].lower()]
        hint = f"Did you mean {last[0]}?" if last else did_you_mean(key, known_words())
        raise SettingsError.of(key, "no such setting.", fix=hint or "List them all with: gemma4 explain")
    return Explanations(terms=[SettingRow.model_validate(row) for row in described])


def describe_setting(path: str, field: Any) -> dict[str, Any]:
    """Return one setting as data: key, meaning, type, default, range and an example for a stack file."""
    group = subgroup(field)
    bounds = [
        f"{words} {getattr(item, name):,}"
        for name, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
        for item in field.metadata
        if getattr(item, name, None) is not None
    ]
    default = None if field.is_required() or group else field.get_default(call_default_factory=True)
    return {
        "key": path,
        "meaning": field.description or "",
        "type": "group" if group else "secret" if path == SECRET_KEY else _type(field.annotation),
        "required": field.is_required(),
        "default": list(default) if isinstance(default, tuple) else default,
        "range": ", ".join(bounds),
        "example": field.examples[0] if field.examples else None,
    }


def _show_one(row: dict[str, Any]) -> None:
    lines = [f"{row['key']}: {row['meaning']}"]
    setting = row["key"] in dict(known_paths())
    ids = ", ".join(choices(row["key"]))
    facts = [("type", row["type"]), ("one of", ids), ("default", setting and _default(row)), ("range", row["range"])]
    lines += [f"  {name:<8} {value}" for name, value in facts if value]
    if row["example"] is not None and not setting:
        lines.append(f"  write    {row['example']}")
    elif row["example"] is not None:
        root, *rest = row["key"].split(".")
        inline = json.dumps(row["example"]) if not isinstance(row["example"], str) else row["example"]
        for part in reversed(rest):
            inline = f"{{{part}: {inline}}}"
        lines.append(f"  write    gemma4:{root}: {inline}")
    show(Text("\n".join(lines)))


def _default(row: dict[str, Any]) -> str:
    if row["required"]:
        return "(needed)"
    value = row["default"]
    if value is None:
        return "(chosen)"
    return json.dumps(value) if not isinstance(value, str) else value


def _type(annotation: Any) -> str:
    names = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): ""}
    if annotation in names:
        return names[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "group"
    arguments = get_args(annotation)
    shown = str(annotation)
    if shown.startswith("typing.Literal"):
        return " | ".join(str(choice) for choice in arguments)
    if shown.startswith("tuple"):
        return "list"
    if shown.startswith("dict"):
        return "map"
    if shown.startswith("typing.Annotated"):
        return _type(arguments[0])
    return " | ".join(text for text in (_type(part) for part in arguments) if text)
