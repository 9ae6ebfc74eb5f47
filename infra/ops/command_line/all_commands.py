"""The whole command: importing this module declares every command, in the order in which the help lists them."""

from __future__ import annotations

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
    "app",
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
]
