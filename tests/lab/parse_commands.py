"""Parses commands with vLLM's own parser. Run with the Python of an environment that has vLLM; imports nothing of this project.

Reads a JSON list of commands, and writes a JSON object: vLLM's version, and for each command what vLLM says against it,
empty where it takes it. A path to a chat template is not looked up: it is a file of the image.
"""

import argparse
import contextlib
import copy
import importlib
import io
import json
import runpy
import sys
from pathlib import Path

DUMP_FLAGS = Path(__file__).parents[2] / "infra" / "catalog" / "dump_flags.py"


def main() -> None:
    """Answer on standard output; whatever vLLM prints goes elsewhere."""
    with contextlib.redirect_stdout(sys.stderr):
        import vllm  # type: ignore[import-not-found]

        dump = runpy.run_path(str(DUMP_FLAGS))
        parser, module = dump["serve_parser"](), dump["cli_args"]()
        module.validate_chat_template = lambda _: None
        if not hasattr(module, "validate_api_server_args"):  # until 0.32
            launcher = importlib.import_module("vllm.entrypoints.launchers.launcher")
            module.validate_api_server_args = launcher.validate_api_server_args
        said = [complaint(parser, module, command) for command in json.load(sys.stdin)]
    print(json.dumps({"version": vllm.__version__.partition("+")[0], "said": said}))


def complaint(parser: argparse.ArgumentParser, module: object, command: list[str]) -> str:
    """What the parser, or one of vLLM's two checks of what was parsed, says against a command."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            arguments = copy.deepcopy(parser.parse_args(command[2:]))
            module.validate_parsed_serve_args(arguments)  # type: ignore[attr-defined]
            module.validate_api_server_args(arguments)  # type: ignore[attr-defined]
    except SystemExit:
        return errors.getvalue().strip().splitlines()[-1]
    except (KeyError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    main()
