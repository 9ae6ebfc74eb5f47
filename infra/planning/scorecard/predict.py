"""Each published run predicted from its description alone, and compared with what was measured.

A machine that the catalog lacks is made of what the row says of it, without any measurement: its bands are those of a
machine that nobody timed. Where the catalog has it, its facts apply and the row's own figures win.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from infra.catalog import BF16_BYTES, GIB, Accelerator, Device, Model, Source, catalog
from infra.planning.checks.serving_image import counted_version
from infra.planning.memory.budget import capacity_of, device_budget
from infra.planning.memory.footprint import loaded_weights
from infra.planning.memory.kv_cache import find_model
from infra.planning.memory.verdict import Verdict, judge
from infra.planning.performance.speed import SpeedModel
from infra.planning.performance.startup import WeightPath, cached_engine_seconds, engine_stages, read_rate
from infra.planning.scorecard.published_runs import (
    FileRow,
    PublishedFigures,
    PublishedRun,
    PublishedStart,
    PublishedVerdict,
    UnreadRow,
)
from infra.planning.server.command import DECODER_CLASS
from infra.planning.server.implementations import implementation_of
from infra.planning.server.server import Quantization, Server, usual_drafts
from infra.planning.units import Band

USUAL_LENGTH, USUAL_SEQS = 8192, 256
"""max_model_len and max_num_seqs of a row of speed that names none; neither changes the prediction of a rate."""
LOGGED_GIB_DECIMALS = 2
"""vLLM logs sizes in GiB with two decimals, so that a size of KV cache is known to 0.005 GiB at best."""


@dataclass(frozen=True)
class ComparedFigure:
    """One figure of a run as it was published, and the band that is predicted for it. Same unit throughout."""

    name: str
    unit: str
    published: float
    predicted: Band
    rounding: float = 0.0
    """By how much the published value may have been rounded."""

    @property
    def error_pct(self) -> float | None:
        """Return by how many percent the prediction is above what was published; None where that is not above 0."""
        return 100 * (self.predicted.mid / self.published - 1) if self.published > 0 else None

    @property
    def in_band(self) -> bool:
        """Return whether what was published lies inside the predicted band, its ends included, as far as it was rounded."""
        return self.predicted.low - self.rounding <= self.published <= self.predicted.high + self.rounding

    @property
    def half_width_pct(self) -> float:
        """Return half of the band in percent of its middle."""
        return (
            50 * (self.predicted.high - self.predicted.low) / self.predicted.mid if self.predicted.mid > 0 else math.inf
        )


@dataclass(frozen=True)
class ComparedRow:
    """A row of a file with what is predicted for it."""

    id: str
    row: FileRow
    figures: tuple[ComparedFigure, ...] = ()
    """The main figure first; none where nothing can be compared."""
    verdict: Verdict | None = None
    """What memory says, for rows of memory."""
    reason: str = ""
    """Why nothing is compared, or what of the row was not counted; empty where all of it was."""

    @property
    def outcome(self) -> str | None:
        """Return whether the run booted or died, None where the row does not say."""
        return self.row.published.outcome if isinstance(self.row, PublishedRun) else None

    @property
    def verdict_holds(self) -> bool | None:
        """Return whether the verdict allows for the outcome: a run that died must not fit, one that booted must not be
        refused. None where there is no verdict or no outcome."""
        if self.verdict is None or self.outcome is None:
            return None
        return self.verdict is not (Verdict.FITS if self.outcome == "dies" else Verdict.REFUSED)


def compare(name: str, row: FileRow) -> ComparedRow:
    """Return what is predicted for a row, beside what was published."""
    if isinstance(row, UnreadRow):
        return ComparedRow(name, row, reason=row.why)
    compared = _compare_read(name, row)
    return replace(compared, reason="; ".join(filter(None, (compared.reason, row.not_counted))))


def _compare_read(name: str, row: PublishedRun | PublishedStart | PublishedVerdict) -> ComparedRow:
    if isinstance(row, PublishedStart):
        figures = tuple(_start_figures(row))
        return ComparedRow(name, row, figures, reason="" if figures else _why_no_start(row))
    if not isinstance(row, PublishedRun):
        return ComparedRow(name, row, reason="prose: not machine-readable")
    server = server_of_run(row)
    if row.what == "memory":
        return _compare_memory(name, row, server)
    if row.what == "first_token" and (row.running or 1) > 1:
        return ComparedRow(name, row, reason="a first token is predicted for an idle server only")
    return ComparedRow(name, row, (_timed_figure(row, server),))


def server_of_run(row: PublishedRun) -> Server:
    """Return the server that a row describes; what it leaves out is as vLLM has it by default."""
    model, quantization = _weights_of_run(row)
    accelerator = _machine_of_run(row)
    can = implementation_of(accelerator)
    method = row.speculation or "none"
    length = max(USUAL_LENGTH, (row.prompt_tokens or 0) + (row.output_tokens or 0))
    server = Server(
        model=model,
        accelerator=accelerator,
        vllm_version=counted_version(row.vllm),
        image_version=row.vllm,
        tensor_parallel=row.devices,
        max_model_len=row.max_model_len or length,
        max_num_seqs=row.max_num_seqs or max(USUAL_SEQS, row.running or 1),
        max_num_batched_tokens=row.max_num_batched_tokens or can.usual_batched_tokens(accelerator.device_memory_gib),
        gpu_memory_utilization=row.gpu_memory_utilization or 0.9,
        async_scheduling=can.overlaps_scheduling if row.async_scheduling is None else row.async_scheduling,
        kv_cache_dtype=row.kv_cache_dtype or "auto",
        block_size=row.block_size,
        quantization=quantization,
        speculation=method,
        speculative_tokens=row.speculative_tokens or usual_drafts(method, catalog().assistant_of(model.id)),
        cpu_offload_gib=row.cpu_offload_gib or 0.0,
        enforce_eager=bool(row.enforce_eager),
        text_only=bool(row.text_only) or DECODER_CLASS in (row.note or ""),
        compile_cache_warm=_warm(row),
    )
    if row.weights_gib_given is None:
        return server
    if row.what != "memory" and row.quantization is None:
        server = _in_nearest_format(server, row.weights_gib_given * GIB)
    return replace(server, logged_weights_gib=row.weights_gib_given)


def _machine_of_run(row: PublishedRun) -> Accelerator:
    """Return the machine of a row: the catalog's with the row's own figures, or what the row says of another one."""
    said: dict[str, object] = {"devices": row.devices}
    if row.device_memory_gib is not None:
        said["device_memory_gib"] = row.device_memory_gib
    if row.bandwidth_gb_s is not None:
        said["bandwidth"] = row.bandwidth_gb_s * 1e9
    if row.flops_tf_s is not None:
        said["flops"] = row.flops_tf_s * 1e12
    known = catalog().accelerators.get(row.hardware)
    if known is not None and known.device is row.backend:
        return known.model_copy(update=said)
    memory = row.device_memory_gib or 0.0
    return Accelerator.model_validate(
        {
            "id": row.hardware,
            "title": row.hardware,
            "platform": "elsewhere",
            "device": row.backend,
            "device_memory_gib": memory,
            "nominal_memory_gb": round(memory),
            "bandwidth": math.nan,  # rows of memory need not know it
            "flops": math.nan,
            "locations": (),
            "deployable": False,
            "source": Source(where=row.source or row.id, read=dt.date.min, confidence="reported"),
            **said,
        }
    )


def _weights_of_run(row: PublishedRun) -> tuple[Model, Quantization]:
    """Return the checkpoint of a row, and what vLLM makes of it while loading."""
    model = find_model(row.model)
    wanted = row.quantization or "none"
    if wanted == "fp8" and row.backend == "gpu":
        return model, "fp8"
    if wanted not in catalog().weight_formats or wanted == model.weight_format:
        return model, "none"
    return _in_format(model, wanted), "none"


def _in_format(model: Model, weight_format: str) -> Model:
    """Return Google's checkpoint of the same architecture in another format, else one of the size that it would have."""
    googles = (row for row in catalog().models.values() if not row.third_party)
    siblings = [row for row in googles if row.architecture == model.architecture]
    if found := next((row for row in siblings if row.weight_format == weight_format), None):
        return found
    counts = catalog().architectures[model.architecture].parameters
    narrow = catalog().weight_formats[weight_format].bytes_per_parameter * counts.linear
    size = int(narrow + BF16_BYTES * (counts.total - counts.linear))
    return model.model_copy(update={"weight_format": weight_format, "checkpoint_bytes": size})


