"""Dotted camelCase paths of settings, such as `serving.maxModelLen`: which exist, and nested values from values by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from infra.planning.settings.declarations import Settings


def known_paths(group: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every path that may be written, with its pydantic field; a group comes before its members."""
    for name, field in group.model_fields.items():
        path = prefix + (field.alias or name)
        yield path, field
        if (inner := subgroup(field)) is not None:
            yield from known_paths(inner, f"{path}.")


def subgroup(field: Any) -> type[BaseModel] | None:
    """Return the group that a field holds, None for a plain value."""
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def is_map(field: Any) -> bool:
    """Return True if a field holds entries with names of the user's own, as `labels` does."""
    return str(field.annotation).startswith("dict")


def leaf_paths(settings: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the path of every value of `settings`; each entry of a map has a path of its own."""
    for name, field in type(settings).model_fields.items():
        path, value = prefix + (field.alias or name), getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from leaf_paths(value, f"{path}.")
        elif isinstance(value, dict):
            yield from (f"{path}.{key}" for key in value)
        else:
            yield path


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return groups within groups from values by path. The name of a map's entry keeps its dots."""
    maps = [path for path, field in known_paths() if is_map(field)]
    tree: dict[str, Any] = {}
    for path, value in values.items():
        holder = next((name for name in maps if path.startswith(f"{name}.")), None)
        parts = [*holder.split("."), path[len(holder) + 1 :]] if holder else path.split(".")
        node = tree
        for part in parts[:-1]:
            node = node.setdefault(part, {})
        node[parts[-1]] = value
    return tree
