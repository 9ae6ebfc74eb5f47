"""Lays what was written over recipes and defaults, into one frozen `Settings` with the origin of every value.

Layers, lowest first: defaults < recipe of the pair < recipe of its profile < stack file < command line. Values are laid
over each other by path, and only the result is validated, once, so that all faults of all layers come back together.
A null takes away what the layers below say: the default stands again, or the planner chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from infra.catalog import Catalog, Recipe, catalog
from infra.errors import CatalogError, Fault, SettingsError
from infra.planning.settings.declarations import SECRET_KEY, Settings
from infra.planning.settings.flatten import flatten
from infra.planning.settings.messages import describe_all, shown
from infra.planning.settings.paths import leaf_paths, nested
from infra.suggestions import did_you_mean


class Origin(StrEnum):
    """Where a resolved value comes from."""

    DEFAULT = "default"
    RECIPE = "recipe"
    PROFILE = "recipe of the profile"
    STACK_FILE = "stack file"
    COMMAND_LINE = "command line"
    PLANNER = "planner"


WRITTEN = (Origin.STACK_FILE, Origin.COMMAND_LINE)
"""Origins of what somebody wrote for this stack."""


@dataclass(frozen=True)
class Resolved:
    """Settings, the origin of every value by its dotted path, and the recipes that were applied."""

    settings: Settings
    origins: Mapping[str, Origin]
    recipes: tuple[Recipe, ...]


def resolve(
    stack_file: Mapping[str, Any], command_line: Mapping[str, Any] | None = None, *, facts: Catalog | None = None
) -> Resolved:
    """Resolve the `gemma4:` section of a stack file (prefix removed) and `--set` values.

    Raises SettingsError with every fault found.
    """
    facts = facts or catalog()
    written, typed = flatten(stack_file), flatten(command_line or {})
    chosen = {**written.values, **typed.values}
    faults = [*written.faults, *typed.faults]
    known = {"model": facts.models, "accelerator": facts.accelerators}
    said = {fault.key for fault in faults}
    faults += [fault for key in known if key not in said for fault in _unknown_id(key, chosen.get(key), known[key])]
    if faults:  # the other values are validated all the same, beside a model and an accelerator that exist
        _, invalid = _validated({**chosen, **{key: next(iter(ids)) for key, ids in known.items()}})
        raise SettingsError(list({str(fault): fault for fault in (*faults, *invalid)}.values()))
    pair = (chosen["model"], chosen["accelerator"])
    profile: Any = Settings.model_fields["profile"].default if chosen.get("profile") is None else chosen["profile"]
    recipes = tuple(filter(None, (facts.recipe(*pair), facts.recipe(*pair, profile))))
    layers: list[tuple[Origin, Mapping[str, Any]]] = [
        *((Origin.PROFILE if recipe.profile else Origin.RECIPE, recipe.settings) for recipe in recipes),
        (Origin.STACK_FILE, written.values),
        (Origin.COMMAND_LINE, typed.values),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for origin, layer in layers:
        values.update(layer)
        origins.update(dict.fromkeys(layer, origin))
    for path, value in _named_bucket(values).items():
        if values.get(path) is None:
            values[path], origins[path] = value, Origin.PLANNER
    settings, faults = _validated(values)
    if settings is None:
        of_recipes = [fault for fault in faults if origins.get(fault.key) in (Origin.RECIPE, Origin.PROFILE)]
        raise (
            CatalogError(f"a recipe of the catalog is wrong: {of_recipes[0]}") if of_recipes else SettingsError(faults)
        )
    given = {path: origins[path] for path, value in values.items() if value is not None}
    return Resolved(settings, {path: given.get(path, Origin.DEFAULT) for path in leaf_paths(settings)}, recipes)


def without_quantizing(resolved: Resolved) -> Resolved:
    """Return the settings of a checkpoint that is quantised already, without a recipe's wish to quantise while loading."""
    path, settings = "serving.quantization", resolved.settings
    if resolved.origins[path] not in (Origin.RECIPE, Origin.PROFILE):
        return resolved
    serving = settings.serving.model_copy(update={"quantization": "none"})
    changed = settings.model_copy(update={"serving": serving})
    return Resolved(changed, {**resolved.origins, path: Origin.PLANNER}, resolved.recipes)


def laid_over(stack_file: Mapping[str, Any], command_line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested section with `command_line` values in it, as if they had been written in the stack file."""
    values = {**flatten(stack_file).values, **flatten(command_line).values}
    # Recipes set no value of the first level, so a null there only takes the stack file's away.
    tree = {key: value for key, value in nested(values).items() if value is not None}
    return tree | ({SECRET_KEY: {"secure": ""}} if tree.get(SECRET_KEY) else {})


def _validated(values: Mapping[str, Any]) -> tuple[Settings | None, list[Fault]]:
    """Return the settings of values by path, nulls left out; None and all faults where a type or a range is wrong."""
    try:
        return Settings.model_validate(nested({path: value for path, value in values.items() if value is not None})), []
    except ValidationError as error:
        return None, describe_all(error.errors(include_url=False), Settings)


def _named_bucket(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of weights that follow from a checkpoint in a bucket; empty for any other checkpoint."""
    named = values.get("checkpoint")
    if not isinstance(named, str) or not named.startswith("gs://"):
        return {}
    return {"weights.source": "existing", "weights.bucket": named.removeprefix("gs://").partition("/")[0]}


def _unknown_id(key: str, value: Any, known: Mapping[str, Any]) -> list[Fault]:
    if value is None:
        return [Fault(key, "is missing.", fix=f"Write one of: {', '.join(known)}.")]
    if isinstance(value, str) and value in known:
        return []
    hint = did_you_mean(str(value), known) or f"Known: {', '.join(known)}."
    if key == "model" and isinstance(value, str) and "/" in value and not value.lower().startswith("google/"):
        hint = f"Write it under checkpoint, and under model what it was made from, one of: {', '.join(known)}."
    return [Fault(key, f"{shown(value)} is not in the catalog.", "It cannot be planned.", hint)]
