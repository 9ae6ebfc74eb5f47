"""The `gemma4` command as a process: runs one command line, and ends with a message and an exit code."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from infra.errors import Gemma4Error, RefusedError, SettingsError
from infra.ops.command_line.all_commands import whole_command
from infra.ops.terminal.error_output import (
    BAD_SETTINGS,
    FAILED,
    INTERRUPTED,
    REFUSED,
    in_words,
    misused,
    own_fault,
    report,
    show_traceback,
)
from infra.ops.terminal.safe_output import abandon_output, safe_output


def main() -> NoReturn:
    """Run the command line of this process and end the process with its exit code."""
    gc.set_threshold(200_000, 20, 100)  # a tenth of a plan's time went into looking through modules for garbage
    code = run(sys.argv[1:])
    abandon_output()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. A fault that a user can mend is printed without a traceback."""
    words = list(arguments)
    words = [*words[1:], "--help"] if words[:1] == ["help"] else words
    with safe_output():
        try:
            code = _answer(words)
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read has heard enough
            return FAILED
        except OSError as error:
            with suppress(OSError):
                print(f"failed: {in_words(error)}", file=sys.stderr)
            return FAILED
    return code


def _answer(words: list[str]) -> int:
    try:
        code = whole_command()(args=words, prog_name="gemma4", standalone_mode=False)
    except SystemExit as end:  # of completion
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except SettingsError as error:
        return report(error, error.faults, "bad settings", BAD_SETTINGS, words)
    except RefusedError as error:
        return report(error, error.faults, "refused", REFUSED, words)
    except Gemma4Error as error:
        return report(error, (), "failed", FAILED, words)
    except TyperException as error:
        return misused(error, words)
    except typer.Abort:  # Ctrl-C
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (OSError, UnicodeError, RecursionError, MemoryError, json.JSONDecodeError) as error:
        show_traceback()
        fix = " Print it instead with: gemma4 --show-completion" if "--install-completion" in words else ""
        return report(Gemma4Error(in_words(error) + fix), (), "failed", FAILED, words)
    except Exception as error:
        show_traceback()
        return report(Gemma4Error(own_fault(error)), (), "failed", FAILED, words)
    return code if isinstance(code, int) else 0
