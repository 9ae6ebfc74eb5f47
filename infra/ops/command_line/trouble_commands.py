"""What logs and conditions say of a stack: logs."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.ops.command_line.options import AsJson, OptionalStack, Url, examples
from infra.ops.command_line.root import OPERATING, app


@app.command(
    rich_help_panel=OPERATING,
    epilog=examples(
        "logs l4",
        "logs l4 --errors --since 1d",
        "logs v6e4 --slice blue --follow",
        "logs l4 --follow --json | jq -r .text",
    ),
)
def logs(
    stack: OptionalStack = None,
    url: Url = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new entries until Ctrl-C.")] = False,
    since: Annotated[str, typer.Option(metavar="DURATION", help="How far back: 90s, 20m, 4h, 7d.")] = "1h",
    errors: Annotated[bool, typer.Option("--errors", help="Only failures, by severity or by their words.")] = False,
    slice_name: Annotated[
        str | None, typer.Option("--slice", metavar="NAME", help="Only this TPU slice's machine and server.")
    ] = None,
    limit: Annotated[int, typer.Option(help="The most entries, the newest ones.", min=1, max=1000)] = 100,
    revision: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this revision of the Cloud Run service.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what servers wrote to the log.

    Of the service or the gateway, of each TPU slice and of the job that copies the weights, the newest last: moment in
    UTC, severity, source, text; tokens and keys are taken out. An entry is one line where the output is no terminal; with
    --follow --json each line is a JSON object. Exit code 1: Google does not hand the log out.
    """
    from infra.ops.commands.logs import follow_logs, show_logs

    show = follow_logs if follow else show_logs
    show(stack, url, since, errors, slice_name, limit, revision, as_json=as_json)
