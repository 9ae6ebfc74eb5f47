"""What changes a stack that runs: pause, resume."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.ops.command_line.options import AsJson, Stack, examples
from infra.ops.command_line.root import CHANGING, app

Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Do it without being asked; without it, --json only says what would be done."),
]


@app.command(rich_help_panel=CHANGING, epilog=examples("pause v6e4", "pause v6e4 --yes", "pause l4 --json"))
def pause(stack: Stack, yes: Yes = False, as_json: AsJson = False) -> None:
    """Stop paying by the hour, and keep the rest.

    TPU slices are given back and no instance is kept warm; weights, images, accounts and the address stay. Says first what
    that saves and what it takes to come back, asks, then writes the setting paused and runs `pulumi up`. Interrupted, it
    says what is left to run.
    """
    from infra.ops.changing.pause import show_pause

    show_pause(stack, paused=True, yes=yes, as_json=as_json)


@app.command(rich_help_panel=CHANGING, epilog=examples("resume v6e4", "resume v6e4 --yes"))
def resume(stack: Stack, yes: Yes = False, as_json: AsJson = False) -> None:
    """Go on after a pause.

    Takes the setting paused away and runs `pulumi up`: slices of the same names are asked for again, instances are kept warm
    again. Says first what that costs and how long it takes.
    """
    from infra.ops.changing.pause import show_pause

    show_pause(stack, paused=False, yes=yes, as_json=as_json)
