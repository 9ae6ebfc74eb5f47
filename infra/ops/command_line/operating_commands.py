"""What is asked of a stack that runs: status, check, cost."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.errors import SettingsError
from infra.ops.command_line.options import AsJson, OptionalStack, Stack, Url, examples
from infra.ops.command_line.root import OPERATING, app
from infra.ops.terminal.error_output import FAILED


@app.command(
    rich_help_panel=OPERATING,
    epilog=examples(
        "status l4",
        "status v6e4 --json | jq .serving",
        "status --url http://127.0.0.1:8000",
        "status l4 --as-row >> my-runs.jsonl",
        "scorecard my-runs.jsonl",
    ),
)
def status(
    stack: OptionalStack = None,
    url: Url = None,
    as_json: AsJson = False,
    as_row: Annotated[
        bool,
        typer.Option("--as-row", help="Print the measured memory, speed and first token as rows for gemma4 scorecard."),
    ] = False,
) -> None:
    """Show what runs now, and what the last check measured.

    Revision, traffic and instances of a service, or each TPU slice or machine and the end of its run; the last check
    beside its prediction; whether the files here plan what is deployed; the cost since the last up; what to type next. It
    asks Google and the stack's state, never the server, so it wakes none; --url asks the server. Exit codes: 0 it serves
    as planned, scaled to zero included where that is planned; 1 it does not, or nobody could be asked.
    """
    from infra.ops.commands.status import print_rows, show_status

    if as_json and as_row:
        raise SettingsError.of("--as-row", "cannot be combined with --json.", fix="Choose one of them.")
    if as_row and (stack is None or url is not None):
        raise SettingsError.of("--as-row", "needs a stack, whose last check becomes rows.", fix="Name one, e.g. l4.")
    if as_row and stack is not None:
        print_rows(stack)
    elif not show_status(stack, url, as_json=as_json):
        raise typer.Exit(FAILED)


@app.command(
    rich_help_panel=OPERATING,
    epilog=examples(
        "check l4",
        "check v6e4 --slice blue",
        "check --url http://127.0.0.1:8000",
        "check l4 --json | jq '.servers[].figures'",
    ),
)
def check(
    stack: OptionalStack = None,
    url: Url = None,
    slice_name: Annotated[
        str | None, typer.Option("--slice", metavar="NAME", help="Check only this slice or server; default: each.")
    ] = None,
    wait_s: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            help="How long to wait until the server is ready; default: as planned, of a URL 30.",
            min=0,
            max=86_400,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove again that a server does what is planned.

    The check of `pulumi up`, on demand and through the URL that users call: readiness, a chat, adapters, reasoning, tools,
    each modality, speed and KV cache, as far as they are planned; of a URL, as far as the server takes them. It starts a
    server that has scaled to zero and waits for it. Exit codes: 0 passed, 1 failed, with stage, likely cause and fix.
    """
    from infra.ops.commands.check_again import show_check

    if not show_check(stack, url, slice_name=slice_name, wait_s=wait_s, as_json=as_json):
        raise typer.Exit(FAILED)


@app.command(
    rich_help_panel=OPERATING,
    epilog=examples("cost l4", "cost l4 --hours-a-day 12", "cost v6e4 --month 2026-10", "cost l4 --json | jq .whatIf"),
)
def cost(
    stack: Stack,
    hours_a_day: Annotated[
        float, typer.Option("--hours-a-day", help="What if it runs so many hours a day.", min=0, max=24)
    ] = 8,
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="Which month to add up; default: this one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a stack has cost this month, and what it would cost.

    Running time of instances, slices and gateway as Cloud Monitoring and Google's records have it, and what is stored, at
    the list prices of the catalog; the same for the whole month and since the last up; and a month of so many hours a day,
    which needs neither network nor deployment. What nobody can know is said. Exit code 0 also where only that is known.
    """
    from infra.ops.commands.cost_so_far import show_cost

    show_cost(stack, hours_a_day=hours_a_day, month=month, as_json=as_json)
