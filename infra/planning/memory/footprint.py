"""What a server takes from a device and its host before any KV cache: weights, programs, memory of the host.

Weights are counted, and corrected to what vLLM logged of the catalog's checkpoints. The program memory on TPU is only
bracketed by public boots. What vLLM sets aside on a GPU beside them is in `gpu_overhead.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from infra.catalog import BF16_BYTES, GIB, catalog
from infra.planning.memory.kv_blocks import TPU_USUAL_SEQS
from infra.planning.server.server import Server
from infra.planning.units import Band

CONTEXT = 0.33 * GIB
"""CUDA context beside the tensors while the model is built; closes the arithmetic of one logged out-of-memory error."""
LOGGED_BATCH = 2048
"""max_num_batched_tokens of the logged loads of E2B and E4B, whose rows of per-layer embeddings count with the weights."""
LOGGED_WEIGHTS_ERROR = 0.007
"""Relative error of a size that was logged: 58.9 and 58.99 GiB of 31B, 15.08 and 15.18 of E4B by version."""

TPU_WEIGHTS_ERROR = (0.003, 0.012)
"""Published residences lie 0.0 to 0.4 % above the count (E2B, 12B in both paths, 26B in bf16 and fp8, 31B in int4), one of
E2B on four chips perhaps 2 %."""
EXPERT_TILE = 128
"""Columns of a TPU's tile, to which tpu-inference pads the local part of the experts (process_w13_for_gmm)."""

HOST_MEMORY = Band(3 * GIB, 6 * GIB, 10 * GIB)
"""Host memory of the server's own processes: 3 GB measured for one API process; the streamer's buffers come on top."""

PINNED_ROUNDING = Band(1.0, 1.25, 1.5)
"""Host memory over the bytes that are offloaded: vLLM pins each tensor by itself, and PyTorch's host allocator rounds
each up to a power of two. 1.26 by the tensor sizes of 31B QAT, below 2 for any."""

TPU_PROGRAMS = Band(0.6 * GIB, 1.6 * GIB, 3.1 * GIB)
"""Compiled programs on TPU live outside the utilization cap: 0.62 GiB was left by a published configuration (31B at
0.98), 3.1 GiB sufficed for every model. What a model was seen to need is in the catalog."""
TPU_LARGE_SEQS = 1024
TPU_PROGRAMS_LARGE_BATCH = Band(3.3 * GIB, 4.0 * GIB, 4.65 * GIB)
"""With 1,024 sequences: 31B on v6e-8 asked for 1.50 GiB with 0.71 of 2.5 left at 0.92, and boots with 4.69 at 0.85."""

LOGGED_ROUNDING_GIB = 0.01
"""By how much a size that vLLM logged, with two decimals, may differ from the memory in use, GiB."""


def loaded_weights(server: Server) -> Band:
    """Return the resident weights of one device, bytes, before anything is offloaded and without an assistant."""
    if server.logged_weights_gib is not None:
        return Band.around(server.logged_weights_gib * GIB, LOGGED_ROUNDING_GIB / server.logged_weights_gib)
    down_on_tpu, up_on_tpu = TPU_WEIGHTS_ERROR
    if server.implementation.keeps_checkpoint_as_it_is:
        return Band.around(counted_on_tpu(server), down_on_tpu, error_up=up_on_tpu)
    beyond = _beyond_count(server)
    down, up = server.weight_format.resident_error if beyond is None else (LOGGED_WEIGHTS_ERROR, LOGGED_WEIGHTS_ERROR)
    return Band.around(counted_on_gpu(server) + (beyond or 0.0) / server.tensor_parallel, down, error_up=up)


def _beyond_count(server: Server) -> float | None:
    """Return by how much vLLM logged more than the count, over all devices; None where nobody logged such a checkpoint.

    A fine-tune in the format of the catalog's checkpoint is expected to load as that one.
    """
    logged, listed = catalog().loaded_sizes.get(server.model.id), catalog().models.get(server.model.id)
    if logged is None or listed is None or listed.weight_format != server.model.weight_format:
        return None
    usual = replace(server, model=listed, tensor_parallel=1, quantization="none", text_only=False)
    beyond = logged.gib * GIB - counted_on_gpu(replace(usual, max_num_batched_tokens=LOGGED_BATCH))
    own = server.weights.own_lm_head
    return beyond - own if beyond > own else beyond


def counted_on_gpu(server: Server) -> float:
    """Return the bytes that vLLM allocates for the weights on one GPU by count.

    Without the towers where only text is served, and without an output embedding that the checkpoint has of its own.
    Rotary tables and the rows of per-layer embeddings of a full batch are on every device.
    """
    arch, weights = server.architecture, server.weights
    towers = weights.vision + weights.audio if server.text_only else 0.0
    rows = BF16_BYTES * server.max_num_batched_tokens * arch.parameters.per_layer_embedding / arch.vocab_size
    stored = weights.total + weights.duplicated_value - towers
    return stored / server.tensor_parallel + arch.rope_cache_bytes + rows


