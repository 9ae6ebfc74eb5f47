"""Rows for `gemma4 scorecard` from a stack's own runs: the flags of the plan, and what a check or a benchmark measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from infra.benchmark.stored_run import BenchmarkRun
from infra.benchmark.summary import summary_of
from infra.catalog import GIB, catalog
from infra.errors import Gemma4Error
from infra.ops.endpoint.stack_state import CheckRecord
from infra.planning.plan import Plan
from infra.planning.scorecard.published_runs import PublishedRun
from infra.serving.expectation import CheckResult
from infra.serving.measure import CAME_AT_ONCE


def rows_of_check(plan: Plan, check: CheckRecord) -> Iterator[str]:
    """Yield a check's rows of memory, speed and first token, each a line of JSON.

    Its server must be the one that is planned: the flags are those of the plan.
    """
    result = CheckResult.model_validate(check.result)
    when = check.at[:19] or check.spec
    described = {**_description(plan), "vllm": result.vllm_version.partition("+")[0] or plan.server.vllm_version}
    notes = [*_left_out(plan), *result.notes]
    prompt_tokens = result.prompt_tokens or plan.settings.workload.prompt_tokens
    shape = {"running": 1, "prompt_tokens": prompt_tokens, "output_tokens": result.output_tokens}
    cached = CAME_AT_ONCE not in result.notes  # the rate begins at the first token
    described_whole = not plan.server.adapters
    memory = {"published": {"tokens": result.kv_tokens, "outcome": "boots"}, "end_to_end": described_whole}
    speed = {"prompts": "cached" if cached else "new", "published": {"tokens_per_second": result.tokens_per_second}}
    first_token = {"published": {"first_token_ms": 1000 * result.ttft_s}}
    network = "the network is in it, the prediction is without"
    for what, measured, said in (
        ("memory", memory, notes),
        ("speed", {**shape, **speed}, notes),
        ("first_token", {**shape, **first_token}, [network, *notes]),
    ):
        row = {
            "id": f"{plan.stack}-{check.name}-{when}-{what}",
            "what": what,
            **described,
            **measured,
            "note": "; ".join(said) or None,
            "source": f"serving check of {check.url}",
        }
        yield _line(row)


def planned_row(plan: Plan) -> dict[str, Any]:
    """Return what a row says of a planned server: machine, model and flags, and what no row can say of it as its note."""
    left_out = {"note": said} if (said := "; ".join(_left_out(plan))) else {}
    return {**_description(plan), "end_to_end": not plan.server.adapters, **left_out}


def rows_of_benchmark(run: BenchmarkRun) -> Iterator[str]:
    """Yield a benchmark's rows: memory, the speed of each measured cell, and the first token of cells with one request at a
    time. Raises Gemma4Error where no plan describes the server, or prompts were partly cached, which no row can say."""
    if run.plan is None:
        raise Gemma4Error(
            "a row describes the server by its plan, and this benchmark has none: measure a stack, by its name, as its files "
            "plan it"
        )
    if run.settings.prefix_cache == "shared":
        raise Gemma4Error(
            "a row has prompts that are new or cached, and these were half cached: measure without shared"
        )
    if run.server.kv_tokens is not None:
        yield _benchmark_row(run, "memory", {"published": {"tokens": run.server.kv_tokens, "outcome": "boots"}})
    for cell in run.cells:
        summary = summary_of(cell) if cell.status == "measured" else None
        if summary is None or summary.ttft is None:
            continue
        shape = {
            "running": cell.concurrency,
            "prompt_tokens": round(fmean(count for one in cell.repeats for count in one.input_tokens)),
            "output_tokens": cell.output_tokens,
        }
        rate = {"prompts": "new", "published": {"tokens_per_second": round(summary.output_tokens_per_second.mean, 2)}}
        yield _benchmark_row(run, "speed", shape | rate)
        if cell.concurrency == 1:
            first = {"published": {"first_token_ms": round(1000 * summary.ttft.p50, 2)}}
            yield _benchmark_row(run, "first_token", shape | first)


def _benchmark_row(run: BenchmarkRun, what: str, measured: Mapping[str, Any]) -> str:
    described = dict(run.plan.row) if run.plan else {}
    if what != "memory":
        described.pop("end_to_end", None)
    note = described.pop("note", "")
    point = "".join(f"-{measured[key]}" for key in ("running", "prompt_tokens", "output_tokens") if key in measured)
    row = {
        **described,
        **measured,
        "vllm": run.versions.vllm.partition("+")[0],
        "id": f"{run.id}{point}-{what}",
        "what": what,
        "note": "; ".join(part for part in ("" if what == "memory" else "the network is in it", note) if part) or None,
        "source": f"gemma4 bench of {run.target.url}, {run.started_at[:10]}",
    }
    return _line(row)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(PublishedRun.model_validate(row).model_dump(mode="json", exclude_unset=True, exclude_none=True))


def _description(plan: Plan) -> dict[str, Any]:
    """Return machine, model and flags of the planned server, every default named."""
    server, machine = plan.server, plan.accelerator
    return {
        **_checkpoint(plan),
        "hardware": machine.id,
        "backend": machine.device.value,
        "devices": server.tensor_parallel,
        "device_memory_gib": machine.device_memory_gib,
        "bandwidth_gb_s": machine.bandwidth / 1e9,
        "flops_tf_s": machine.flops / 1e12,
        "max_model_len": server.max_model_len,
        "max_num_seqs": server.max_num_seqs,
        "max_num_batched_tokens": server.max_num_batched_tokens,
        "gpu_memory_utilization": server.gpu_memory_utilization,
        "kv_cache_dtype": server.kv_cache_dtype,
        "block_size": server.block_size,
        "cpu_offload_gib": server.cpu_offload_gib,
        "enforce_eager": server.enforce_eager,
        "async_scheduling": server.async_scheduling,
        "text_only": server.text_only,
        "speculation": server.speculation,
        "speculative_tokens": server.speculative_tokens or None,
    }


def _checkpoint(plan: Plan) -> dict[str, Any]:
    """Return the model by its catalog id, and what was counted of the weights where these are not the catalog's."""
    known = catalog().models[plan.model.id]
    if plan.model == known:
        return {"model": known.id, "quantization": plan.server.quantization}
    stored_otherwise = plan.model.weight_format != known.weight_format
    return {
        "model": known.id,
        "quantization": plan.model.weight_format if stored_otherwise else plan.server.quantization,
        "weights_gib_given": round(plan.memory.weights.mid / GIB, 3),
    }


def _left_out(plan: Plan) -> Iterator[str]:
    if plan.model != catalog().models[plan.model.id]:
        yield f"checkpoint {plan.model.hub_id}, whose weights are those that were counted"
    if plan.server.adapters:
        yield "LoRA adapters, which a row does not describe: its memory is not compared"
    if plan.settings.vllm_args:
        yield f"further flags, which no prediction counts: {' '.join(plan.settings.vllm_args)}"
