"""The `gemma4` command: one verb a question. Thin shells over the rest; what a verb needs is imported inside it."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Literal, NoReturn

import typer
from typer.exceptions import TyperException

from infra.errors import Gemma4Error, RefusedError, SettingsError
from infra.ops.terminal.error_output import (
    BAD_SETTINGS,
    FAILED,
    REFUSED,
    in_words,
    misused,
    own_fault,
    report,
    show_traceback,
)
from infra.ops.terminal.safe_output import abandon_output, safe_output

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Serve Gemma 4 with vLLM on Google Cloud: decide, price and check everything before anything is paid for.",
    epilog="Exit codes: 0 planned, 2 bad settings, 3 refused because it cannot work.",
)


def _offer(kind: str) -> Callable[[str], list[str]]:
    """Return the completion of that name; its module is imported only when the shell asks for words."""

    def offer(incomplete: str) -> list[str]:
        from infra.ops.terminal import completions

        offered: list[str] = getattr(completions, kind)(incomplete)
        return offered

    return offer


def _examples(*lines: str) -> str:
    """Return examples as an epilog that the help prints line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  gemma4 {line}" for line in lines)


Order = Literal["price", "tokens", "speed"]
Stack = Annotated[
    str, typer.Argument(help="Name of a stack file: l4 means Pulumi.l4.yaml.", autocompletion=_offer("stacks"))
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data for machines instead of text.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Lay a value over the stack file, e.g. --set serving.maxModelLen=4096; null takes it away. Repeatable.",
        autocompletion=_offer("assignments"),
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
    """Take the options that stand before a command."""


@app.command(
    epilog=_examples(
        "plan l4",
        "plan l4 --set serving.maxModelLen=16384 --set profile=throughput",
        "plan l4 --diff rtx6000",
        "plan l4 --command",
        "plan l4 --json --no-resources | jq .capacity",
    )
)
def plan(
    stack: Stack,
    assignments: Assignments = None,
    full: Annotated[bool, typer.Option("--full", help="Print everything, not only what fits on a screen.")] = False,
    command: Annotated[bool, typer.Option("--command", help="Print only the server's command, to paste.")] = False,
    resources: Annotated[
        bool | None,
        typer.Option("--resources/--no-resources", help="Print only the resources; or leave them out of other forms."),
    ] = None,
    notes: Annotated[bool, typer.Option("--notes", help="Print only the warnings and the notes.")] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="STACK_OR_JSON",
            help="Print what changes against another stack, or a plan saved with --json.",
            autocompletion=_offer("stacks"),
        ),
    ] = None,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")] = False,
) -> None:
    """Decide, price and judge a stack.

    Offline. Prints the verdict and why, price, speed, capacity, start, quotas, what is still to do, and what to type
    next. Exit codes: 0 planned, 2 bad settings, 3 refused because it cannot work.
    """
    from infra.ops.commands.plan import Part, show_plan

    forms: dict[Part, bool] = {
        "full": full,
        "command": command,
        "notes": notes,
        "resources": bool(resources) and not (full or as_json or markdown),  # these hold them anyway
        "json": as_json,
        "markdown": markdown,
    }
    chosen = [name for name, wanted in forms.items() if wanted]
    part = chosen[0] if chosen else "screen"
    comparison = ["diff"] if diff is not None and part not in ("screen", "json", "markdown") else []
    if len(said := [*chosen, *comparison]) > 1:
        raise SettingsError.of(f"--{said[1]}", f"cannot be combined with --{said[0]}.", fix="Choose one of them.")
    if show_plan(stack, assignments or [], part=part, diff=diff, resources=resources):
        raise typer.Exit(REFUSED)


@app.command(epilog=_examples("stacks", "stacks --json"))
def stacks(as_json: AsJson = False) -> None:
    """List the stack files here.

    One line each: model, accelerator, place, verdict, capacity and $/hour; a file that cannot be read says why.
    """
    from infra.ops.commands.plan import show_stacks

    show_stacks(as_json=as_json)


@app.command(epilog=_examples("models", "models --json"))
def models(as_json: AsJson = False) -> None:
    """List the models that there are.

    One line each: parameters, weights, longest context, and the cheapest machine that it can be deployed on at the
    defaults.
    """
    from infra.ops.commands.catalog_lists import show_models

    show_models(as_json=as_json)


