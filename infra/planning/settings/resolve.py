"""From what people wrote to one frozen `Settings`, with the origin of every value.

Layers, lowest first: defaults < recipe of the pair < recipe of its profile < stack file < command line. Values are laid
over each other leaf by leaf, and only the result is validated, once, so that all faults of all layers come back together.
A null takes away what the layers below say: the default stands again, or the planner chooses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from infra.catalog import Catalog, Recipe, catalog
from infra.errors import CatalogError, Fault, SettingsError
from infra.planning.settings.declarations import SECRET_KEY, Settings
from infra.planning.settings.messages import describe_all, example, shown
from infra.suggestions import did_you_mean


class Origin(StrEnum):
    """Where a resolved value comes from."""

    DEFAULT = "default"
    RECIPE = "recipe"
    PROFILE = "recipe of the profile"
    STACK_FILE = "stack file"
    COMMAND_LINE = "command line"
    PLANNER = "planner"


@dataclass(frozen=True)
class Resolved:
    """Settings with the origin of every leaf (dotted camelCase path) and the recipes that were applied."""

    settings: Settings
    origins: Mapping[str, Origin]
    recipes: tuple[Recipe, ...]


def resolve(
    stack_file: Mapping[str, Any], command_line: Mapping[str, Any] | None = None, *, facts: Catalog | None = None
) -> Resolved:
    """Resolve the `gemma4:` section of a stack file (prefix removed) and `--set` values. In both a key may name a group
    and hold its members, or name a member by its dotted path.

    Raises SettingsError with every fault found.
    """
    facts = facts or catalog()
    faults: list[Fault] = []
    written, typed = _by_path(stack_file, faults), _by_path(command_line or {}, faults)
    chosen = {**written, **typed}
    said = {fault.key for fault in faults}
    faults += [fault for fault in _unknown_ids(chosen, facts) if fault.key not in said]
    if faults:
        faults += _invalid(chosen, facts)
        raise SettingsError(_unique(faults))
    pair = (chosen["model"], chosen["accelerator"])
    profile: Any = Settings.model_fields["profile"].default if chosen.get("profile") is None else chosen["profile"]
    layers_of_pair = (facts.recipe(*pair), facts.recipe(*pair, profile))
    recipes = tuple(recipe for recipe in layers_of_pair if recipe is not None)
    layers: list[tuple[Origin, Mapping[str, Any]]] = [
        *((Origin.PROFILE if recipe.profile else Origin.RECIPE, recipe.settings) for recipe in recipes),
        (Origin.STACK_FILE, written),
        (Origin.COMMAND_LINE, typed),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for origin, layer in layers:
        values.update(layer)
        origins.update(dict.fromkeys(layer, origin))
    values = {path: value for path, value in values.items() if value is not None}
    settings = _validated(values, origins)
    every = {path: origins[path] if path in values else Origin.DEFAULT for path in leaf_paths(settings)}
    return Resolved(settings, every, recipes)


def laid_over(stack_file: Mapping[str, Any], command_line: Mapping[str, Any]) -> dict[str, Any]:
    """The nested section with dotted `command_line` values in it, as if they had been written in the stack file."""
    leaves = _by_path(stack_file, []) | _by_path(command_line, [])
    # Recipes set no value of the first level, so a null there only takes the stack file's away.
    tree = {key: value for key, value in _tree(leaves).items() if value is not None}
    return tree | ({SECRET_KEY: {"secure": ""}} if tree.get(SECRET_KEY) else {})


def leaf_paths(settings: BaseModel, prefix: str = "") -> Iterator[str]:
    """Dotted camelCase paths of all values of `settings`; the entries of a map are leaves of their own."""
    for name, field in type(settings).model_fields.items():
        path, value = prefix + (field.alias or name), getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from leaf_paths(value, f"{path}.")
        elif isinstance(value, dict):
            yield from (f"{path}.{key}" for key in value)
        else:
            yield path


def known_paths(group: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every path that may be written, with its pydantic field; groups come before their members."""
    for name, field in group.model_fields.items():
        path = prefix + (field.alias or name)
        yield path, field
        if (inner := subgroup(field)) is not None:
            yield from known_paths(inner, f"{path}.")