def _in_nearest_format(server: Server, resident: float) -> Server:
    """Return the server with its weights in the format whose size is nearest to `resident` bytes on a device."""
    usual = dict.fromkeys(row.weight_format for row in catalog().models.values())
    formats = [replace(server, model=_in_format(server.model, name)) for name in usual]
    candidates = [server, *formats, replace(server, quantization="fp8")]
    return min(candidates, key=lambda one: abs(loaded_weights(one).mid - resident))


def _compare_memory(name: str, row: PublishedRun, server: Server) -> ComparedRow:
    verdict = judge(server).verdict
    figures = tuple(_memory_figures(row, server))
    return ComparedRow(name, row, figures, verdict, "" if figures else "the row has no figure that is predicted")


def _memory_figures(row: PublishedRun, server: Server) -> Iterator[ComparedFigure]:
    """Yield what a row of memory says: the KV cache from card and flags, then from given bytes, then the weights."""
    published, budget = row.published, device_budget(server)
    whole, tokens, gib = row.end_to_end is not False, published.tokens, published.kv_gib
    if whole and tokens is not None:
        ends = (budget.kv.low, budget.kv.mid, budget.kv.high)
        yield ComparedFigure("kv_tokens", "tokens", tokens, Band(*(capacity_of(server, end).tokens for end in ends)))
    if whole and gib is not None:
        yield ComparedFigure("kv_gib", "GiB", gib, budget.kv.times(1 / GIB), _rounding(gib))
    if tokens is not None and gib is not None:
        sizes = (gib - _rounding(gib), gib, gib + _rounding(gib))
        given = Band(*(capacity_of(server, GIB * size).tokens for size in sizes))
        yield ComparedFigure("kv_tokens_from_bytes", "tokens", tokens, given)
    if published.weights_gib is not None and row.weights_gib_given is None:
        weights = published.weights_gib
        yield ComparedFigure("weights_gib", "GiB", weights, budget.weights.times(1 / GIB), _rounding(weights))


