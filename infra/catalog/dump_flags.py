"""Writes the flag table of one vLLM version from a real vLLM: run it with the Python of an environment that has it.

    python infra/catalog/dump_flags.py > infra/catalog/vllm_flags-0.33.0.json

Nothing in this program imports it. The type of a flag is found by trying values on vLLM's own parser, because most of
its type functions are anonymous; which values it looks up only while starting is read from its registries.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime as dt
import importlib
import json
import sys
from types import ModuleType
from typing import Any

CLI_ARGS = ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.launchers.cli_args")
"""Where the arguments of the server are declared: since 0.33, and in 0.32."""
MISSING = object()
HELP = {"-h", "--help"}


def main() -> None:
    """Print the table as JSON, one flag a line, so that the change of a version is a readable diff."""
    import vllm  # type: ignore[import-not-found]

    parser = serve_parser()
    version = vllm.__version__.partition("+")[0]
    head = {
        "version": version,
        "source": {
            "where": f"argument parser and registries of vLLM {version} itself, run on its CPU platform",
            "read": dt.date.today().isoformat(),
            "confidence": "exact",
        },
        "values": _registries(),
    }
    rows = [json.dumps(_row(parser, action)) for action in parser._actions if set(action.option_strings) - HELP]
    text = json.dumps(head, indent=2)[:-2] + ',\n  "flags": [\n    ' + ",\n    ".join(rows) + "\n  ]\n}\n"
    sys.stdout.write(text)


def serve_parser() -> argparse.ArgumentParser:
    """Return the parser of `vllm serve`. Raises ImportError where this vLLM keeps it in none of the known modules."""
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

    return cli_args().make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))  # type: ignore[no-any-return]


def cli_args() -> ModuleType:
    """Return vLLM's module with the arguments of its server. Raises ImportError where it is in none of the known places."""
    for name in CLI_ARGS:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ImportError(
        f"This vLLM has none of {', '.join(CLI_ARGS)}: find its make_arg_parser, and add the module here."
    )


def _registries() -> dict[str, list[str]]:
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS  # type: ignore[import-not-found]
    from vllm.model_executor.model_loader import _LOAD_FORMAT_TO_MODEL_LOADER  # type: ignore[import-not-found]
    from vllm.reasoning import ReasoningParserManager  # type: ignore[import-not-found]
    from vllm.tool_parsers import ToolParserManager  # type: ignore[import-not-found]

    names = {
        "--tool-call-parser": sorted(ToolParserManager.list_registered()),
        "--reasoning-parser": sorted(ReasoningParserManager.list_registered()),
        "--load-format": sorted(_LOAD_FORMAT_TO_MODEL_LOADER),
        "--quantization": sorted(QUANTIZATION_METHODS),
    }
    with contextlib.suppress(ImportError):  # until 0.32 the parser itself has them, as choices
        from vllm.config.cache import KV_CACHE_DTYPES  # type: ignore[import-not-found]

        names["--kv-cache-dtype"] = sorted(KV_CACHE_DTYPES)
    return names


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> dict[str, Any]:
    # What the parser takes: since 0.33 an action hides its --no- spellings, which still work.
    spellings = [spelling for spelling, taken in parser._option_string_actions.items() if taken is action]
    name = next(spelling for spelling in spellings if spelling.startswith("--") and not spelling.startswith("--no-"))
    negatives = [spelling for spelling in spellings if _switches_off(parser, action, spelling)]
    simple = isinstance(action.default, str | int | float | bool) and action.default != argparse.SUPPRESS
    row: dict[str, Any] = {
        "name": name,
        "aliases": [spelling for spelling in spellings if spelling not in (name, *negatives)],
        "negatives": negatives,
        "kind": _kind(parser, action),
        "members": sorted(_members(action.type)),
        "choices": [str(choice) for choice in action.choices if choice is not None] if action.choices else None,
        "default": action.default if simple else None,
        "many": action.nargs in ("+", "*"),
        "optional": action.nargs != 0 and _tried(parser, action, "None") is None,
        "deprecated": "deprecated" in (action.help or "").lower()[:40] or "Deprecated" in type(action).__name__,
    }
    return {key: value for key, value in row.items() if value not in (None, [], False)}


def _switches_off(parser: argparse.ArgumentParser, action: argparse.Action, spelling: str) -> bool:
    """Return whether a spelling of a switch means the contrary of its name: asked of the action itself."""
    if not isinstance(action, argparse.BooleanOptionalAction):
        return False
    answer = argparse.Namespace()
    action(parser, answer, [], spelling)
    return getattr(answer, action.dest) is False


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
