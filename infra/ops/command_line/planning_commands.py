"""What is asked before anything is deployed: plan, stacks, models, machines, explain, recommend, scorecard, pin, preflight."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from infra.errors import SettingsError
from infra.ops.command_line.options import AsJson, Assignments, Stack, examples, offer
from infra.ops.command_line.root import PLANNING, app
from infra.ops.terminal.error_output import REFUSED

Order = Literal["price", "tokens", "speed"]


@app.command(
    rich_help_panel=PLANNING,
    epilog=examples(
        "plan l4",
        "plan l4 --set serving.maxModelLen=16384 --set profile=throughput",
        "plan l4 --diff rtx6000",
        "plan l4 --command",
        "plan l4 --json --no-resources | jq .capacity",
    ),
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
            autocompletion=offer("stacks"),
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


@app.command(rich_help_panel=PLANNING, epilog=examples("stacks", "stacks --json"))
def stacks(as_json: AsJson = False) -> None:
    """List the stack files here.

    One line each: model, accelerator, place, verdict, capacity and $/hour; a file that cannot be read says why.
    """
    from infra.ops.commands.stack_list import show_stacks

    show_stacks(as_json=as_json)


@app.command(rich_help_panel=PLANNING, epilog=examples("models", "models --json"))
def models(as_json: AsJson = False) -> None:
    """List the models that there are.

    One line each: parameters, weights, longest context, and the cheapest machine that it can be deployed on at the
    defaults.
    """
    from infra.ops.commands.catalog_lists import show_models

    show_models(as_json=as_json)


@app.command(rich_help_panel=PLANNING, epilog=examples("machines", "machines --json"))
def machines(as_json: AsJson = False) -> None:
    """List the machines that there are.

    One line each: devices and their memory, $/hour, platform, where it is, and the largest model that fits at the
    defaults.
    """
    from infra.ops.commands.catalog_lists import show_machines

    show_machines(as_json=as_json)


@app.command(
    rich_help_panel=PLANNING,
    epilog=examples(
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
            autocompletion=offer("keys"),
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
    rich_help_panel=PLANNING,
    epilog=examples(
        "recommend --users 8",
        "recommend --model 31b --context 32768 --users 16 --min-tokens-per-second 15",
        "recommend --users 64 --prompt-tokens 3000 --order tokens --may-end --min-quality 75",
        "recommend --max-usd-per-hour 2 --json",
    ),
)
def recommend(
    model: Annotated[
        str | None,
        typer.Option(help="Catalog id, or a part of it; default: all models.", autocompletion=offer("models")),
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


@app.command(
    rich_help_panel=PLANNING,
    epilog=examples("scorecard", "scorecard my-runs.jsonl", "scorecard my-runs.jsonl --json | jq .sets"),
)
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
    rich_help_panel=PLANNING,
    epilog=examples(
        "pin", "pin gpu gemma-4-12b-it-qat-w4a16", "pin acme/gemma-4-12b-support", "pin --folder ~/tuned acme/tuned"
    ),
)
def pin(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of images, models or assistants (default: all), or checkpoints: OWNER/NAME, OWNER/NAME@COMMIT, "
            "gs://BUCKET/PREFIX.",
            autocompletion=offer("pins"),
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


@app.command(
    rich_help_panel=PLANNING,
    epilog=examples(
        "preflight l4",
        "preflight v6e4 --only quota --only machine",
        "preflight l4 --only permissions",
        "preflight l4 --json | jq '.obstacles[] | .fix[]'",
    ),
)
def preflight(
    stack: Stack,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="CHECK",
            help="Ask only this, by the id in --json, or by the first word of several: quota, image, org. Repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask what would stop `pulumi up`.

    Asks Google, the registries and Hugging Face about everything that the plan lists, before anything is paid for:
    credentials, billing, APIs, permissions, quotas, machine, images, weights, names. Prints what is in the way with the
    command that mends it. Creates nothing. Exit codes: 0 all green, 3 something would stop it, 1 not all could be asked.
    """
    from infra.ops.commands.preflight import show_preflight

    if code := show_preflight(stack, only, as_json=as_json):
        raise typer.Exit(code)
