"""Reads `Pulumi.<stack>.yaml` as Pulumi itself would, without Pulumi: the `gemma4:` and `gcp:` keys of its `config`.

The values are judged in `resolve.py`, for `gemma4 plan` and for `pulumi up` alike.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from infra.catalog.checkpoint_lock import Checkpoints, read_checkpoints
from infra.errors import Fault, SettingsError
from infra.suggestions import did_you_mean

NAMESPACE = "gemma4"


@dataclass(frozen=True)
class StackFile:
    """The configuration of a stack: `settings` under `gemma4:` (nested, prefix removed), `gcp` under `gcp:`."""

    stack: str
    path: Path
    settings: Mapping[str, Any]
    gcp: Mapping[str, str]
    checkpoints: Checkpoints = field(default_factory=dict)
    """What was pinned of checkpoints beside the stack files."""


def stack_names(root: Path) -> list[str]:
    """Return the names of the stacks that have a file in the project folder `root`."""
    return sorted(path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in root.glob("Pulumi.?*.yaml"))


def read_stack(root: Path, stack: str) -> StackFile:
    """Read the file of `stack` in `root`. Raises SettingsError where there is no such stack, the file is not YAML, or a
    key is written twice."""
    path = root / f"Pulumi.{stack}.yaml"
    names = stack_names(root)
    if stack not in names:
        raise _no_such_stack(root, stack, names)
    document = _load(path)
    config = document.get("config") or {}
    fix = "Write config:, then gemma4:model: … under it."
    if not isinstance(config, Mapping):
        raise SettingsError.of(path.name, "`config` is not a group of keys.", "Nothing would be set.", fix)
    if "config" not in document and (outside := next((key for key in document if ":" in str(key)), None)):
        fact = f"has no `config:` above {outside}."
        raise SettingsError.of(path.name, fact, "Nothing would be set.", "Write config:, and indent all keys under it.")
    found = StackFile(stack, path, *split_config(_as_pulumi_gives_them(config)), read_checkpoints(root))
    if not found.settings and (foreign := _foreign_project(root)):
        fact = f"Pulumi.{stack}.yaml belongs to the Pulumi project {foreign} and says nothing to gemma4."
        raise SettingsError.of("stack", fact, "There is nothing to plan.", "Go to the folder of a gemma4 project.")
    return found


def _no_such_stack(root: Path, stack: str, names: list[str]) -> SettingsError:
    bare = re.sub(r"^(Pulumi\.)?(.*?)(\.ya?ml)?$", r"\2", re.split(r"[/\\=]", stack.strip())[-1].strip())
    meant = f"Did you mean {bare}?" if bare in names else did_you_mean(bare, names)
    hint = meant or f"Stacks here: {', '.join(names) or 'none'}."
    if not stack.strip():
        return SettingsError.of("stack", "is empty.", fix=hint)
    fact, consequence = f"there is no stack file Pulumi.{stack}.yaml in {root}.", ""
    if foreign := _foreign_project(root):
        consequence = f"That folder is the Pulumi project {foreign}, not gemma4's."
        hint = meant or f"Go to the folder of gemma4; here are: {', '.join(names) or 'none'}."
    elif os.path.isfile(root / f"Pulumi.{stack}.yml"):  # unlike pathlib's, no error for a name that no file can have
        consequence = f"Pulumi.{stack}.yml is not read beside Pulumi.yaml."
        hint = f"Rename it to Pulumi.{stack}.yaml."
    return SettingsError.of("stack", fact, consequence, hint)


def _foreign_project(root: Path) -> str:
    """Return the name of the Pulumi project in `root`, or an empty text where it is this program's own or none."""
    try:
        project = parse_yaml((root / "Pulumi.yaml").read_text(encoding="utf-8"))
    except (OSError, *UNREADABLE):
        return ""
    name = project.get("name") if isinstance(project, Mapping) else None
    return name if isinstance(name, str) and name != NAMESPACE else ""


