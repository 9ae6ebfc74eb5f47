"""Refuses what Google's schemas do not know: a misspelt field, a wrong type. Only for the APIs that cost most.

`schemas.json` holds, for Cloud Run v2 and TPU v2alpha1, each message's fields and their types as the public discovery
documents list them. Regenerate with `python -m tests.fakes.google.schemas FOLDER`, where FOLDER holds run.v2.json and
tpu.v2alpha1.json (the PyPI package google-api-python-client ships them in `discovery_cache/documents`).
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.fakes.google.wire import ErrorAnswer

DATA = Path(__file__).with_name("schemas.json")
ROOTS = {
    "run.v2": ("GoogleCloudRunV2Service", "GoogleCloudRunV2Job", "GoogleCloudRunV2RunJobRequest"),
    "tpu.v2alpha1": ("QueuedResource", "Node", "GetGuestAttributesRequest"),
}
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "enum": (str,),
    "boolean": (bool,),
    "integer": (int, str),
    "number": (int, float),
    "object": (dict,),
    "any": (object,),
}


def check(api: str, message: str, body: Any) -> None:
    """Raise a 400 that names the first field `message` of `api` does not have, or has with another type."""
    _check(_schemas()[api]["messages"], message, body, "")


def _check(messages: dict[str, dict[str, str]], kind: str, value: Any, at: str) -> None:
    if value is None:
        return
    if kind.endswith("[]"):
        _must_be(list, value, at)
        for number, item in enumerate(value):
            _check(messages, kind.removesuffix("[]"), item, f"{at}[{number}]")
    elif kind.startswith("map:"):
        _must_be(dict, value, at)
        for key, item in value.items():
            _check(messages, kind.removeprefix("map:"), item, f"{at}.{key}")
    elif kind in messages:
        _must_be(dict, value, at)
        for key, item in value.items():
            if key not in messages[kind]:
                raise ErrorAnswer(
                    400, f"Invalid JSON payload received. Unknown name \"{key}\" at '{at}': Cannot find field."
                )
            _check(messages, messages[kind][key], item, f"{at}.{key}".lstrip("."))
    else:
        _must_be(PYTHON_TYPES[kind], value, at)


def _must_be(types: type | tuple[type, ...], value: Any, at: str) -> None:
    if not isinstance(value, types) or (isinstance(value, bool) and types not in ((bool,), (object,))):
        raise ErrorAnswer(400, f"Invalid value at '{at}': {json.dumps(value)}")


@cache
def _schemas() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DATA.read_text())
    return loaded


def _extract(document: dict[str, Any], roots: tuple[str, ...]) -> dict[str, Any]:
    messages: dict[str, dict[str, str]] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        short = name.removeprefix("GoogleCloudRunV2")
        if short not in messages:
            messages[short] = {}
            for field, shape in document["schemas"][name].get("properties", {}).items():
                messages[short][field] = _kind(shape, todo)
    return {"revision": document["revision"], "messages": dict(sorted(messages.items()))}


def _kind(shape: dict[str, Any], todo: list[str]) -> str:
    if "$ref" in shape:
        todo.append(shape["$ref"])
        return str(shape["$ref"]).removeprefix("GoogleCloudRunV2")
    if shape["type"] == "array":
        return _kind(shape["items"], todo) + "[]"
    if shape["type"] == "object" and "additionalProperties" in shape:
        return "map:" + _kind(shape["additionalProperties"], todo)
    return "enum" if "enum" in shape else str(shape["type"])


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    extracted = {api: _extract(json.loads((folder / f"{api}.json").read_text()), roots) for api, roots in ROOTS.items()}
    DATA.write_text(json.dumps(extracted, indent=1) + "\n")
