"""The root of the `gemma4` command: what stands before a command, and the sections under which the help lists commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

PLANNING = "Before you deploy (nothing here needs an account, but pin and preflight)"
OPERATING = "What runs"
ASKING = "Asking the model"
MEASURING = "Measuring"
CHANGING = "Changing what runs"
SLICES = "Capacity, and TPU slices"
ASSISTANTS = "For assistants"
SECTIONS = (PLANNING, OPERATING, ASKING, MEASURING, CHANGING, SLICES, ASSISTANTS)
"""In the order of the help."""


class _Sections(TyperGroup):
    """Lists the commands of the help by section."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a list for each section that has commands."""
        width = max(len(name) for name in self.commands)
        for section in SECTIONS:
            rows = [
                (name.ljust(width), one.get_short_help_str(formatter.width - width - 6))
                for name, one in self.commands.items()
                if getattr(one, "rich_help_panel", None) == section
            ]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


app = typer.Typer(
    cls=_Sections,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Serve Gemma 4 with vLLM on Google Cloud: decide, price and check everything before anything is paid for.",
    epilog="Exit codes: 0 answered, 1 failed outside, 2 bad input, 3 refused because it cannot work.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from infra.ops.program_version import NOT_INSTALLED, program_version

        version = program_version()
        print("gemma4, from a checkout that is not installed" if version == NOT_INSTALLED else f"gemma4 {version}")
        raise typer.Exit


@app.callback()
def gemma4(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""
