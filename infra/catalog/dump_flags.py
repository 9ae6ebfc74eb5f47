"""Writes vllm_flags.json anew from a real vLLM: run it with the Python of an environment that has vLLM installed.

    python infra/catalog/dump_flags.py > infra/catalog/vllm_flags.json

Nothing in this program imports it. The type of a flag is found by trying values on vLLM's own parser, because most of
its type functions are anonymous; which values it looks up only while starting is read from its registries.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import sys
from typing import Any

MISSING = object()
HELP = {"-h", "--help"}


def main() -> None:
    """Print the table as JSON, one flag a line, so that the change of a version is a readable diff."""
    import vllm  # type: ignore[import-not-found]
    from vllm.entrypoints.launchers.cli_args import make_arg_parser  # type: ignore[import-not-found]
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    version = vllm.__version__.partition("+")[0]
    head = {
        "version": version,
        "source": {
            "where": f"argument parser and registries of vLLM {version} itself, CPU build",
            "read": dt.date.today().isoformat(),
            "confidence": "exact",
        },
        "values": _registries(),
    }
    rows = [json.dumps(_row(parser, action)) for action in parser._actions if set(action.option_strings) - HELP]
    text = json.dumps(head, indent=2)[:-2] + ',\n  "flags": [\n    ' + ",\n    ".join(rows) + "\n  ]\n}\n"
    sys.stdout.write(text)


def _registries() -> dict[str, list[str]]:
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS  # type: ignore[import-not-found]
    from vllm.model_executor.model_loader import _LOAD_FORMAT_TO_MODEL_LOADER  # type: ignore[import-not-found]
    from vllm.reasoning import ReasoningParserManager  # type: ignore[import-not-found]
    from vllm.tool_parsers import ToolParserManager  # type: ignore[import-not-found]

    return {
        "--tool-call-parser": sorted(ToolParserManager.list_registered()),
        "--reasoning-parser": sorted(ReasoningParserManager.list_registered()),
        "--load-format": sorted(_LOAD_FORMAT_TO_MODEL_LOADER),
        "--quantization": sorted(QUANTIZATION_METHODS),
    }


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> dict[str, Any]:
    long = [spelling for spelling in action.option_strings if spelling.startswith("--")]
    name = next(spelling for spelling in long if not spelling.startswith("--no-"))
    negative = next((spelling for spelling in long if spelling == f"--no-{name[2:]}"), None)
    simple = isinstance(action.default, str | int | float | bool) and action.default != argparse.SUPPRESS
    row: dict[str, Any] = {
        "name": name,
        "aliases": [spelling for spelling in action.option_strings if spelling not in (name, negative)],
        "negative": negative,
        "kind": _kind(parser, action),
        "members": sorted(_members(action.type)),
        "choices": [str(choice) for choice in action.choices if choice is not None] if action.choices else None,
        "default": action.default if simple else None,
        "many": action.nargs in ("+", "*"),
        "optional": action.nargs != 0 and _tried(parser, action, "None") is None,
        "deprecated": "deprecated" in (action.help or "").lower()[:40] or "Deprecated" in type(action).__name__,
    }
    return {key: value for key, value in row.items() if value not in (None, [], False)}


def _kind(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.nargs == 0:
        return "switch"
    word, whole, table = (_tried(parser, action, text) for text in ("abc", "1", '{"a":1}'))
    if word is not MISSING:
        if isinstance(table, dict):
            return "text-or-object"
        return "list" if isinstance(word, list) else "text"
    if table is not MISSING:
        return "json"
    if whole is MISSING:
        return "object"
    if _tried(parser, action, "16K") is not MISSING:
        return "length" if _tried(parser, action, "auto") is not MISSING else "size"
    return "integer" if isinstance(whole, int) else "number"


def _members(type_function: Any) -> set[str]:
    """Return the field names of the configuration class that a flag's type function parses; empty where it parses none."""
    inner = [cell.cell_contents for cell in getattr(type_function, "__closure__", None) or ()]
    for part in (*(getattr(type_function, "__defaults__", None) or ()), *inner):
        if dataclasses.is_dataclass(part):
            return {field.name for field in dataclasses.fields(part) if field.init}
        if callable(part) and (found := _members(part)):
            return found
    return set()


def _tried(parser: argparse.ArgumentParser, action: argparse.Action, text: str) -> Any:
    try:
        return parser._get_value(action, text)
    except (argparse.ArgumentError, argparse.ArgumentTypeError, TypeError, ValueError):
        return MISSING


if __name__ == "__main__":
    main()
