"""`gemma4 bench run`: measures what serves under load, and stores every request."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from pathlib import Path

from infra.benchmark import aiperf
from infra.benchmark.stored_run import BenchmarkRun, RunSettings, Target, Versions, load
from infra.errors import Gemma4Error, SettingsError
from infra.google.times import moment
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.benchmark_answers import BenchAnswer, bench_answer_of
from infra.ops.benchmarking.bench_grid import GridOptions
from infra.ops.benchmarking.bench_table import bench_lines
from infra.ops.benchmarking.bench_target import BenchTarget, planned_server, reach
from infra.ops.benchmarking.run_bench import BenchRun, say
from infra.ops.commands.own_runs import rows_of_benchmark
from infra.ops.endpoint.find_endpoint import find_endpoint, find_member
from infra.ops.plan_inputs import project_root
from infra.ops.program_version import program_version
from infra.planning.report.terminal import NARROW, show

FOLDER = "bench"
PREFIX_CACHES = ("unique", "shared")
"""How prompts begin: each in its own way, or all with the same half."""


def bench_answer(
    stack: str | None = None,
    url: str | None = None,
    slice_name: str | None = None,
    concurrency: str | None = None,
    input_tokens: str | None = None,
    output_tokens: str | None = None,
    workload: list[str] | None = None,
    prefix_cache: str = "unique",
    requests: int | None = None,
    warmup: int | None = None,
    repeats: int = 5,
    seed: int | None = None,
    save: str | None = None,
    resume: str | None = None,
) -> BenchAnswer:
    """Measure a grid of concurrency and lengths on a stack, or on any vLLM by its URL, and return a summary of each cell.

    It loads the server for minutes to hours and costs what the server costs meanwhile. Raises Gemma4Error.
    """
    options = GridOptions.read(concurrency, input_tokens, output_tokens, workload or [])
    if prefix_cache not in PREFIX_CACHES:
        fix = f"Write --prefix-cache {' or '.join(PREFIX_CACHES)}."
        raise SettingsError.of("--prefix-cache", f"{prefix_cache!r} is not a way to make prompts.", fix=fix)
    begun = None if resume is None else load(Path(resume))
    if resume is not None and begun is not None:
        if options.given or save is not None or slice_name is not None:
            fact = "what is measured, and where it is stored, stands in the file of --resume."
            raise SettingsError.of("--resume", fact, "Two settings would be meant.", "Leave the other options out.")
        if begun.complete:
            return bench_answer_of(begun, resume)
        stack, url = _of_file(begun, stack, url)
    endpoint = find_endpoint(stack, url)
    executable = aiperf.find(project_root())
    member = find_member(endpoint, begun.target.member or None if begun else slice_name)
    target = reach(endpoint, member)
    if target.note:
        say(f"note: {target.note}")
    if begun is not None:
        _same_server(begun, target)
        bench = BenchRun(target, executable, begun, Path(resume or ""), salt=moment(time.time()))
    else:
        begun = _begin(target, options, executable, prefix_cache, requests, warmup, repeats, seed)
        file = project_root() / FOLDER / f"{begun.id}.json" if save is None else Path(save)
        bench = BenchRun(target, executable, begun, file)
    try:
        run = bench.to_the_end()
    except (KeyboardInterrupt, Gemma4Error):
        if any(cell.repeats for cell in bench.run.cells):
            say(f"what was measured is in {bench.file}; go on with: gemma4 bench run --resume {bench.file}")
        elif resume is None:
            bench.file.unlink(missing_ok=True)
        raise
    return bench_answer_of(run, str(bench.file))


def show_bench(answer: BenchAnswer, *, as_json: bool, as_row: bool) -> None:
    """Print a benchmark: a table, data, or rows for the scorecard. Raises Gemma4Error where it has no rows."""
    if as_json:
        print_answer(answer)
    elif as_row:
        print("\n".join(rows_of_benchmark(load(Path(answer.file)))))
    else:
        show(*bench_lines(answer), columns=NARROW)


def _of_file(begun: BenchmarkRun, stack: str | None, url: str | None) -> tuple[str | None, str | None]:
    """Return the stack and the URL of a run that was begun. Raises SettingsError where another was named."""
    told = (begun.target.stack, None if begun.target.stack else begun.target.url)
    if (stack, url) not in ((None, None), told):
        raise SettingsError.of(
            "--resume",
            f"the file holds a benchmark of {told[0] or told[1]}, and {stack or url} was named.",
            "Two servers would stand in one run.",
            "Leave the name out.",
        )
    return told


def _same_server(begun: BenchmarkRun, target: BenchTarget) -> None:
    """Raise Gemma4Error where another server answers than the one that was measured first."""
    spec = target.plan.command.spec_hash if target.plan else None
    if (begun.versions.vllm, begun.versions.plan, begun.target.model) != (target.vllm, spec, target.model):
        raise Gemma4Error(
            f"vLLM {target.vllm} serves {target.model} ({spec or 'not as planned here'}), and the file was begun with vLLM "
            f"{begun.versions.vllm}, {begun.target.model} ({begun.versions.plan or 'no plan'}): begin anew, without --resume"
        )


def _begin(
    target: BenchTarget,
    options: GridOptions,
    executable: Path,
    prefix_cache: str,
    requests: int | None,
    warmup: int | None,
    repeats: int,
    seed: int | None,
) -> BenchmarkRun:
    grid = options.shapes(target)
    most = max(shape.concurrency for shape in grid)
    if requests is not None and requests < most:
        raise SettingsError.of(
            "--requests",
            f"{requests} are fewer than the {most} that should be in flight at any time.",
            "The cell would be named after a load that it never had.",
            f"Write {most} or more, or a smaller --concurrency.",
        )
    now, stack = datetime.now(UTC), target.endpoint.planned.file.stack if target.endpoint.planned else None
    return BenchmarkRun(
        id=f"{now:%Y%m%dT%H%M%SZ}-{stack or target.model.rsplit('/', 1)[-1]}",
        started_at=moment(now.timestamp()),
        ended_at=moment(now.timestamp()),
        complete=False,
        target=Target(
            stack=stack,
            url=target.endpoint.url,
            model=target.model,
            member=target.member.name if target.member else "",
        ),
        versions=Versions(
            gemma4=program_version(),
            vllm=target.vllm,
            aiperf=aiperf.version(executable),
            plan=target.plan.command.spec_hash if target.plan else None,
        ),
        plan=planned_server(target.plan) if target.plan else None,
        server=target.facts,
        settings=RunSettings(
            prefix_cache="shared" if prefix_cache == "shared" else "unique",
            warmup_requests=warmup,
            requests=requests,
            repeats=repeats,
            seed=secrets.randbits(32) if seed is None else seed,
            grid=grid,
        ),
        cells=[],
    )
