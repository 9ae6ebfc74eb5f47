"""What is asked of a stack that runs: status."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.errors import SettingsError
from infra.ops.command_line.options import AsJson, Stack, examples
from infra.ops.command_line.root import OPERATING, app


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