@app.command(epilog=_examples("machines", "machines --json"))
def machines(as_json: AsJson = False) -> None:
    """List the machines that there are.

    One line each: devices and their memory, $/hour, platform, where it is, and the largest model that fits at the
    defaults.
    """
    from infra.ops.commands.catalog_lists import show_machines

    show_machines(as_json=as_json)


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
            autocompletion=_offer("keys"),
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a setting means.

    Meaning, type, default, range, and a line to copy; a group lists its members, without a key all are listed.
    """
    from infra.ops.commands.explain import show_setting

    show_setting(" ".join(key or []), as_json=as_json)


@app.command(
    epilog=_examples(
        "recommend --users 8",
        "recommend --model 31b --context 32768 --users 16 --min-tokens-per-second 15",
        "recommend --users 64 --prompt-tokens 3000 --order tokens --may-end --min-quality 75",
        "recommend --max-usd-per-hour 2 --json",
    )
)
def recommend(
    model: Annotated[
        str | None,
        typer.Option(help="Catalog id, or a part of it; default: all models.", autocompletion=_offer("models")),
    ] = None,
    context: Annotated[int, typer.Option(help="Longest prompt plus answer, tokens.", min=256, max=10**9)] = 8192,
    users: Annotated[int, typer.Option(help="Requests that run at once.", min=1, max=10**6)] = 1,
    max_usd_per_hour: Annotated[float | None, typer.Option(help="Most dollars an hour while running.", min=0)] = None,
    min_tokens_per_second: Annotated[
        float | None, typer.Option(help="Least tokens a second for each user; default: 5, as people read.", min=0)
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(help="Typical prompt, tokens.", min=1, max=10**9)] = 1024,
    output_tokens: Annotated[int, typer.Option(help="Typical answer, tokens.", min=1, max=10**9)] = 256,
    min_quality: Annotated[
        float | None,
        typer.Option(
            help="Least MMLU-Pro score in percent, as published of the bf16 weights: E2B 60.0, E4B 69.4, 12B 77.2, 26B-A4B "
            "82.6, 31B 85.2. With it price alone ranks.",
            min=0,
            max=100,
        ),
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="Requests carry images; without it a text-only start may make room.")
    ] = False,
    may_end: Annotated[
        bool, typer.Option("--may-end", help="The machine may end by itself (flex-start, 24 h), as for a batch.")
    ] = False,
    order: Annotated[
        Order,
        typer.Option(
            help="What ranks: $/hour, $ a million tokens, or a stream's speed (twice of it is worth four times the price)."
        ),
    ] = "price",
    top: Annotated[int, typer.Option(help="Rows to print.", min=1, max=10**6)] = 10,
    as_json: AsJson = False,
) -> None:
    """Rank what could serve a need.

    Plans every model of the catalog on every machine with its variants (KV cache type, fp8, MTP, text only, replicas),
    drops what does not fit, is too slow or too dear, and ranks the rest by price, ten points of published score counting
    as half the price; each row says why it stands there. Exit code 3: nothing meets the need.
    """
    from infra.ops.commands.recommend import show_recommendations
    from infra.planning.candidates import Need

    need = Need(
        model,
        context,
        users,
        max_usd_per_hour,
        min_tokens_per_second,
        prompt_tokens,
        output_tokens,
        min_quality,
        images,
        may_end,
        order,
    )
    if not show_recommendations(need, top=top, as_json=as_json):
        raise typer.Exit(REFUSED)


@app.command(epilog=_examples("status l4", "status l4 --as-row >> my-runs.jsonl", "scorecard my-runs.jsonl"))
def status(
    stack: Stack,
    as_json: AsJson = False,
    as_row: Annotated[
        bool,
        typer.Option("--as-row", help="Print the measured memory, speed and first token as rows for gemma4 scorecard."),
    ] = False,
) -> None:
    """Show what the last check measured.

    Beside the predictions: first token, tokens a second, KV cache, vLLM version. Reads the stack's state, wakes nothing.
    """
    from infra.ops.commands.status import print_rows, show_status

    if as_json and as_row:
        raise SettingsError.of("--as-row", "cannot be combined with --json.", fix="Choose one of them.")
    if as_row:
        print_rows(stack)
    else:
        show_status(stack, as_json=as_json)


@app.command(epilog=_examples("scorecard", "scorecard my-runs.jsonl", "scorecard my-runs.jsonl --json | jq .sets"))
def scorecard(
    file: Annotated[
        str | None,
        typer.Argument(help="Rows of runs as JSON, or one row a line; default: those that ship with this program."),
    ] = None,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/scorecard.md.")] = False,
) -> None:
    """Compare predictions with runs that were published.

    Predicts each row from its description alone: machine, flags, shape. Prints the errors and the share of runs inside
    the predicted band, for each set of rows, and the rows outside. Offline. docs/scorecard.md says how to write a row.
    """
    from infra.ops.commands.scorecard import show_scorecard

    if as_json and markdown:
        raise SettingsError.of("--markdown", "cannot be combined with --json.", fix="Choose one of them.")
    show_scorecard(file, as_json=as_json, markdown=markdown)


@app.command(
    epilog=_examples(
        "pin", "pin gpu gemma-4-12b-it-qat-w4a16", "pin acme/gemma-4-12b-support", "pin --folder ./tuned acme/tuned"
    )
)
def pin(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of images, models or assistants (default: all), or checkpoints: OWNER/NAME, OWNER/NAME@COMMIT, "
            "gs://BUCKET/PREFIX.",
            autocompletion=_offer("pins"),
        ),
    ] = None,
    folder: Annotated[
        str | None, typer.Option("--folder", help="Read the checkpoint that is named from this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fix images, models and checkpoints to what they are now.

    Resolves tags to digests and models to commits, online, and writes them into the catalog's lock file. Of a checkpoint
    the headers are read, not the weights: architecture, format and sizes go into checkpoints.lock.json beside the stack
    files. HF_TOKEN may be needed in the environment.
    """
    from infra.ops.commands.pin import pin as pin_all

    if pin_all(names or [], folder=folder, as_json=as_json):
        raise typer.Exit(1)


