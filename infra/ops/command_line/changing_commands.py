"""What changes a stack that runs: pause, resume, renew, rollback."""

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

    TPU slices and machines are given back and no instance is kept warm; weights, images, accounts and the address stay. Says
    first what that saves and what it takes to come back, asks, then writes the setting paused and runs `pulumi up`.
    Interrupted, it says what is left to run.
    """
    from infra.ops.changing.pause import show_pause

    show_pause(stack, paused=True, yes=yes, as_json=as_json)


@app.command(rich_help_panel=CHANGING, epilog=examples("resume v6e4", "resume v6e4 --yes"))
def resume(stack: Stack, yes: Yes = False, as_json: AsJson = False) -> None:
    """Go on after a pause.

    Takes the setting paused away and runs `pulumi up`: slices or machines of the same names are asked for again, instances
    are kept warm again. Says first what that costs and how long it takes. Exit code 2: the list of names is empty, so there
    is nothing to bring back.
    """
    from infra.ops.changing.pause import show_pause

    show_pause(stack, paused=False, yes=yes, as_json=as_json)


@app.command(
    rich_help_panel=CHANGING,
    epilog=examples("renew v6e4", "renew v6e4 --dry-run", "renew v6e4 --yes", "renew v6e4 --before 7d"),
)
def renew(
    stack: Stack,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Renew what ends within this time, e.g. 3h; default: the longest wait and start by the plan, and an hour.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is due and what would be run.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Replace a machine before Google ends it.

    A flex-start machine ends by itself. This asks until when each runs, and does nothing while there is time. When the plan's
    longest wait in the queue and longest start leave an hour in reserve, it runs `pulumi up` so that the next machine is asked
    for, serves and is checked before the old one is drained and deleted. What has ended is asked for again; what is under way
    is gone on with; one machine at a time, where that suffices. Made for a schedule (docs/tasks/renew-slices.md). Exit code 0:
    nothing was due, or it was done; 1: it failed, and the old machine serves on; 3: machines end too soon to be renewed.
    """
    from infra.ops.changing.renew import show_renewal

    show_renewal(stack, before=before, dry_run=dry_run, yes=yes, as_json=as_json)


@app.command(
    rich_help_panel=CHANGING,
    epilog=examples(
        "rollback l4", "rollback l4 --to gemma4-l4-00002-abc", "rollback l4 --newest", "rollback v6e4 --yes"
    ),
)
def rollback(
    stack: Stack,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="REVISION",
            help="Go to this revision, or to the specification with this hash; default: the one before.",
        ),
    ] = None,
    newest: Annotated[
        bool, typer.Option("--newest", help="Return to what was deployed last, after a rollback.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Go back to what was served before, and check it.

    On Cloud Run an earlier revision gets all requests; on TPU the slices switch back in place to the specification that the
    last `pulumi up` replaced. Says first what changes, asks, does it, and runs the serving check on the result. The stack
    file stays as it is: mend it before the next `pulumi up`. Exit code 1: the check failed.
    """
    from infra.ops.changing.rollback import show_rollback

    if not show_rollback(stack, to=to, newest=newest, yes=yes, as_json=as_json):
        raise typer.Exit(1)
