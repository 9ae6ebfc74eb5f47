"""What the shell offers to complete a word with: stacks, settings and their values, ids of the catalog."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from infra.catalog import catalog
from infra.ops.commands.explain_terms import choices, known_words
from infra.ops.plan_inputs import project_root
from infra.planning.settings.paths import known_paths, subgroup
from infra.planning.settings.stackfile import stack_names


def stacks(incomplete: str) -> list[str]:
    """Return the stacks that begin so."""
    return _begun(stack_names(project_root()), incomplete)


def keys(incomplete: str) -> list[str]:
    """Return the settings, groups, models, machines and words of the plan that begin so: what `gemma4 explain` takes."""
    words = [word.replace(" ", "-") for word in known_words()]  # `explain` takes new-prompt for new prompt
    return _begun(words, incomplete)


def assignments(incomplete: str) -> list[str]:
    """Return `KEY=` for the settings that begin so; after the equals sign, the values that the setting can have."""
    key, given, _ = incomplete.partition("=")
    fields = {path: field for path, field in known_paths() if subgroup(field) is None}
    if not given:
        return _begun([f"{path}=" for path in fields], incomplete)
    values = choices(key) or (_values(fields[key].annotation) if key in fields else [])
    return _begun([f"{key}={value}" for value in values], incomplete)


def models(incomplete: str) -> list[str]:
    """Return the models that begin so."""
    return _begun(choices("model"), incomplete)


def zonal(incomplete: str) -> list[str]:
    """Return the machines that begin so of those that are asked for in a zone."""
    return _begun([one.id for one in catalog().accelerators.values() if one.machine_type], incomplete)


def pins(incomplete: str) -> list[str]:
    """Return the images, models and assistants that begin so: what `gemma4 pin` takes."""
    facts = catalog()
    return _begun([*facts.images, *facts.models, *facts.assistants], incomplete)


def _begun(words: list[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _values(annotation: Any) -> list[str]:
    """Return the values of a type that has few of them: a choice, or true and false; also within an optional type."""
    if annotation is bool:
        return ["true", "false"]
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [value for part in get_args(annotation) if not isinstance(part, str) for value in _values(part)]
