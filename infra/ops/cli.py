"""The `gemma4` command: one verb a question. Thin shells over the rest; what a verb needs is imported inside it."""

from __future__ import annotations

import errno
import gc
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from infra.errors import Fault, Gemma4Error, RefusedError, SettingsError
from infra.ops.streams import abandon_output, safe_output

FAILED = 1
BAD_SETTINGS = 2
REFUSED = 3
TRACEBACK = "GEMMA4_TRACEBACK"
"""The environment variable that shows where in this program something failed."""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Serve Gemma 4 with vLLM on Google Cloud: decide, price and check everything before anything is paid for.",
    epilog="Exit codes: 0 planned, 2 bad settings, 3 refused because it cannot work.",
)


def _complete_stack(incomplete: str) -> list[str]:
    from infra.ops.inputs import project_root
    from infra.planning.stackfile import stack_names

    return [name for name in stack_names(project_root()) if name.startswith(incomplete)]


def _complete_key(incomplete: str) -> list[str]:
    from infra.planning.resolve import known_paths

    return [path for path, _ in known_paths() if path.startswith(incomplete)]


def _complete_assignment(incomplete: str) -> list[str]:
    return [f"{path}=" for path in _complete_key(incomplete)]


def _examples(*lines: str) -> str:
    """An epilog that the help keeps line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  gemma4 {line}" for line in lines)


Stack = Annotated[
    str, typer.Argument(help="Name of a stack file: l4 means Pulumi.l4.yaml.", autocompletion=_complete_stack)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data for machines instead of text.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Lay a value over the stack file, e.g. --set serving.maxModelLen=4096; null takes it away. Repeatable.",
        autocompletion=_complete_assignment,
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"gemma4 {version('gemma4')}")
        except PackageNotFoundError:
            print("gemma4, from a checkout that is not installed")
        raise typer.Exit


@app.callback()
def gemma4(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """What stands before every command."""


@app.command(
    epilog=_examples(
        "plan l4",
        "plan l4 --set serving.maxModelLen=16384 --set profile=throughput",
        "plan l4 --diff rtx6000",
        "plan l4 --json --no-resources | jq .capacity",
    )
)
def plan(
    stack: Stack,
    assignments: Assignments = None,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="STACK_OR_JSON",
            help="Show what changes against another stack, or a plan saved with --json.",
            autocompletion=_complete_stack,
        ),
    ] = None,
    resources: Annotated[
        bool, typer.Option("--resources/--no-resources", help="List every resource the program would create.")
    ] = True,
) -> None:
    """Decide, price and judge a stack.

    Offline: memory, capacity, speed, start, cost, access, the exact vLLM command, and every resource that the real
    program would create. Exit codes: 0 planned, 2 bad settings, 3 refused because it cannot work.
    """
    from infra.ops.plan_command import show_plan

    if as_json and markdown:
        raise SettingsError.of("--markdown", "cannot be combined with --json.", fix="Choose one of them.")
    refused = show_plan(stack, assignments or [], as_json=as_json, markdown=markdown, diff=diff, resources=resources)
    if refused:
        raise typer.Exit(REFUSED)


@app.command(epilog=_examples("stacks", "stacks --json"))
def stacks(as_json: AsJson = False) -> None:
    """List the stack files here.

    One line each: model, accelerator, place, verdict, capacity and $/hour; a file that cannot be read says why.
    """
    from infra.ops.plan_command import show_stacks

    show_stacks(as_json=as_json)


@app.command(
    epilog=_examples(
        "explain serving.maxModelLen", "explain tpu", "explain", "explain gemma-4-31b-it", "explain --max-model-len"
    ),
    context_settings={"ignore_unknown_options": True},  # a flag of vLLM may be asked for
)
def explain(
    key: Annotated[
        list[str] | None,
        typer.Argument(
            help="A setting, e.g. serving.maxModelLen; a group lists its members. Or a model, a machine, a flag of vLLM, "
            "a word of the plan.",
            autocompletion=_complete_key,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a setting means.

    Meaning, type, default, range, and a line to copy; a group lists its members, without a key all are listed.
    """
    from infra.ops.explain import show_setting

    show_setting(" ".join(key or []), as_json=as_json)


