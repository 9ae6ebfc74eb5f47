"""What a server's own counters say: metrics, memory."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.ops.command_line.options import AsJson, OptionalStack, Url, examples
from infra.ops.command_line.root import OPERATING, app


@app.command(
    rich_help_panel=OPERATING,
    epilog=examples(
        "metrics l4",
        "metrics v6e4 --watch --interval 10",
        "metrics --url http://127.0.0.1:8000",
        "metrics l4 --watch --json | jq .together.waiting",
    ),
)
def metrics(
    stack: OptionalStack = None,
    url: Url = None,
    watch: Annotated[bool, typer.Option("--watch", help="Read again and again, until Ctrl-C.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(help="Seconds between two readings; 2, with --watch 5.", metavar="SECONDS", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the server is doing now.

    Requests that run and wait, use of the KV cache, first token and next token (p50, p90), tokens a second, prefix cache
    hits, preemptions, accepted drafts, and how requests ended: for each slice and for all. Counts are since the server's
    start, with --watch since the reading before. Warns of a KV cache over 85 % and of requests that wait for more than 30 s
    of watching. A service without a running instance starts one to answer, which costs. Exit code 1: no server answers.
    """
    from infra.ops.commands.read_metrics import show_metrics

    show_metrics(stack, url, watching=watch, interval=interval, as_json=as_json)


@app.command(
    rich_help_panel=OPERATING,
    epilog=examples(
        "memory l4",
        "memory --url http://127.0.0.1:8000",
        "memory v6e4 --json | jq '.members[] | {name, tokens, tokensInside}'",
    ),
)
def memory(stack: OptionalStack = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show the real KV cache beside the plan.

    Tokens, blocks, their size and type as the server resolved them, each inside or outside the plan's band; how many
    requests of the planned workload really fit; weights and CUDA graphs where the log tells. Of each slice. A server of
    other settings or another version than planned is shown and not compared. A service without a running instance starts
    one to answer, which costs. Exit code 1: no server answers.
    """
    from infra.ops.commands.memory import show_memory

    show_memory(stack, url, as_json=as_json)
