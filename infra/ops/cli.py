"""The `gemma4` command: one verb a question. Thin shells over the rest; what a verb needs is imported inside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from infra.errors import Fault, Gemma4Error, RefusedError, SettingsError

BAD_SETTINGS = 2
REFUSED = 3

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


Stack = Annotated[
    str, typer.Argument(help="Name of a stack file: l4 means Pulumi.l4.yaml.", autocompletion=_complete_stack)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data for machines instead of text.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Lay a value over the stack file, e.g. --set serving.maxModelLen=4096. Repeatable.",
    ),
]


@app.command()
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
        ),
    ] = None,
    resources: Annotated[
        bool, typer.Option("--resources/--no-resources", help="List every resource the program would create.")
    ] = True,
) -> None:
    """Decide, price and judge a stack, offline: memory, capacity, speed, start, cost, command and resources."""
    from infra.ops.plan_command import show_plan

    if as_json and markdown:
        raise SettingsError.of("--markdown", "cannot be combined with --json.", fix="Choose one of them.")
    refused = show_plan(stack, assignments or [], as_json=as_json, markdown=markdown, diff=diff, resources=resources)
    if refused:
        raise typer.Exit(REFUSED)


@app.command()
def stacks(as_json: AsJson = False) -> None:
    """List the stack files here: model, accelerator, verdict, capacity, $/hour."""
    from infra.ops.plan_command import show_stacks

    show_stacks(as_json=as_json)


@app.command()
def explain(
    key: Annotated[
        str,
        typer.Argument(
            help="A setting, e.g. serving.maxModelLen; a group lists its members.", autocompletion=_complete_key
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Say what a setting means, its type, default and range; without a key, list them all."""
    from infra.ops.explain import show_setting

    show_setting(key, as_json=as_json)


@app.command()
def recommend(
    model: Annotated[str | None, typer.Option(help="Catalog id, or a part of it; default: all models.")] = None,
    context: Annotated[int, typer.Option(help="Longest prompt plus answer, tokens.", min=256)] = 8192,
    users: Annotated[int, typer.Option(help="Requests that run at once.", min=1)] = 1,
    max_usd_per_hour: Annotated[float | None, typer.Option(help="Most dollars an hour while running.", min=0)] = None,
    min_tokens_per_second: Annotated[
        float | None, typer.Option(help="Least tokens a second for each user.", min=0)
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(help="Typical prompt, tokens.", min=1)] = 1024,
    output_tokens: Annotated[int, typer.Option(help="Typical answer, tokens.", min=1)] = 256,
    top: Annotated[int, typer.Option(help="Rows to print.", min=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """Rank what the catalog could serve for a need: fits, speed, cost. Predictions, with their bands."""
    from infra.ops.recommend_command import show_recommendations
    from infra.planning.recommend import Need

    need = Need(model, context, users, max_usd_per_hour, min_tokens_per_second, prompt_tokens, output_tokens)
    if not show_recommendations(need, top=top, as_json=as_json):
        raise typer.Exit(REFUSED)


def main() -> NoReturn:
    """Entry point of the `gemma4` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; a fault that a user can mend is printed without a traceback."""
    try:
        app(args=list(arguments), prog_name="gemma4")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except SettingsError as error:
        return _report(error, error.faults, "bad settings", BAD_SETTINGS, arguments)
    except RefusedError as error:
        return _report(error, error.faults, "refused", REFUSED, arguments)
    except Gemma4Error as error:
        return _report(error, (), "failed", 1, arguments)
    return 0


def _report(error: Gemma4Error, faults: Sequence[Fault], verdict: str, code: int, arguments: Sequence[str]) -> int:
    if "--json" in arguments:
        listed = [{"key": f.key, "fact": f.fact, "consequence": f.consequence, "fix": f.fix} for f in faults]
        print(json.dumps({"schema": 1, "verdict": verdict, "error": str(error), "faults": listed}, indent=2))
    elif len(faults) > 1:
        print(f"{verdict}, {len(faults)} things to mend; nothing was planned or created:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in str(error).splitlines()), file=sys.stderr)
    else:
        print(f"{verdict}: {error}", file=sys.stderr)
    return code
