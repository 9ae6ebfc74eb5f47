"""Whether a saved plan has the form that a comparison reads: people edit such files, and other versions wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.planning.report.change import RANKS, Json, Keys, value_at
from infra.planning.report.figure_changes import BESIDE, FIGURES, PRICES, TEXTS


def misshapen(data: Json) -> list[str]:
    """Return the keys of a plan in JSON form that are not as a comparison reads them. A key may be missing."""
    wrong: list[Keys] = [] if isinstance(data["stack"], str) else [("stack",)]
    wrong += [path for path in TEXTS.values() if not _is_text(value_at(data, path))]
    wrong += [figure.path for figure in (*PRICES, *FIGURES) if not _is_number(value_at(data, figure.path))]
    wrong += [path for path in BESIDE if not _is_number(value_at(data, path))]
    argv, env, resources = (value_at(data, path) for path in (("vllm", "argv"), ("vllm", "env"), ("resources",)))
    if not isinstance(argv, list) or not _is_text(argv):
        wrong.append(("vllm", "argv"))
    if not isinstance(env, Mapping) or not _is_text(list(env.values())):
        wrong.append(("vllm", "env"))
    if resources is not None and not (isinstance(resources, list) and all(_is_resource(row) for row in resources)):
        wrong.append(("resources",))
    for key in ("settings", "origins", "model", "startup", "slices"):
        if not isinstance(data.get(key) or {}, Mapping):
            wrong.append((key,))
    for key in ("refusals", "warnings"):
        if not all(isinstance(fault, Mapping) for fault in members(data.get(key))):
            wrong.append((key,))
    if data["verdict"] not in RANKS:
        wrong.append(("verdict",))
    return [".".join(path) for path in dict.fromkeys(wrong)]


def members(value: Any) -> list[Any]:
    """Return a list as it is, nothing for nothing, and anything else as its only member."""
    return value if isinstance(value, list) else [value] if value else []


def _is_text(value: Any) -> bool:
    """Return True if `value` is a text, a list of texts, or null."""
    members = value if isinstance(value, list) else [value or ""]
    return all(isinstance(member, str) for member in members)


def _is_number(value: Any) -> bool:
    """Return True if `value` is null, or a number of a size that a plan may hold."""
    if value is None:
        return True
    exabyte = 1e18  # in bytes: no plan holds more of anything
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < exabyte


def _is_resource(row: Any) -> bool:
    if not isinstance(row, Mapping) or not all(isinstance(row.get(key), str) for key in ("type", "name")):
        return False
    return all(isinstance(row.get(key) or {}, Mapping) for key in ("inputs", "options"))
