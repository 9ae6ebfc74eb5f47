"""What serves assistants: mcp."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.errors import Gemma4Error
from infra.ops.command_line.options import examples
from infra.ops.command_line.root import ASSISTANTS, app


@app.command(
    rich_help_panel=ASSISTANTS,
    epilog=examples("mcp", "mcp --http 8900", "mcp --url https://models.example.com", "mcp --allow-changes"),
)
def mcp(
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            help="Serve over streamable HTTP on this port of 127.0.0.1 instead of standard input and output.",
            min=1,
            max=65535,
        ),
    ] = None,
    url: Annotated[
        list[str] | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Send the key in GEMMA4_API_KEY, or an identity token, to this URL where an assistant names it; to any other "
            "none is sent. Repeatable. Stacks need no such word.",
        ),
    ] = None,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes",
            help="Offer also what changes something; each change is shown first and done only when it is confirmed.",
        ),
    ] = False,
) -> None:
    """Serve these questions to an assistant, by MCP.

    An MCP client such as an editor or a coding assistant starts it and asks: plans, prices, status, metrics, logs. Answers
    are those of --json, compact. Without --allow-changes nothing can be changed. It needs the extra mcp:
    pip install --require-hashes -r requirements-mcp.txt
    """
    try:
        from infra.ops.mcp_server.serve_tools import serve_http, serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        raise Gemma4Error(
            "the MCP SDK is not installed here, so nothing is served; install it with: "
            ".venv/bin/pip install --require-hashes -r requirements-mcp.txt"
        ) from None
    from infra.ops.endpoint.find_endpoint import trust_only

    trust_only(url or ())
    if http is None:
        serve_stdio(allow_changes=allow_changes)
    else:
        serve_http(http, allow_changes=allow_changes)
