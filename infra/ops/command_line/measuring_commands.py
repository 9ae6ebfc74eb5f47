"""What is measured of a server that runs: bench run, which is bench for short, bench compare, bench report, and evaluate."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from infra.errors import SettingsError
from infra.ops.command_line.options import AsJson, OptionalStack, Url, examples
from infra.ops.command_line.root import MEASURING, app
from infra.ops.terminal.error_output import FAILED, REFUSED


class _RunsByDefault(TyperGroup):
    """Takes `bench STACK` and `bench --url …` for `bench run STACK` and `bench run --url …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the word that was left out before the others, where no other command is named."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names} and "run" in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


bench = typer.Typer(
    cls=_RunsByDefault, no_args_is_help=True, help="Measure how fast a server is, and compare such measurements."
)
app.add_typer(bench, name="bench", rich_help_panel=MEASURING)


@bench.command(
    "run",
    epilog=examples(
        "bench run l4",
        "bench run l4 --workload balanced --concurrency 1,16",
        "bench run --url http://127.0.0.1:8000 --input 512 --output 128",
        "bench run l4 --resume bench/20261122T080000Z-l4.json",
        "bench run l4 --as-row >> my-runs.jsonl",
    ),
)
def bench_run(
    stack: OptionalStack = None,
    url: Url = None,
    slice_name: Annotated[
        str | None, typer.Option("--slice", help="Measure this slice alone, past the gateway's choice.")
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(
            "--concurrency",
            metavar="N,…",
            help="Requests in flight at any time, one or several. Default: 1, 4, 16, … up to what the plan runs at once.",
        ),
    ] = None,
    input_tokens: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="N,…", help="Tokens of a prompt, one or several. Default: the plan's workload."
        ),
    ] = None,
    output_tokens: Annotated[
        str | None,
        typer.Option("--output", metavar="N,…", help="Tokens of an answer, forced. Default: the plan's workload."),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            help="Lengths by the name of vLLM's recipe: prompt-heavy (8000/1000), decode-heavy (1000/8000), balanced "
            "(1000/1000); scaled down, and said so, where max_model_len is less. Repeatable.",
        ),
    ] = None,
    prefix_cache: Annotated[
        str,
        typer.Option(
            "--prefix-cache",
            help="unique: no two prompts begin alike, so that the model works on every one. shared: every prompt begins with "
            "the same half.",
        ),
    ] = "unique",
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests", min=1, help="Requests of each repeat. Default: three for each in flight, 8 at least."
        ),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            "--warmup", min=0, help="Requests before each repeat, not counted. Default: one for each in flight."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Of each cell; five show a change of 10 %.")] = 5,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Makes the same prompts again: on the same server its prefix cache may hold them."),
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="FILE", help="Store here. Default: bench/, by date and stack.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="FILE", help="Measure what is missing in this file; a complete one is shown."),
    ] = None,
    as_json: AsJson = False,
    as_row: Annotated[bool, typer.Option("--as-row", help="Print rows for gemma4 scorecard.")] = False,
) -> None:
    """Measure throughput and latency over a grid of concurrency and lengths.

    Sends load with aiperf, which `make bench-tools` installs into an environment of its own. Says first how long it takes and
    what that costs; wakes a server that has scaled to zero. Every request is stored after each cell; Ctrl-C keeps what
    was measured. Cells without room in the KV cache are skipped, and what is faster than the machine can be is called
    impossible.
    """
    from infra.ops.commands.bench import bench_answer, show_bench

    if as_json and as_row:
        raise SettingsError.of("--as-row", "cannot be combined with --json.", fix="Choose one of them.")
    answer = bench_answer(
        stack,
        url,
        slice_name,
        concurrency,
        input_tokens,
        output_tokens,
        workload,
        prefix_cache,
        requests,
        warmup,
        repeats,
        seed,
        save,
        resume,
    )
    show_bench(answer, as_json=as_json, as_row=as_row)


@bench.command(
    "compare",
    epilog=examples(
        "bench compare bench/before.json bench/after.json",
        "bench compare before.json after.json --markdown >> $GITHUB_STEP_SUMMARY",
        "bench compare before.json after.json --fail-if-slower 5",
        "bench compare a1.json b1.json --also-a a2.json --also-b b2.json",
        "bench compare before.json after.json --json | jq -r .sentence",
    ),
)
def bench_compare(
    a: Annotated[str, typer.Argument(help="What to compare with: a stored run, its file or its id.")],
    b: Annotated[str, typer.Argument(help="What is faster or slower than A: another stored run.")],
    also_a: Annotated[
        list[str] | None,
        typer.Option(
            "--also-a", metavar="FILE", help="A further run of A's server; repeats count together. Repeatable."
        ),
    ] = None,
    also_b: Annotated[
        list[str] | None,
        typer.Option("--also-b", metavar="FILE", help="A further run of B's server. Repeatable."),
    ] = None,
    fail_if_slower: Annotated[
        float | None,
        typer.Option(
            "--fail-if-slower", metavar="PERCENT", help="End with 1 if B is slower by that much, 3 if unknown."
        ),
    ] = None,
    cells: Annotated[bool, typer.Option("--cells", help="Show each cell, also those without a difference.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare what was measured differently, with a warning.")
    ] = False,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")] = False,
) -> None:
    """Say what is a difference between two benchmarks, and what is noise.

    Compares stored runs cell by cell and as a whole, by their repeats: with five or more of each, equal runs are called
    equal, and a server slowed by 10 % is found (docs/benchmarks.md counts how often). Runs that take turns, A B A B, are
    compared best. Offline. Exit codes: 0 compared; with --fail-if-slower 1 where B is slower by PERCENT or more, or fails
    1 % more requests, and 3 where too little was measured to know; 2 not stored runs; 3 runs that cannot be compared.
    """
    from infra.ops.commands.bench_compare import compare_answer, show_comparison

    if as_json and markdown:
        raise SettingsError.of("--markdown", "cannot be combined with --json.", fix="Choose one of them.")
    if fail_if_slower is not None and not 1 <= fail_if_slower <= 90:
        raise SettingsError.of(
            "--fail-if-slower",
            f"{fail_if_slower:g} is not between 1 and 90.",
            "Less than 1 % no benchmark can show.",
            "Write for example --fail-if-slower 5.",
        )
    answer = compare_answer(a, b, also_a, also_b, fail_if_slower=fail_if_slower, cells=cells, anyway=anyway)
    show_comparison(answer, "json" if as_json else "markdown" if markdown else "text")
    if fail_if_slower is not None and answer.too_slow is not False:
        raise typer.Exit(FAILED if answer.too_slow else REFUSED)


@app.command(
    rich_help_panel=MEASURING,
    epilog=examples(
        "evaluate l4",
        "evaluate l4 --against last",
        "evaluate --url http://127.0.0.1:8000 --tasks arithmetic,tools",
        "evaluate v6e4 --slice green --longest-context 16384 --json",
        "evaluate --stored evaluations/NEW.json --against evaluations/OLD.json",
    ),
)
def evaluate(
    stack: OptionalStack = None,
    url: Url = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--tasks",
            metavar="KINDS",
            help="Ask only these kinds: arithmetic, extraction, tools, image, context, instructions, copying, translation.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="Compare with this stored run; last: the last whole one of the same server.",
        ),
    ] = None,
    stored: Annotated[
        str | None, typer.Option("--stored", metavar="FILE", help="Take a stored run instead of asking a server.")
    ] = None,
    slice_name: Annotated[
        str | None,
        typer.Option("--slice", metavar="NAME", help="Ask this TPU slice, not whichever the gateway chooses."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Ask for this served name, e.g. a LoRA adapter's.")
    ] = None,
    longest_context: Annotated[
        int | None,
        typer.Option(
            "--longest-context",
            metavar="TOKENS",
            min=0,
            help="The longest text to be read; 0: none. Default: all that the server takes, which may need minutes.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", metavar="N", help="Requests at once, 4 unless given; 1 repeats itself best."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="FILE", help="Store the run here, not under evaluations/.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask questions with known answers.

    Some sixty of them, the same every time, at temperature 0: sums, extraction to a schema, tool choice, pictures, numbers
    out of long texts, exact copies. Says how many of each kind are right, whether the server is broken whatever it was
    before, and against an earlier run whether it got worse or whether that is chance. Try it before and after a new
    quantization, a new KV dtype or a new vLLM. Ctrl-C keeps what was asked. Exit codes: 0 sound and not worse, 1 broken or
    worse, or nobody answers, 2 bad input, 130 interrupted.
    """
    from infra.ops.evaluations.evaluate import show_evaluation

    code = show_evaluation(
        stack,
        url,
        tasks=tasks or (),
        against=against,
        stored=stored,
        slice_name=slice_name,
        model=model,
        longest_context=longest_context,
        concurrency=concurrency,
        output=output,
        as_json=as_json,
    )
    if code:
        raise typer.Exit(code)


@bench.command(
    "report",
    epilog=examples(
        "bench report bench/l4.json",
        "bench report before.json after.json --output compared",
        "bench report l4.json rtx6000.json v6e4.json --output machines",
    ),
)
def bench_report(
    runs: Annotated[list[str], typer.Argument(help="Stored runs, each its file or its id; the first is called A.")],
    output: Annotated[
        str, typer.Option("--output", metavar="DIR", help="Folder for the page and its plots.")
    ] = "bench/report",
) -> None:
    """Draw benchmarks: a page of HTML, and plots as PNG.

    Time to first token and inter-token latency against throughput, time to first token against concurrency, and the price
    of a million tokens where the stack's plan has a price; of several runs side by side, with what a comparison says of
    them. The page is one file that asks nothing of the network; beside each plot stand its figures. Needs matplotlib, which
    is the extra `report`. Exit codes: 0 written, 1 not written, 2 not stored runs.
    """
    from infra.ops.commands.bench_report import show_report

    show_report(runs, output)