def subgroup(field: Any) -> type[BaseModel] | None:
    """The group behind a field, or None for a plain value."""
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _by_path(raw: Mapping[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """Every value by its dotted path. One that is set twice, by its path and under its group, is a fault."""
    values: dict[str, Any] = {}
    for path, value in _leaves(raw, Settings, "", faults):
        if path in values:
            fact = "is set twice, once by its dotted name and once under its group."
            faults.append(Fault(path, fact, "One of the two would win.", "Keep one."))
        values[path] = value
    return values


def _leaves(
    raw: Mapping[str, Any], group: type[BaseModel], prefix: str, faults: list[Fault]
) -> Iterator[tuple[str, Any]]:
    fields = {field.alias or name: field for name, field in group.model_fields.items()}
    for written, below in raw.items():
        key, value = _undotted(str(written), below, fields)
        path = f"{prefix}{key}"
        if path.startswith(f"{SECRET_KEY}."):
            _token(None if value is None else "", faults)
        elif key not in fields:
            faults.append(_unknown_key(prefix, key, list(fields)))
        elif path == SECRET_KEY:
            yield path, _token(value, faults)
        elif isinstance(value, Mapping) and set(value) == {"secure"}:
            fact = "is stored as a secret, which only Pulumi can read."
            fix = f"Run: pulumi config set gemma4:{path}{'.KEY' if subgroup(fields[key]) else ''} VALUE"
            faults.append(Fault(path, fact, "It cannot be planned.", fix))
        elif (inner := subgroup(fields[key])) is not None:
            if isinstance(value, Mapping):
                yield from _leaves(value, inner, f"{path}.", faults)
            elif value is not None:
                members = ", ".join(field.alias or name for name, field in inner.model_fields.items())
                faults.append(_no_group(path, value, "a group of settings", f"Write keys under it: {members}."))
        elif isinstance(value, Mapping) and not _is_map(fields[key]):
            faults.append(Fault(path, "takes one value, not a group.", fix=f"Write {path}: {example(fields[key])}."))
        elif isinstance(value, Mapping):
            yield from ((f"{path}.{entry}", item) for entry, item in value.items())
        elif isinstance(value, bool) and _is_number(fields[key]):
            fix = f"Write for example {path}: {example(fields[key])}."
            faults.append(Fault(path, f"{shown(value)} is true or false, not a number.", fix=fix))
        elif not _is_map(fields[key]):
            yield path, value
        elif value is not None:
            fix = f"Write keys under it, for example {path}: {example(fields[key])}."
            faults.append(_no_group(path, value, "a group of keys", fix))


def _no_group(path: str, value: Any, group: str, fix: str) -> Fault:
    if isinstance(value, str) and value.startswith("{"):
        try:
            json.loads(value)
        except (ValueError, RecursionError) as error:
            fact = f"is not {group}: it begins like JSON and is none ({error})."
            return Fault(path, fact, fix=f"Mend it. {fix}")
    return Fault(path, f"{shown(value)} is not {group}.", fix=fix)


def _undotted(key: str, value: Any, fields: Mapping[str, Any]) -> tuple[str, Any]:
    """`serving.maxModelLen: 4096` as `serving: {maxModelLen: 4096}`. The token is left alone: it has one spelling, so that
    nothing else is taken for one."""
    head, _, rest = key.partition(".")
    return (head, {rest: value}) if rest and head in fields and head != SECRET_KEY else (key, value)


def _is_number(field: Any) -> bool:
    return bool({int, float} & {field.annotation, *get_args(field.annotation)})


def _token(value: Any, faults: list[Fault]) -> bool | None:
    if value is None:
        return None
    if isinstance(value, Mapping) and set(value) == {"secure"}:
        return True
    faults.append(
        Fault(
            SECRET_KEY,
            "is written in clear.",
            "It would stand in the repository and in the state for everyone to read.",
            "Take it out, revoke it, and run: pulumi config set --secret gemma4:hfToken",
        )
    )
    return True


def _is_map(field: Any) -> bool:
    return str(field.annotation).startswith("dict")


def _unknown_key(prefix: str, key: str, siblings: list[str]) -> Fault:
    """Nearest first: the same letters here, the same name elsewhere, then what looks alike here."""
    if key.replace(":", ".") in dict(known_paths()):
        key = key.replace(":", ".")
        return Fault(f"{prefix}{key}", "is written with a colon.", "It would have no effect.", f"Write gemma4:{key}.")
    word = key.lower().replace("_", "").replace("-", "")
    same = [f"{prefix}{known}" for known in siblings if known.lower() == word]
    same += [known for known, _ in known_paths() if known.rsplit(".", 1)[-1].lower() == word]
    fix = f"Did you mean {same[0]}?" if same else did_you_mean(key, siblings, prefix=prefix)
    known_here = f"Known here: {', '.join(siblings)}."
    return Fault(f"{prefix}{key}", "no such setting.", "It would have no effect.", fix or known_here)


def _unknown_ids(chosen: Mapping[str, Any], facts: Catalog) -> list[Fault]:
    faults = []
    for key, known in (("model", facts.models), ("accelerator", facts.accelerators)):
        value = chosen.get(key)
        if value is None:
            faults.append(Fault(key, "is missing.", fix=f"Write one of: {', '.join(known)}."))
        elif not isinstance(value, str) or value not in known:
            hint = did_you_mean(str(value), known) or f"Known: {', '.join(known)}."
            faults.append(Fault(key, f"{shown(value)} is not in the catalog.", "It cannot be planned.", hint))
    return faults


def _tree(values: Mapping[str, Any]) -> dict[str, Any]:
    """Groups within groups from dotted paths; an entry of a map keeps the dots of its own name."""
    maps = [path for path, field in known_paths() if _is_map(field)]
    tree: dict[str, Any] = {}
    for path, value in values.items():
        holder = next((name for name in maps if path.startswith(f"{name}.")), None)
        parts = [*holder.split("."), path[len(holder) + 1 :]] if holder else path.split(".")
        node = tree
        for part in parts[:-1]:
            node = node.setdefault(part, {})
        node[parts[-1]] = value
    return tree


def _validated(values: Mapping[str, Any], origins: Mapping[str, Origin]) -> Settings:
    try:
        return Settings.model_validate(_tree(values))
    except ValidationError as error:
        faults = describe_all(error.errors(include_url=False), Settings)
        ours = [fault for fault in faults if origins.get(fault.key) in (Origin.RECIPE, Origin.PROFILE)]
        if ours:
            raise CatalogError(f"a recipe of the catalog is wrong: {ours[0]}") from None
        raise SettingsError(faults) from None


def _invalid(chosen: Mapping[str, Any], facts: Catalog) -> list[Fault]:
    """Type and range faults of what was written, found although model or accelerator are already wrong."""
    stand_ins = {"model": next(iter(facts.models)), "accelerator": next(iter(facts.accelerators))}
    written = {path: value for path, value in chosen.items() if value is not None}
    try:
        Settings.model_validate(_tree({**written, **stand_ins}))
    except ValidationError as error:
        return describe_all(error.errors(include_url=False), Settings)
    return []


def _unique(faults: Sequence[Fault]) -> list[Fault]:
    return list({str(fault): fault for fault in faults}.values())
