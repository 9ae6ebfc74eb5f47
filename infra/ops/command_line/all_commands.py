"""The whole command: importing this module declares every command, in the order in which the help lists them."""

from __future__ import annotations

from functools import cache
from typing import cast

import typer.main
from typer.core import TyperGroup

from infra.ops.command_line import (
    asking_commands,
    assistant_commands,
    changing_commands,
    connecting_commands,
    counter_commands,
    measuring_commands,
    operating_commands,
    planning_commands,
    slice_commands,
    trouble_commands,
)
from infra.ops.command_line.root import app

__all__ = [
    "asking_commands",
    "assistant_commands",
    "changing_commands",
    "connecting_commands",
    "counter_commands",
    "measuring_commands",
    "operating_commands",
    "planning_commands",
    "slice_commands",
    "trouble_commands",
    "whole_command",
]


@cache
def whole_command() -> TyperGroup:
    """Return every command with its options. `app` itself would read all signatures again at each call."""
    return cast("TyperGroup", typer.main.get_command(app))
