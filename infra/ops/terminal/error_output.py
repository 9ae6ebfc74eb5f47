"""How a command ends that cannot answer: the message, in words or as data, and the exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path

from typer.exceptions import TyperException

from infra.errors import Fault, Gemma4Error, SettingsError

FAILED = 1
BAD_SETTINGS = 2
REFUSED = 3
INTERRUPTED = 130
"""As a shell counts a command that Ctrl-C has ended."""
TRACEBACK = "GEMMA4_TRACEBACK"
"""The environment variable that makes an unexpected error print its traceback."""


def in_words(error: Exception) -> str:
    """Return what the operating system refused, with the file and what may help."""
    if not isinstance(error, OSError):
        return f"the input cannot be read ({type(error).__name__}: {error}); look for a file that is not what it should be."
    where = f"{error.filename}: " if error.filename else ""
    fix = _HELP.get(error.errno or 0, "Look at the file or the device, and run the command again.")
    return f"{where}{error.strerror or error}. {fix}"


_HELP = {
    errno.EACCES: "Allow yourself to read or write it, or use another place.",
    errno.EROFS: "It lies where nothing can be written: use another place.",
    errno.ENOSPC: "The output is not whole: free some space, or write it elsewhere.",
    errno.EDQUOT: "The output is not whole: free some space, or write it elsewhere.",
    errno.ENOENT: "Name a file or folder that exists.",
    errno.ENAMETOOLONG: "Name a file that exists.",
}


def own_fault(error: Exception) -> str:
    """Return a sentence about a fault of this program: what and where, without the traceback."""
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name} line {last.lineno}"
    return (
        f"this is a fault of gemma4 itself ({type(error).__name__}: {error}; {where}), so there is no answer; "
        f"report it with what the same command prints under {TRACEBACK}=1."
    )


def show_traceback() -> None:
    """Print the traceback of the current exception, if the environment asks for it."""
    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exc()


def misused(error: TyperException, words: Sequence[str]) -> int:
    """Print the help where nothing was typed, else what is wrong with what was typed, and return the exit code."""
    if not words or error.message.startswith("Usage:"):
        print(error.message, file=sys.stderr)
        return BAD_SETTINGS
    from infra.ops.terminal.usage_errors import usage_fault

    fault = usage_fault(error, words)
    if "--json" in words:
        return report(SettingsError([fault]), [fault], "bad settings", BAD_SETTINGS, words)
    if context := getattr(error, "ctx", None):
        print(f"{context.get_usage()}\nTry '{context.command_path} -h' for help.\n", file=sys.stderr)
    print(f"Error: {fault}", file=sys.stderr)
    if fault.key == "stack":
        from infra.ops.commands.stack_list import show_stacks

        with redirect_stdout(sys.stderr), suppress(Gemma4Error):
            show_stacks(as_json=False)
    return BAD_SETTINGS


def report(error: Gemma4Error, faults: Sequence[Fault], verdict: str, code: int, words: Sequence[str]) -> int:
    """Print an error, as data where `words` ask for data, and return the exit code."""
    if "--json" in words:
        from infra.ops.terminal.json_output import print_json

        listed = [{"key": f.key, "fact": f.fact, "consequence": f.consequence, "fix": f.fix} for f in faults]
        print_json({"verdict": verdict, "error": str(error), "faults": listed})
        return code
    if not faults:
        print(f"{verdict}: {error}", file=sys.stderr)
        return code
    count = f", {len(faults)} things to mend" if len(faults) > 1 else ""
    if words[:1] == ["plan"]:
        print(f"{verdict}{count}; nothing was planned or created:", file=sys.stderr)
    else:
        print(f"{'bad input' if code == BAD_SETTINGS else verdict}{count}; nothing was done:", file=sys.stderr)
    print("\n".join(f"  {line}" for line in str(error).splitlines()), file=sys.stderr)
    return code
