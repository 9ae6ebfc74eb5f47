"""Arguments and options that several commands take, and the form of the examples in their help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer


def offer(kind: str) -> Callable[[str], list[str]]:
    """Return the completion of that name; its module is imported only when the shell asks for words."""

    def complete(incomplete: str) -> list[str]:
        from infra.ops.terminal import completions

        offered: list[str] = getattr(completions, kind)(incomplete)
        return offered

    return complete


def examples(*lines: str) -> str:
    """Return examples as an epilog that the help prints line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  gemma4 {line}" for line in lines)


_STACK_HELP = "Name of a stack file: l4 means Pulumi.l4.yaml."
Stack = Annotated[str, typer.Argument(help=_STACK_HELP, autocompletion=offer("stacks"))]
OptionalStack = Annotated[
    str | None, typer.Argument(help=f"{_STACK_HELP} Or give --url.", show_default=False, autocompletion=offer("stacks"))
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Ask this server instead of a stack's: any vLLM, e.g. http://127.0.0.1:8000. An address of Cloud Run gets an "
        "identity token; any other gets the key in GEMMA4_API_KEY, if that is set.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data for machines instead of text.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Lay a value over the stack file, e.g. --set serving.maxModelLen=4096; null takes it away. Repeatable.",
        autocompletion=offer("assignments"),
    ),
]
