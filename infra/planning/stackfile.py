"""Reads `Pulumi.<stack>.yaml` as Pulumi itself would, without Pulumi: the `gemma4:` and `gcp:` keys of its `config`.

It decides nothing about the values; `resolve.py` does, in a real run as well, so that both say the same about one file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.errors import Fault, SettingsError
from infra.planning.resolve import nearest

NAMESPACE = "gemma4"


@dataclass(frozen=True)
class StackFile:
    """A stack's configuration: `settings` under `gemma4:` (nested, prefix removed), `gcp` under `gcp:`."""

    stack: str
    path: Path
    settings: Mapping[str, Any]
    gcp: Mapping[str, str]


def stack_names(root: Path) -> list[str]:
    """The stacks that have a file in the project folder `root`, by name."""
    return sorted(path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in root.glob("Pulumi.?*.yaml"))


def read_stack(root: Path, stack: str) -> StackFile:
    """Read the file of `stack` in `root`. Raises SettingsError: no such stack, not YAML, a key written twice."""
    path = root / f"Pulumi.{stack}.yaml"
    names = stack_names(root)
    if stack not in names:
        hint = nearest(stack, names) or f"Stacks here: {', '.join(names) or 'none'}."
        raise SettingsError([Fault(stack, f"there is no stack file {path.name} in {root}.", fix=hint)])
    document = _load(path)
    config = document.get("config") or {}
    if not isinstance(config, Mapping):
        raise SettingsError(
            [Fault(path.name, "`config` is not a group of keys.", fix="Write config:, then gemma4:model: … under it.")]
        )
    return StackFile(
        stack, path, *split_config({str(key): _as_pulumi_gives_it(value) for key, value in config.items()})
    )


def split_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Split `namespace:key` values into (gemma4 settings, gcp settings); object values may be JSON text, as Pulumi has them."""
    settings: dict[str, Any] = {}
    gcp: dict[str, str] = {}
    faults = []
    for key, value in config.items():
        namespace, _, name = key.partition(":")
        if namespace == NAMESPACE and name:
            settings[name] = _object(value)
        elif namespace == "gcp":
            gcp[name] = value
        elif nearest(namespace, [NAMESPACE, "gcp"]) and namespace not in ("pulumi", "docker"):
            faults.append(
                Fault(
                    key,
                    f"no such namespace {namespace!r}.",
                    "It would have no effect.",
                    f"Write {NAMESPACE}:{name or 'key'}.",
                )
            )
    if faults:
        raise SettingsError(faults)
    return settings, gcp


def _object(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value


def _as_pulumi_gives_it(value: Any) -> Any:
    """Top-level scalars of a stack file reach a Pulumi program as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class _StrictLoader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """A YAML loader that refuses a key written twice: the second would silently win."""


def _mapping(loader: Any, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=deep)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is written twice", key_node.start_mark
            )
        seen.add(key)
    loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _load(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)  # noqa: S506  a safe loader, made stricter
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SettingsError(
            [Fault(f"{path.name}{where}", f"is not readable YAML: {what}.", fix="Mend the line and run again.")]
        ) from None
    if document is not None and not isinstance(document, Mapping):
        raise SettingsError([Fault(path.name, "holds no keys.", fix="A stack file begins with `config:`.")])
    return document or {}
