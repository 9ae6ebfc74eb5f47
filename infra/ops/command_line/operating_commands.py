"""What is asked of a stack that runs: status, check."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.errors import SettingsError
from infra.ops.command_line.options import AsJson, OptionalStack, Stack, Url, examples
from infra.ops.command_line.root import OPERATING, app
from infra.ops.terminal.error_output import FAILED


@app.command(
    rich_help_panel=OPERATING,
    epilog=examples("status l4", "status l4 --as-row >> my-runs.jsonl", "scorecard my-runs.jsonl"),
)
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
        str | None, typer.Option("--slice", metavar="NAME", help="Check only this TPU slice; default: each of them.")
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
