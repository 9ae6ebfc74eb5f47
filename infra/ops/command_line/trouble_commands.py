"""What logs and conditions say of a stack: logs, diagnose."""

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
        str | None, typer.Option("--slice", metavar="NAME", help="Only this TPU slice or machine.")
    ] = None,
    limit: Annotated[int, typer.Option(help="The most entries, the newest ones.", min=1, max=1000)] = 100,
    revision: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this revision of the Cloud Run service.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what servers wrote to the log.

    Of the service or the gateway, of each TPU slice or machine and of the job that copies the weights, the newest last:
    moment in UTC, severity, source, text; tokens and keys are taken out. An entry is one line where the output is no
    terminal; with --follow --json each line is a JSON object. Exit code 1: Google does not hand the log out.
    """
    from infra.ops.commands.logs import follow_logs, show_logs

    show = follow_logs if follow else show_logs
    show(stack, url, since, errors, slice_name, limit, revision, as_json=as_json)


@app.command(
    rich_help_panel=OPERATING,
    epilog=examples(
        "diagnose l4",
        "diagnose v6e4 --since 1d --json | jq .findings",
        "diagnose --url http://127.0.0.1:8000",
        "diagnose --log server.log",
        "diagnose l4 --ask",
    ),
)
def diagnose(
    stack: OptionalStack = None,
    url: Url = None,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="FILE", help="Look at a saved log instead; - is standard input."),
    ] = None,
    since: Annotated[str, typer.Option(metavar="DURATION", help="How far back the log is read: 20m, 4h, 7d.")] = "1h",
    ask: Annotated[
        bool, typer.Option("--ask", help="Also ask the served model what it makes of the findings and the lines.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong and what to do.

    Looks at Cloud Run's conditions, the states of TPU slices, the log, the server's health, a short answer of it and its
    metrics, and knows some eighty failures by their own words: each finding has its line, cause, fix, and how sure it is.
    What could not be looked at is listed. A server that has scaled to zero is not woken. Exit code 0: nothing is wrong now
    and all could be looked at; 1: something was found, or could not be looked at.
    """
    from infra.ops.commands.diagnose import show_diagnosis

    if not show_diagnosis(stack, url, log, since, ask, as_json=as_json):
        raise typer.Exit(1)