def _timed_figure(row: PublishedRun, server: Server) -> ComparedFigure:
    model = SpeedModel(server, row.prompt_tokens or 1, row.output_tokens or 1)
    if row.what == "first_token":
        ms = model.estimate(1).ttft_s.times(1000)
        return ComparedFigure("first_token_ms", "ms", row.published.first_token_ms or 0.0, ms)
    low, mid, high = (
        rate.with_new_prompts if row.prompts == "new" else rate.total
        for rate in (model.tokens_per_second_at(requests) for requests in _at_once(row, server))
    )
    band = Band(min(low.low, mid.low), mid.mid, max(mid.high, high.high))
    return ComparedFigure("tokens_per_second", "tokens/s", row.published.tokens_per_second or 0.0, band)


def _at_once(row: PublishedRun, server: Server) -> tuple[int, int, int]:
    """Return how many of a row's requests run at once, at least, likely and at most: the others wait for a place in the batch
    or in the KV cache, where each is half way through its answer. As many as the row says where the weights leave no cache,
    since its flags must have been others."""
    wanted = min(row.running or 1, server.max_num_seqs)
    kv, length = device_budget(server).kv, (row.prompt_tokens or 1) + (row.output_tokens or 1) // 2
    if kv.mid <= 0:
        return wanted, wanted, wanted
    low, mid, high = (capacity_of(server, end).requests_held(length) for end in (kv.low, kv.mid, kv.high))
    # Where some wait, a place is free for a while whenever one has ended, and the next may be let in a little early.
    low, high = (low - 1, high + 1) if mid < wanted else (low, high)
    return max(1, min(wanted, low)), max(1, min(wanted, mid)), max(1, min(wanted, high))


def _start_figures(row: PublishedStart) -> Iterator[ComparedFigure]:
    """Yield what of a start is predicted wherever it runs: the engine's own start, and a copy from a bucket."""
    server = _server_of_start(row)
    if row.engine_init_s is not None and server is not None:
        cold = Band.total(stage.seconds for stage in engine_stages(server))
        band = cached_engine_seconds(server) if _warm(row) else cold
        yield ComparedFigure("engine_start_s", "s", row.engine_init_s, band)
    if row.gcs_restore_s is not None and row.gib is not None:
        yield ComparedFigure(
            "bucket_copy_s", "s", row.gcs_restore_s, read_rate(WeightPath.BUCKET_COPY).dividing(row.gib * GIB)
        )


def _why_no_start(row: PublishedStart) -> str:
    if row.engine_init_s is None:
        return "its stages are not those of a platform here, and its engine's own start is not given"
    return "its description names no model and machine that are known"


def _warm(row: PublishedStart | PublishedRun) -> bool:
    """Return whether the compile cache was full already: a second start, or one that says so."""
    return re.search(r"\b(second (start|boot|run)|warm(?![- ]?up))\b", f"{row.what} {row.note or ''}") is not None


def _server_of_start(row: PublishedStart) -> Server | None:
    """Return the server of a start: by its keys, else by the words of its description; None where these name no model."""
    words = row.what.lower().replace("-", " ").split()
    names = {one.id: one.architecture.split("-")[0] for one in catalog().models.values()}
    model = row.model or next((name for name, size in names.items() if size in words), None)
    if model is None:
        return None
    chip = re.search(r"\bv\d\w-(\d+)\b", row.what.lower())
    backend = row.backend or (Device.TPU if chip else Device.GPU)
    devices = int(chip[1]) if chip and row.backend is None else row.devices
    run = PublishedRun(
        id=row.id or row.what,
        what="memory",
        model=model,
        hardware="described",
        backend=backend,
        devices=devices,
        device_memory_gib=80.0,  # no stage of an engine's start depends on it
        published=PublishedFigures(),
    )
    return server_of_run(run)


def _rounding(gib: float) -> float:
    """Return half of the last decimal of a logged size, of which there are at least two."""
    return 0.5 * 10.0 ** -max(LOGGED_GIB_DECIMALS, len(repr(gib).partition(".")[2]))
