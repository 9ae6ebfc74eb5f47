"""What vLLM's CUDA worker sets aside at start-up beside the weights: a dry run at full batch, CUDA graphs, buffers.

The worker runs the model once on made-up input and subtracts from its share of the device what that took at its peak. What
the dry run holds, and which parts are subtracted, differs by version and by model runner, read in the sources of vLLM 0.19,
0.22 and 0.24 to 0.33. The sizes of tensors are counted; four constants are fits and say so.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.catalog import BF16_BYTES, FLOAT32_BYTES, GIB, VisionTower
from infra.planning.memory.kv_blocks import counted_minor
from infra.planning.server.server import VIDEO_TOKENS, Server
from infra.planning.units import Band

MIB = 1024**2

NON_TORCH = 0.15 * GIB
"""Kernels and handles that appear outside PyTorch's allocator. A fit: 0.1 to 0.2 GiB are left of boots on L4 and T4, 0.25
was logged on a B300."""
GRAPH_BYTES_PER_LAYER = 0.155 * MIB
"""One CUDA graph of one layer. A fit to five models with 86 graphs each; 0.13 by the one estimate that was logged (31B)."""
COLD_ROWS = 7
"""Copies of the rows of an embedding that lie beside its made-up table while the kernels of a cold start are timed. A fit to
four models; the table itself is counted."""
OVERHEAD_ERROR = 0.12 * GIB
OVERHEAD_ERROR_SHARE = 0.05
"""The band of the overhead: this much, and this share of it. With each machine or each model left out of the fit in turn,
the overhead of 21 boots of 0.19 to 0.30 was off by 0.04 GiB in the median, and by at most 0.12 in four of five."""

OLDER_RUNNER = 0.3 * GIB
"""What the older runner takes beyond the counted tensors: its top-k kernel keeps a row of logits for each of 60 to 150
multiprocessors; the rest is a fit to three boots (0.19, 0.22, 0.26), which lie within 0.03 GiB of it."""

VIDEO_FRAMES, FRAME_TOKENS, PATCHES_PER_TOKEN = 32, 70, 9
PATCH_VALUES = 768
"""Numbers of one patch: 16 x 16 points in three colours."""
POSITIONS = 10_240
"""Rows of the vision tower's table of positions."""


@dataclass(frozen=True)
class StartUp:
    """How a version of vLLM sizes the KV cache: what its dry run does and what it subtracts."""

    new_runner: bool
    """Model Runner V2: its sampler neither sorts nor draws in the dry run, and keeps counts for penalties on the device."""
    profiles_encoder: bool
    """Whether the dry run encodes images or video."""
    counts_buffers: bool
    """Whether buffers that live from the start count: since 0.27 free memory is compared, before it PyTorch's own peak."""
    counts_graphs: bool
    """Whether the CUDA graphs, captured later, are estimated and subtracted."""
    warms_sampler: bool
    """Whether the dry run samples once more with every option on."""


def start_up_of(server: Server, *, older_runner: bool = False) -> StartUp:
    """Return how the server's version sizes the KV cache, with the older runner where that is asked for.

    Model Runner V2 serves dense models since 0.25 and mixtures of experts since 0.29; n-gram drafts keep the older runner
    until 0.31. It ran no encoder until 0.26, and estimates CUDA graphs since 0.29; the older runner does so since 0.21.
    """
    minor = counted_minor(server.vllm_version)
    new = minor >= (29 if server.mixture else 25) and not (server.speculation == "ngram" and minor <= 31)
    new = new and not older_runner
    return StartUp(
        new_runner=new,
        profiles_encoder=not server.text_only and (not new or minor >= 27),
        counts_buffers=minor >= 27,
        counts_graphs=not server.enforce_eager and minor >= (29 if new else 21),
        warms_sampler=new and minor >= 33,
    )


def gpu_overhead(server: Server) -> Band:
    """Return what vLLM sets aside on one GPU at start-up, bytes, with its error."""
    start, older = start_up_of(server), start_up_of(server, older_runner=True)
    mid = most = _overhead(server, start)
    if start.new_runner and not start.counts_graphs and not server.enforce_eager:
        # A boot of 31B with 0.26.0 logged what the older runner takes, although that version chooses the newer one.
        most = max(mid, _overhead(server, older))
    error = OVERHEAD_ERROR + OVERHEAD_ERROR_SHARE * mid
    return Band(max(0.5 * NON_TORCH, mid - error), mid, max(most, mid + error))


def cold_start_bytes(server: Server) -> float:
    """Return what a start without a compile cache sets aside beyond a start with one, bytes.

    A server of text alone gathers the embedding inside the compiled graph. At a cold start PyTorch's Inductor times that
    kernel on made-up arguments (vLLM sets benchmark_combo_kernel), among them a table as large as the embedding's; this
    happens during the dry run, whose peak is subtracted. With images the embedding is gathered outside.
    """
    if not server.text_only or server.enforce_eager:
        return 0.0
    start = start_up_of(server)
    rows = COLD_ROWS * server.max_num_batched_tokens * _widest_row(server) * BF16_BYTES
    return max(0.0, largest_table_bytes(server) + rows - _dry_run(server, start))


