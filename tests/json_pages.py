"""The pages and the JSON schemas of what commands print with `--json`, made from the models of the answers."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.ops.answers.all_answers import ANSWERS
from infra.ops.answers.answer_base import FailureAnswer
from infra.planning.report.data_models import BandData, FaultData, PlanData, PriceLineData, RateData, SpanData
from tests.projects import ROOT

PLAN_PAGE = ROOT / "docs" / "plan-schema.md"
ANSWERS_PAGE = ROOT / "docs" / "json.md"
SCHEMAS = ROOT / "docs" / "schemas"

PARTS: Mapping[type[BaseModel], str] = {
    BandData: "band",
    SpanData: "span",
    RateData: "rate",
    PriceLineData: "price line",
    FaultData: "fault",
}
"""Groups that stand in several places, and are described once."""

_PLAN_HEAD = """# The plan as JSON

<!-- written by make golden from infra/planning/report/data_models.py -->

What `gemma4 plan STACK --json` prints, as [a JSON schema](schemas/plan.json) and in words. It is stable: keys are added,
and only a change of `schema` renames or removes one or changes what it means.

* Exit codes 0 and 3 print a plan; `verdict` and `refusals` tell them apart. Exit code 2 prints
  [a failure](json.md#failures).
* Keys are camelCase. Sizes end in `Bytes`, times in `S` or `Seconds`, money begins with `usd`. Tokens are tokens.
* What holds bands says `predicted: true`; nothing predicted is ever measured here.
* `null` means that there is none (a zone on Cloud Run) or that it was not asked for (`resources` with
  `--no-resources`). With `verdict: refused`, null is also what only a running server would have: tokens and requests
  held, speed, price of a token.
* Numbers are not rounded for reading: a difference made from them is that of the plans.
* A saved plan can be compared with: `gemma4 plan STACK --json > plan.json`, later `gemma4 plan STACK --diff plan.json`."""

_ANSWERS_HEAD = """# What the other commands print as JSON

<!-- written by make golden from infra/ops/answers/ -->

Each answer has [a JSON schema](schemas). As in [the plan](plan-schema.md): keys are camelCase and only ever added, unless
`schema` changes; times end in `S`, moments are RFC 3339 in UTC, chips are chips. `null` means unknown, an empty text that
there is nothing to say. `gaps` names what could not be asked, with the reason: silence is not "none"."""

_TABLE = ("| key | type | meaning |", "|---|---|---|")


def pages() -> dict[Path, str]:
    """Every generated file about JSON, and what it should hold."""
    schemas = {SCHEMAS / f"{name.replace(' ', '-')}.json": schema(model) for name, model in ANSWERS.items()}
    return {
        **schemas,
        SCHEMAS / "failure.json": schema(FailureAnswer),
        PLAN_PAGE: plan_page(),
        ANSWERS_PAGE: answers_page(),
    }


def schema(model: type[BaseModel]) -> str:
    """The JSON schema of an answer. It allows keys that it does not know, since later versions add some."""
    described = _open(model.model_json_schema(by_alias=True, mode="serialization"))
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **described}, indent=1) + "\n"


def _open(part: Any) -> Any:
    """A part of a schema without what only names things twice or forbids further keys."""
    if isinstance(part, list):
        return [_open(member) for member in part]
    if not isinstance(part, dict):
        return part
    kept = {key: _open(value) for key, value in part.items()}
    if kept.get("additionalProperties") is False:
        del kept["additionalProperties"]
    return {key: value for key, value in kept.items() if key != "title" or not isinstance(value, str)}


def plan_page() -> str:
    """The page about the plan."""
    lines = [_PLAN_HEAD, "", "## Keys", "", *_TABLE, *_rows(PlanData), "", "## Parts", ""]
    lines.append("These stand in several places.")
    for model, name in PARTS.items():
        lines += ["", f"### A {name}", "", _sentence(model), "", *_TABLE, *_rows(model)]
    return "\n".join(lines) + "\n"


def answers_page() -> str:
    """The page about all other commands, and about failures."""
    lines = [_ANSWERS_HEAD]
    for name, model in ANSWERS.items():
        if model is not PlanData:
            lines += ["", f"## gemma4 {name}", "", _sentence(model), "", *_TABLE, *_rows(model)]
    lines += ["", "## Failures", "", _sentence(FailureAnswer), "", *_TABLE, *_rows(FailureAnswer)]
    return "\n".join(lines) + "\n"


def _sentence(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _rows(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = f"{path}.{field.alias or name}".lstrip(".")
        yield from _members(field.annotation, key, _meaning(field))


def _meaning(field: FieldInfo) -> str:
    return (field.description or "").replace("|", "\\|")


def _members(annotation: Any, path: str, meaning: str) -> Iterator[str]:
    """The rows of a value: one for a plain one, one for each member of a group."""
    kinds = _union(annotation)
    null = " or null" if type(None) in kinds else ""
    kinds = [kind for kind in kinds if kind is not type(None)]
    groups = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    if groups and groups[0] in PARTS:
        yield _row(path, PARTS[groups[0]] + null, meaning)
    elif groups:
        if null:
            yield _row(path, f"group{null}", meaning)
        told: set[str] = set()
        for group in groups:
            rows = [row for row in _rows(group, path) if row not in told]
            told.update(rows)
            yield from rows
    elif get_origin(kinds[0]) is list:
        inner = get_args(kinds[0])[0]
        if null:
            yield _row(path, f"list{null}", meaning)
        if inner in PARTS:
            yield _row(f"{path}[]", PARTS[inner], meaning)
        else:
            yield from _members(inner, f"{path}[]", meaning)
    elif get_origin(kinds[0]) is dict:
        yield _row(f"{path}.*", _kind(get_args(kinds[0])[1]), meaning)
    else:
        yield _row(path, " or ".join(dict.fromkeys(map(_kind, kinds))) + null, meaning)


def _union(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for part in get_args(annotation) for kind in _union(part)]
    if hasattr(annotation, "__metadata__"):
        return _union(get_args(annotation)[0])
    return [annotation]


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "text"
    return {str: "text", bool: "true or false", int: "number", float: "number", Any: "any"}[annotation]


def _row(path: str, kind: str, meaning: str) -> str:
    return f"| `{path}` | {kind} | {meaning} |"