@app.command(epilog=_examples("zones v6e4", "zones --accelerator v6e-8 --all"))
def zones(
    stack: Annotated[
        str | None,
        typer.Argument(help="A stack whose accelerator and project to use.", autocompletion=_offer("stacks")),
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option(help="v6e-1, v6e-4 or v6e-8; default: the stack's.", autocompletion=_offer("tpus"))
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also zones that are not known to take flex-start.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show where TPU capacity can be asked for.

    Zones that list the accelerator and take flex-start, with the quotas there and what this project's requests hold of
    them. Exit code 3: no zone has room; 1: none could be asked.
    """
    from infra.ops.tpu.tpu_commands import show_zones

    if not show_zones(stack, accelerator, every=every, as_json=as_json):
        raise typer.Exit(REFUSED)


tpu = typer.Typer(no_args_is_help=True, help="Show the state of TPU slices, and requests that have ended.")
app.add_typer(tpu, name="tpu")


@tpu.command("status", epilog=_examples("tpu status v6e4"))
def tpu_status(stack: Stack, as_json: AsJson = False) -> None:
    """Show the state of each slice of a stack.

    Its place in the queue, its machine, what the supervisor there is doing, the time left, and what to do next; and what
    else the stack pays for. Exit code 1: not every slice serves what is planned.
    """
    from infra.ops.tpu.tpu_commands import show_slices

    if not show_slices(stack, as_json=as_json):
        raise typer.Exit(1)


@tpu.command("ended", epilog=_examples("tpu ended v6e4", "tpu ended v6e4 --delete"))
def tpu_ended(
    stack: Annotated[
        str | None,
        typer.Argument(
            help="A stack, whose project is asked; --delete deletes its requests only.", autocompletion=_offer("stacks")
        ),
    ] = None,
    delete: Annotated[
        bool,
        typer.Option("--delete", help="Delete the ended requests of the stack; without a stack, of all gemma4 stacks."),
    ] = False,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="With --delete: all, also those that gemma4 did not make.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List requests that have ended.

    Requests that are FAILED or SUSPENDED serve nothing, and hold quota until they are deleted. Exit code 1: one could not
    be deleted.
    """
    from infra.ops.tpu.tpu_commands import show_ended_requests

    if not show_ended_requests(stack, delete=delete, everybody=everybody, as_json=as_json):
        raise typer.Exit(1)


def main() -> NoReturn:
    """Run the command line of this process and end the process with its exit code."""
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
                print(f"failed: {in_words(error)}", file=sys.stderr)
            return FAILED
    return code


def _answer(words: list[str]) -> int:
    try:
        code = app(args=words, prog_name="gemma4", standalone_mode=False)
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
    except typer.Abort:
        return FAILED
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