@app.command(
    epilog=_examples(
        "recommend --users 8",
        "recommend --model 31b --context 32768 --users 16 --min-tokens-per-second 15",
        "recommend --max-usd-per-hour 2 --json",
    )
)
def recommend(
    model: Annotated[str | None, typer.Option(help="Catalog id, or a part of it; default: all models.")] = None,
    context: Annotated[int, typer.Option(help="Longest prompt plus answer, tokens.", min=256, max=10**9)] = 8192,
    users: Annotated[int, typer.Option(help="Requests that run at once.", min=1, max=10**6)] = 1,
    max_usd_per_hour: Annotated[float | None, typer.Option(help="Most dollars an hour while running.", min=0)] = None,
    min_tokens_per_second: Annotated[
        float | None, typer.Option(help="Least tokens a second for each user; default: 5, as people read.", min=0)
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(help="Typical prompt, tokens.", min=1, max=10**9)] = 1024,
    output_tokens: Annotated[int, typer.Option(help="Typical answer, tokens.", min=1, max=10**9)] = 256,
    top: Annotated[int, typer.Option(help="Rows to print.", min=1, max=10**6)] = 10,
    as_json: AsJson = False,
) -> None:
    """Rank what could serve a need.

    Plans every model of the catalog on every machine, drops what does not fit, is too slow or too dear, and ranks the
    rest by price. Exit code 3: nothing meets the need.
    """
    from infra.ops.recommend_command import show_recommendations
    from infra.planning.recommend import Need

    need = Need(model, context, users, max_usd_per_hour, min_tokens_per_second, prompt_tokens, output_tokens)
    if not show_recommendations(need, top=top, as_json=as_json):
        raise typer.Exit(REFUSED)


@app.command(epilog=_examples("status l4"))
def status(stack: Stack, as_json: AsJson = False) -> None:
    """Show what the last check measured.

    Beside the predictions: first token, tokens a second, KV cache, vLLM version. Reads the stack's state, wakes nothing.
    """
    from infra.ops.status_command import show_status

    show_status(stack, as_json=as_json)


@app.command(epilog=_examples("pin", "pin gpu gemma-4-12b-it-qat-w4a16"))
def pin(
    names: Annotated[
        list[str] | None, typer.Argument(help="Ids of images, models or assistants; default: all.")
    ] = None,
) -> None:
    """Fix images and models to what they are now.

    Resolves tags to digests and models to commits, online, and writes them into the catalog's lock file. HF_TOKEN may
    be needed in the environment.
    """
    from infra.ops.pin_command import pin as pin_all

    if pin_all(names or []):
        raise typer.Exit(1)