def counted_on_tpu(server: Server) -> float:
    """Return the bytes of the weights on one chip.

    The JAX path keeps the checkpoint as it is, K and V of KV-shared layers and a second output embedding included, without
    the audio tower, and without any tower where it serves the decoder alone. The PyTorch path has vLLM's own modules, but
    does not tie the output embedding: 12B took 24.56 GiB where its checkpoint has 22.28.
    """
    arch, tp, weights = server.architecture, server.tensor_parallel, server.weights
    if server.pytorch_on_tpu:
        untied = weights.own_lm_head or weights.embedding
        stored = weights.total - weights.own_lm_head + untied + weights.duplicated_value
        return stored / tp + arch.rope_cache_bytes
    towers = weights.audio + (weights.vision if server.decoder_alone else 0.0)
    return (server.model.checkpoint_bytes - towers + weights.experts * _expert_padding(server)) / tp


def _expert_padding(server: Server) -> float:
    """Return what padding adds to the experts on TPU, as a share: two of their three matrices get columns in whole tiles of
    128 on each chip, so that 704 become 1,024 on four or eight chips."""
    if server.architecture.experts is None:
        return 0.0
    columns, tp = server.architecture.experts.intermediate_size, server.tensor_parallel
    padded = tp * EXPERT_TILE * math.ceil(columns / tp / EXPERT_TILE)
    return 2 / 3 * (padded / columns - 1)


def offloadable_bytes(server: Server) -> float:
    """Return the most bytes of one device's weights that vLLM moves to host memory: its decoder layers."""
    if not server.implementation.offloads_weights:
        return 0.0
    return server.weights.linear / server.tensor_parallel


def assistant_bytes(server: Server) -> float:
    """Return the bytes of the MTP drafter on one device: weights, and rotary tables of its own on GPU, but no KV cache."""
    assistant = catalog().assistant_of(server.model.id)
    if server.speculation != "mtp" or assistant is None:
        return 0.0
    rope = 0 if server.implementation.keeps_checkpoint_as_it_is else server.architecture.rope_cache_bytes
    return BF16_BYTES * assistant.parameters / server.tensor_parallel + rope


def loading_extra_bytes(server: Server) -> float:
    """Return what a GPU needs beside the weights while the model is built, for a moment and whatever the utilization.

    The output embedding is allocated before it is tied to the input embedding, so that it counts twice; one of its own stays.
    """
    tied = 0.0 if server.weights.own_lm_head else BF16_BYTES * server.architecture.parameters.embedding
    return CONTEXT + tied / server.tensor_parallel


def tpu_programs(server: Server) -> Band:
    """Return the memory that programs need outside the utilization cap, a chip; bracketed by boots, not modelled."""
    seen = catalog().program_sizes.get((server.architecture.id, server.speculation != "none"))
    usual = Band(*(GIB * end for end in seen.gib)) if seen else TPU_PROGRAMS
    large = TPU_PROGRAMS_LARGE_BATCH
    if server.max_num_seqs >= TPU_LARGE_SEQS:
        return large.times(server.max_num_seqs / TPU_LARGE_SEQS)
    growth = max(0, server.max_num_seqs - TPU_USUAL_SEQS) / (TPU_LARGE_SEQS - TPU_USUAL_SEQS)
    ends = ((usual.low, large.low), (usual.mid, large.mid), (usual.high, large.high))
    return Band(*(few + growth * (many - few) for few, many in ends))


def streamer_bytes(server: Server) -> int:
    """Return the host memory that streaming takes: the buffers, and the copy that vLLM makes of one tensor."""
    if not server.streamed:
        return 0
    return server.streamer_limit_bytes + server.largest_tensor_bytes


def host_memory(server: Server, offloaded: float) -> Band:
    """Return the host's memory in use by all servers on it: their processes, `offloaded` bytes a device, what streaming
    takes, and a checkpoint staged in memory, once for all of them."""
    staged = server.model.checkpoint_bytes if server.hosting.staged_in_memory else 0
    pinned = PINNED_ROUNDING.times(offloaded * server.tensor_parallel)
    each = Band.total([HOST_MEMORY, pinned, Band.exactly(streamer_bytes(server))])
    return Band.total([each.times(server.hosting.servers), Band.exactly(staged)])


def error_origin(server: Server) -> str:
    """Return in a phrase where the band of the KV cache size comes from."""
    if not server.implementation.programs_outside_share:
        return "start-up overhead, as published boots differ from its count"
    return "weights may take more than their count"