def split_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Split `namespace:key` values into settings of gemma4 and of gcp. Groups and lists may be JSON text, as Pulumi holds
    them. Raises SettingsError where a namespace is misspelt."""
    settings: dict[str, Any] = {}
    gcp: dict[str, str] = {}
    faults = []
    for key, value in config.items():
        namespace, _, name = key.partition(":")
        if namespace == NAMESPACE and name:
            settings[name] = value
            if isinstance(value, str) and value[:1] in ("{", "["):
                with suppress(ValueError, RecursionError):
                    settings[name] = json.loads(value)
        elif namespace == "gcp":
            if isinstance(value, str):  # else a secret, which only Pulumi can read
                gcp[name] = value
        elif did_you_mean(namespace, [NAMESPACE, "gcp"]) and namespace not in ("pulumi", "docker"):
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


UNREADABLE = (yaml.YAMLError, ValueError, RecursionError)
"""What `parse_yaml` raises; ValueError for a date or tagged value of the wrong form, and for a value that holds itself."""


def parse_yaml(text: str) -> Any:
    """Parse a YAML text strictly: no tags, no key written twice, no value that holds itself."""
    try:
        value = yaml.load(text, Loader=_StrictLoader)  # noqa: S506  a safe loader, made stricter
    except (LookupError, AttributeError, TypeError):  # what PyYAML makes of `!!bool x` and its like
        raise ValueError("a tag such as !!bool or !!timestamp stands before a value of another kind") from None
    json.dumps(value, default=str, skipkeys=True)  # refuses a value that holds itself
    return value


def _as_pulumi_gives_them(config: Mapping[Any, Any]) -> dict[str, Any]:
    """Return `config:` as Pulumi hands it to the program: a key without a namespace belongs to the project, a scalar is
    text, and the keys of groups are sorted, so that the program and `gemma4` give a server the same flags in one order."""
    given: dict[str, Any] = {}
    for key, value in config.items():
        name = str(key) if ":" in str(key) else f"{NAMESPACE}:{key}"
        if name in given:
            raise SettingsError.of(name, "is written twice, once without its namespace.", "One would win.", "Keep one.")
        scalar = str(value).lower() if isinstance(value, bool) else str(value)
        given[name] = scalar if isinstance(value, bool | int | float) else _sorted(value)
    return given


def _sorted(value: Any) -> Any:
    """Return a value whose groups have their keys in order, at every depth."""
    if isinstance(value, Mapping):
        return {key: _sorted(inner) for key, inner in sorted(value.items(), key=lambda row: str(row[0]))}
    return [_sorted(inner) for inner in value] if isinstance(value, list) else value


class _StrictLoader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """A YAML loader that refuses a key written twice: the second would silently win."""


def _mapping(loader: Any, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=deep)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(None, None, "a key is a list or a group", key_node.start_mark)
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
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # a pipe would be waited for
            raise OSError(errno.EINVAL, "it is not a file")
        document = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        why = error.strerror or type(error).__name__
        if isinstance(error, FileNotFoundError):
            why = "it is a link to a file that does not exist"
        elif isinstance(error, IsADirectoryError):
            why = "it is a folder"
        fix = "Give yourself the right to read it." if isinstance(error, PermissionError) else "Put a stack file there."
        raise SettingsError.of(path.name, f"cannot be read: {why}.", "Nothing would be set.", fix) from None
    except UNREADABLE as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        what, fix = getattr(error, "problem", None) or str(error).splitlines()[0], "Mend the line and run again."
        if (
            "cannot start any token" in what
            and mark
            and "\t" in path.read_text(encoding="utf-8").splitlines()[mark.line]
        ):
            what, fix = "a tab stands where YAML takes only spaces", "Replace the tab by spaces."
        elif isinstance(error, UnicodeDecodeError):
            fix = "Save the file as UTF-8."
        elif isinstance(error, RecursionError):
            what, fix = "it is nested too deeply", "Write fewer levels."
        fact = f"is not readable YAML: {what}."
        raise SettingsError.of(f"{path.name}{where}", fact, "Nothing would be set.", fix) from None
    if document is not None and not isinstance(document, Mapping):
        raise SettingsError.of(
            path.name, "holds no keys.", "Nothing would be set.", "A stack file begins with `config:`."
        )
    return document or {}