@app.command(epilog=_examples("zones v6e4", "zones --accelerator v6e-8 --all"))
def zones(
    stack: Annotated[
        str | None,
        typer.Argument(help="A stack whose accelerator and project to use.", autocompletion=_complete_stack),
    ] = None,
    accelerator: Annotated[str | None, typer.Option(help="v6e-1, v6e-4 or v6e-8; default: the stack's.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also zones that are not known to take flex-start.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show where TPU capacity can be asked for.

    Zones that list the accelerator and take flex-start, with the quotas there and what this project's requests hold of
    them. Exit code 3: no zone has room; 1: none could be asked.
    """
    from infra.ops.tpu_commands import show_zones

    if not show_zones(stack, accelerator, every=every, as_json=as_json):
        raise typer.Exit(REFUSED)


tpu = typer.Typer(no_args_is_help=True, help="TPU slices: how they are, and what they left behind.")
app.add_typer(tpu, name="tpu")


@tpu.command("status", epilog=_examples("tpu status v6e4"))
def tpu_status(stack: Stack, as_json: AsJson = False) -> None:
    """Show how each slice of a stack is.

    Its place in the queue, its machine, what the supervisor there is doing, the time left, and what to do next; and what
    else the stack pays for. Exit code 1: not every slice serves what is planned.
    """
    from infra.ops.tpu_commands import show_status

    if not show_status(stack, as_json=as_json):
        raise typer.Exit(1)


@tpu.command("husks", epilog=_examples("tpu husks v6e4", "tpu husks v6e4 --delete"))
def tpu_husks(
    stack: Annotated[
        str | None,
        typer.Argument(help="A stack whose project to look at, and whose to delete.", autocompletion=_complete_stack),
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the stack's, or without a stack those of all of this program's.")
    ] = False,
    everybody: Annotated[bool, typer.Option("--everybody", help="With --delete: all, whoever made them.")] = False,
    as_json: AsJson = False,
) -> None:
    """List requests that have ended.

    FAILED and SUSPENDED ones serve nothing, and hold quota until they are deleted. Exit code 1: one could not be.
    """
    from infra.ops.tpu_commands import show_husks

    if not show_husks(stack, delete=delete, everybody=everybody, as_json=as_json):
        raise typer.Exit(1)


def main() -> NoReturn:
    """Entry point of the `gemma4` command."""
    gc.disable()  # a tenth of a plan's time goes into looking through modules for garbage; a command ends before it counts
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
                print(f"failed: {_in_words(error)}", file=sys.stderr)
            return FAILED
    return code


def _answer(words: list[str]) -> int:
    try:
        code = app(args=words, prog_name="gemma4", standalone_mode=False)
    except SystemExit as end:  # of completion
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except SettingsError as error:
        return _report(error, error.faults, "bad settings", BAD_SETTINGS, words)
    except RefusedError as error:
        return _report(error, error.faults, "refused", REFUSED, words)
    except Gemma4Error as error:
        return _report(error, (), "failed", FAILED, words)
    except TyperException as error:
        return _misused(error, words)
    except BrokenPipeError:
        raise
    except (OSError, UnicodeError, RecursionError, MemoryError, json.JSONDecodeError) as error:
        _trace()
        fix = " Print it instead with: gemma4 --show-completion" if "--install-completion" in words else ""
        return _report(Gemma4Error(_in_words(error) + fix), (), "failed", FAILED, words)
    except Exception as error:
        _trace()
        return _report(Gemma4Error(_own_fault(error)), (), "failed", FAILED, words)
    return code if isinstance(code, int) else 0


def _in_words(error: Exception) -> str:
    """What the system refused, with the file it is about and what may help."""
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


def _own_fault(error: Exception) -> str:
    """A fault of this program: what and where, without the traceback."""
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name} line {last.lineno}"
    return (
        f"this is a fault of gemma4 itself ({type(error).__name__}: {error}; {where}), so there is no answer; "
        f"report it with what the same command prints under {TRACEBACK}=1."
    )


def _trace() -> None:
    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exc()


def _misused(error: TyperException, words: Sequence[str]) -> int:
    """Print the help that was asked for by typing nothing, or what is wrong with what was typed."""
    if not words or error.message.startswith("Usage:"):
        print(error.message, file=sys.stderr)
        return BAD_SETTINGS
    from infra.ops.usage import usage_fault

    fault = usage_fault(error, words)
    if "--json" in words:
        return _report(SettingsError([fault]), [fault], "bad settings", BAD_SETTINGS, words)
    if context := getattr(error, "ctx", None):
        print(f"{context.get_usage()}\nTry '{context.command_path} -h' for help.\n", file=sys.stderr)
    print(f"Error: {fault}", file=sys.stderr)
    return BAD_SETTINGS


def _report(error: Gemma4Error, faults: Sequence[Fault], verdict: str, code: int, words: Sequence[str]) -> int:
    if "--json" in words:
        from infra.ops.output import print_json

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
