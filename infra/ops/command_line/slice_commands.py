"""What is asked about capacity and TPU slices: zones, tpu status, tpu ended."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.ops.command_line.options import AsJson, Stack, examples, offer
from infra.ops.command_line.root import SLICES, app
from infra.ops.terminal.error_output import REFUSED


@app.command(
    rich_help_panel=SLICES, epilog=examples("zones v6e4", "zones --accelerator v6e-8 --all", "zones --accelerator g4-2")
)
def zones(
    stack: Annotated[
        str | None,
        typer.Argument(help="A stack whose accelerator and project to use.", autocompletion=offer("stacks")),
    ] = None,
    accelerator: Annotated[
        str | None,
        typer.Option(
            help="A machine with zones, as v6e-4 or g4-2; default: the stack's.", autocompletion=offer("zonal")
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also zones that are not known to take flex-start, or to have the GPUs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show where a machine can be had.

    Of TPUs the zones that list them and take flex-start, with the quotas there and what this project's requests hold of them.
    Of machines with GPUs, and of TPUs where it answers, Google's advice for each zone: how likely one is to be had now, what
    spot costs, and how often it was taken back. Asking costs nothing. Exit code 3: no zone has room; 1: none could be asked.
    """
    from infra.ops.commands.zones import show_zones

    if not show_zones(stack, accelerator, every=every, as_json=as_json):
        raise typer.Exit(REFUSED)


tpu = typer.Typer(no_args_is_help=True, help="Show the state of TPU slices, and requests that have ended.")
app.add_typer(tpu, name="tpu", rich_help_panel=SLICES)


@tpu.command("status", epilog=examples("tpu status v6e4"))
def tpu_status(stack: Stack, as_json: AsJson = False) -> None:
    """Show the state of each slice of a stack.

    Its place in the queue, its machine, what the supervisor there is doing, the time left, and what to do next; and what
    else the stack pays for. Exit code 1: not every slice serves what is planned.
    """
    from infra.ops.tpu.tpu_commands import show_slices

    if not show_slices(stack, as_json=as_json):
        raise typer.Exit(1)


@tpu.command("ended", epilog=examples("tpu ended v6e4", "tpu ended v6e4 --delete"))
def tpu_ended(
    stack: Annotated[
        str | None,
        typer.Argument(
            help="A stack, whose project is asked; --delete deletes its requests only.", autocompletion=offer("stacks")
        ),
    ] = None,
    delete: Annotated[
        bool,
        typer.Option("--delete", help="Delete the ended requests of the stack; without a stack, of all gemma4 stacks."),
    ] = False,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="With --delete: all, also those that gemma4 did not make.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List requests that have ended.

    Requests that are FAILED or SUSPENDED serve nothing, and hold quota until they are deleted. Exit code 1: one could not
    be deleted.
    """
    from infra.ops.tpu.tpu_commands import show_ended_requests

    if not show_ended_requests(stack, delete=delete, everybody=everybody, as_json=as_json):
        raise typer.Exit(1)