def largest_table_bytes(server: Server) -> float:
    """Return the bytes of the largest embedding table on one device: the per-layer one of E2B and E4B."""
    tables = server.architecture.parameters
    return BF16_BYTES * max(tables.embedding, tables.per_layer_embedding) / server.tensor_parallel


def graph_sizes(server: Server) -> int:
    """Return how many CUDA graphs are captured, of the whole model and of its pieces, by vLLM's default list of sizes.

    Each size is captured once more for batches with LoRA adapters, where any are served.
    """
    tokens = 1 + (server.speculative_tokens if server.speculation != "none" else 0)
    largest = min(2 * server.max_num_seqs * tokens, 512, server.max_num_batched_tokens)
    sizes = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
    whole = min(largest, server.max_num_seqs * tokens)
    sets = 2 if server.adapters else 1
    return sets * sum(int(size <= largest) + int(size <= whole) for size in sizes)


def _overhead(server: Server, start: StartUp) -> float:
    graphs = GRAPH_BYTES_PER_LAYER * server.architecture.layers * graph_sizes(server) if start.counts_graphs else 0.0
    buffers = _buffers(server, start) if start.counts_buffers else 0.0
    cold = 0.0 if server.compile_cache_warm else cold_start_bytes(server)
    return NON_TORCH + buffers + graphs + _dry_run(server, start) + cold


def _buffers(server: Server, start: StartUp) -> float:
    """Return the buffers of the runner: counts for penalties, bit masks, and the embedded input where images may come."""
    embedded = 0 if server.text_only else BF16_BYTES * server.max_num_batched_tokens * server.architecture.hidden_size
    if not start.new_runner:
        return embedded
    bits = server.architecture.vocab_size / 8
    drafts = server.speculative_tokens if server.speculation != "none" else 0
    per_request = FLOAT32_BYTES * server.architecture.vocab_size + bits * (2 + drafts)
    return server.max_num_seqs * per_request + embedded


def _dry_run(server: Server, start: StartUp) -> float:
    """Return the peak of the dry run: of the encoder, of one forward pass, or of the sampler."""
    arch, batch = server.architecture, server.max_num_batched_tokens
    encoder = kept = 0.0
    if start.profiles_encoder:
        videos = max(batch, VIDEO_TOKENS) // VIDEO_TOKENS
        kept = BF16_BYTES * videos * VIDEO_FRAMES * FRAME_TOKENS * arch.hidden_size
        encoder = _encoder(server, arch.vision_tower, videos)
    seqs = min(server.max_num_seqs, batch)
    logits = seqs * arch.vocab_size * _bytes_per_logit(start)
    sampler = logits + BF16_BYTES * (batch + seqs) * arch.hidden_size + (0.0 if start.new_runner else OLDER_RUNNER)
    return kept + max(encoder, _forward(server), sampler)


def _bytes_per_logit(start: StartUp) -> int:
    """Return the bytes of each logit at the sampler's peak.

    The older runner holds it in bf16 and three times in float32 (the logits, their softmax, the noise). The newer one caps
    it in bf16, of which two copies are alive; with options on, it makes one float32 copy and the probabilities of that.
    """
    if not start.new_runner:
        return BF16_BYTES + 3 * FLOAT32_BYTES
    return BF16_BYTES + 2 * FLOAT32_BYTES if start.warms_sampler else 2 * BF16_BYTES


def _forward(server: Server) -> float:
    """Return the activations alive in an MLP of the decoder: gate, up and their product, beside hidden and per-layer rows."""
    arch, tp = server.architecture, server.tensor_parallel
    width = arch.intermediate_size * (2 if arch.double_wide_shared_mlp else 1)
    numbers = 3 * width / tp + 3 * arch.hidden_size + 3 * _per_layer_width(server)
    if arch.experts is not None:
        numbers += arch.experts.active * (3 * arch.experts.intermediate_size / tp + arch.hidden_size)
    return BF16_BYTES * server.max_num_batched_tokens * numbers


def _encoder(server: Server, tower: VisionTower | None, videos: int) -> float:
    """Return the peak of encoding `videos` videos of the largest size: frames go through the tower in chunks."""
    patches = FRAME_TOKENS * PATCHES_PER_TOKEN
    frames = videos * VIDEO_FRAMES
    pixels = BF16_BYTES * frames * patches * PATCH_VALUES
    if tower is None:
        return 2 * FLOAT32_BYTES / BF16_BYTES * pixels
    # vLLM bounds a chunk by a tenth of the device, at 32 bytes for each patch and position.
    room = 0.1 * server.accelerator.device_memory_gib * GIB / (patches * POSITIONS * 32)
    chunk = min(frames, max(1, int(room)))
    numbers = chunk * patches * (3 * tower.intermediate_size + 3 * tower.hidden_size)
    return BF16_BYTES * (numbers + 2 * frames * patches * tower.hidden_size) + pixels


def _per_layer_width(server: Server) -> int:
    return server.architecture.parameters.per_layer_embedding // server.architecture.vocab_size


def _widest_row(server: Server) -> int:
    return max(server.architecture.hidden_size, _per_layer_width(server))
