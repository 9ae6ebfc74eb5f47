"""What the shell may offer after a word that has been begun: stacks, settings with their values, ids of the catalog."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from infra.catalog import catalog
from infra.ops.commands.explain_terms import choices
from infra.ops.plan_inputs import project_root
from infra.planning.settings.paths import known_paths, subgroup
from infra.planning.settings.stackfile import stack_names


def stacks(incomplete: str) -> list[str]:
    """Names of stack files."""
    return _begun(stack_names(project_root()), incomplete)


def keys(incomplete: str) -> list[str]:
    """What `gemma4 explain` takes: settings, groups, models and machines."""
    return _begun([*(path for path, _ in known_paths()), *choices("model"), *choices("accelerator")], incomplete)


def assignments(incomplete: str) -> list[str]:
    """`KEY=` for settings, and behind it the values that a setting can have."""
    key, given, _ = incomplete.partition("=")
    fields = {path: field for path, field in known_paths() if subgroup(field) is None}
    if not given:
        return _begun([f"{path}=" for path in fields], incomplete)
    values = choices(key) or (_values(fields[key].annotation) if key in fields else [])
    return _begun([f"{key}={value}" for value in values], incomplete)


def models(incomplete: str) -> list[str]:
    """Catalog ids of models."""
    return _begun(choices("model"), incomplete)


def tpus(incomplete: str) -> list[str]:
    """Catalog ids of TPU machines."""
    return _begun([one.id for one in catalog().accelerators.values() if one.tpu], incomplete)


def pins(incomplete: str) -> list[str]:
    """Ids of what can be pinned: images, models, assistants."""
    facts = catalog()
    return _begun([*facts.images, *facts.models, *facts.assistants], incomplete)


def _begun(words: list[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _values(annotation: Any) -> list[str]:
    """The values of a choice, of yes or no, and of either within an optional or checked type; empty for any other."""
    if annotation is bool:
        return ["true", "false"]
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [value for part in get_args(annotation) if not isinstance(part, str) for value in _values(part)]
