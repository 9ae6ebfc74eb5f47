"""Gives a tool the parameters of the function that answers it, with the words and the limits of the command's own options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Annotated, Any, get_type_hints

from pydantic import Field

from infra.ops.command_line.all_commands import whole_command
from infra.ops.mcp_server.tools import Tool


def description(tool: Tool) -> str:
    """Return what the command's help says, without its examples."""
    return inspect.cleandoc(_command(tool).help or "").replace("\b\n", "")


def parameters(tool: Tool) -> Iterator[inspect.Parameter]:
    """Yield the parameters of the function that answers, as keywords, but for the one that makes the answer a deed and for
    what is not the command's own, such as a function that shows progress."""
    hints = get_type_hints(tool.function)
    options = {one.name: one for one in _command(tool).params}
    for name, parameter in inspect.signature(tool.function).parameters.items():
        if (option := options.get(name)) and name != tool.applies:
            said = Field(
                description=getattr(option, "help", "") or "",
                ge=getattr(option, "min", None),
                le=getattr(option, "max", None),
            )
            yield parameter.replace(
                kind=inspect.Parameter.KEYWORD_ONLY,
                default=tool.defaults.get(name, parameter.default),
                annotation=Annotated[hints[name], said],
            )


def _command(tool: Tool) -> Any:
    found: Any = whole_command()
    for word in tool.command.split():
        found = found.commands[word]
    return found
