"""Flattens what users wrote into values by dotted path, and finds what no setting can take: unknown keys, groups where a
value belongs, a token in clear. Types and ranges are left to the declarations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from infra.errors import Fault
from infra.planning.settings.declarations import SECRET_KEY, Settings
from infra.planning.settings.messages import example, shown
from infra.planning.settings.paths import is_map, known_paths, subgroup
from infra.suggestions import did_you_mean


class Flat(NamedTuple):
    """Values by dotted path, in the order in which they were written, and every fault found."""

    values: dict[str, Any]
    faults: list[Fault]


def flatten(written: Mapping[str, Any]) -> Flat:
    """Flatten groups of settings. A key may name a group and hold its members, or name a member by its path; a value
    that is set in both ways is a fault. The token's value is replaced by True."""
    flat = Flat({}, [])
    for found in _found(written, Settings, ""):
        if isinstance(found, Fault):
            flat.faults.append(found)
            continue
        path, value = found
        if path in flat.values:
            fact = "is set twice, once by its dotted name and once under its group."
            flat.faults.append(Fault(path, fact, "One of the two would win.", "Keep one."))
        flat.values[path] = value
    return flat


def _found(written: Mapping[str, Any], group: type[BaseModel], prefix: str) -> Iterator[tuple[str, Any] | Fault]:
    """Yield the values and faults below a group whose path begins with `prefix`."""
    fields = {field.alias or name: field for name, field in group.model_fields.items()}
    for name, below in written.items():
        key, value = _member_as_group(str(name), below, fields)
        path = f"{prefix}{key}"
        if path.startswith(f"{SECRET_KEY}."):
            if value is not None:
                yield _TOKEN_IN_CLEAR
        elif key not in fields:
            yield _unknown_key(prefix, key, list(fields))
        elif path == SECRET_KEY:
            if value is not None and not _is_encrypted(value):
                yield _TOKEN_IN_CLEAR
            yield path, None if value is None else True
        elif _is_encrypted(value):
            fact = "is stored as a secret, which only Pulumi can read."
            fix = f"Run: pulumi config set gemma4:{path}{'.KEY' if subgroup(fields[key]) else ''} VALUE"
            yield Fault(path, fact, "It cannot be planned.", fix)
        elif (inner := subgroup(fields[key])) is not None:
            if isinstance(value, Mapping):
                yield from _found(value, inner, f"{path}.")
            elif value is not None:
                members = ", ".join(field.alias or name for name, field in inner.model_fields.items())
                yield _not_a_group(path, value, "a group of settings", f"Write keys under it: {members}.")
        elif is_map(fields[key]):
            if isinstance(value, Mapping):
                yield from ((f"{path}.{entry}", item) for entry, item in value.items())
            elif value is not None:
                fix = f"Write keys under it, for example {path}: {example(fields[key])}."
                yield _not_a_group(path, value, "a group of keys", fix)
        elif isinstance(value, Mapping):
            yield Fault(path, "takes one value, not a group.", fix=f"Write {path}: {example(fields[key])}.")
        elif isinstance(value, bool) and {int, float} & {fields[key].annotation, *get_args(fields[key].annotation)}:
            fix = f"Write for example {path}: {example(fields[key])}."
            yield Fault(path, f"{shown(value)} is true or false, not a number.", fix=fix)
        else:
            yield path, value


def _member_as_group(key: str, value: Any, fields: Mapping[str, Any]) -> tuple[str, Any]:
    """Return `serving.maxModelLen: 4096` as `serving: {maxModelLen: 4096}`, any other key and value as they are. The token
    stays as it is: it has one spelling, so that nothing else is taken for one."""
    head, _, rest = key.partition(".")
    return (head, {rest: value}) if rest and head in fields and head != SECRET_KEY else (key, value)


def _is_encrypted(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"secure"}


_TOKEN_IN_CLEAR = Fault(
    SECRET_KEY,
    "is written in clear.",
    "It would stand in the repository and in the state for everyone to read.",
    "Take it out, revoke it, and run: pulumi config set --secret gemma4:hfToken",
)


def _not_a_group(path: str, value: Any, group: str, fix: str) -> Fault:
    if isinstance(value, str) and value.startswith("{"):
        try:
            json.loads(value)
        except (ValueError, RecursionError) as error:
            fact = f"is not {group}: it begins like JSON and is not JSON ({error})."
            return Fault(path, fact, fix=f"Mend it. {fix}")
    return Fault(path, f"{shown(value)} is not {group}.", fix=fix)


def _unknown_key(prefix: str, key: str, siblings: list[str]) -> Fault:
    """Suggest the nearest key: the same letters in this group, one s aside, the same name elsewhere, then what looks alike."""
    if key.replace(":", ".") in dict(known_paths()):
        key = key.replace(":", ".")
        return Fault(f"{prefix}{key}", "is written with a colon.", "It would have no effect.", f"Write gemma4:{key}.")
    word = key.lower().replace("_", "").replace("-", "")
    same = [f"{prefix}{known}" for known in siblings if known.lower().rstrip("s") == word.rstrip("s")]
    same += [known for known, _ in known_paths() if known.rsplit(".", 1)[-1].lower() == word]
    fix = f"Did you mean {same[0]}?" if same else did_you_mean(key, siblings, prefix=prefix)
    known_here = f"Known here: {', '.join(siblings)}."
    return Fault(f"{prefix}{key}", "no such setting.", "It would have no effect.", fix or known_here)
