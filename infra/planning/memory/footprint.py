"""What a server takes from a device and its host before any KV cache: weights, runtime overhead, programs.

Weights are counted. The overhead on GPU is fitted to a few public boots, the program memory on TPU is only bracketed
by them: both carry a band, and the constants below say what they rest on (read 2026-11-21).
"""

from __future__ import annotations

from infra.catalog import BF16_BYTES, GIB, catalog
from infra.planning.memory.kv_blocks import TPU_USUAL_SEQS
from infra.planning.server.server import Server
from infra.planning.units import Band

# GPU runtime, fitted in sample to boots of vLLM 0.19 to 0.27 (B300, H100, A100, L40S, 24 GB cards).
NON_TORCH = 0.25 * GIB
CONTEXT = 0.33 * GIB
"""CUDA context beside the tensors while the model is built; closes the arithmetic of one logged out-of-memory error."""
OVERHEAD_ERROR = 0.8 * GIB
LARGE_BATCH_ERROR = 1.7 * GIB
"""By how much the activation of 16,384 batched tokens was under-predicted; nothing is known in between 8,192 and it."""
GRAPHS = (0.15 * GIB, 0.8 * GIB)
"""CUDA graphs of few and of 256 or more sequences."""
VISION_PROFILE = 0.3 * GIB
VISION_PROFILE_WITHOUT_TOWER = 0.1 * GIB
SAMPLER_BYTES = 12
"""Bytes for each logit of each sequence while vLLM profiles its sampler."""

TPU_WEIGHTS_ERROR = (0.005, 0.055)
"""E2B was resident on TPU as counted; one note has 12B 5.5 % above its count."""

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


def loaded_weights(server: Server) -> Band:
    """Return the resident weights of one device, bytes, before anything is offloaded and without an assistant."""
    if server.logged_weights_gib is not None:
        return Band.exactly(server.logged_weights_gib * GIB)
    arch, tp = server.architecture, server.tensor_parallel
    down, up = server.weight_format.resident_error
    if server.implementation.keeps_checkpoint_as_it_is:
        # The JAX path skips the audio tower and keeps the K and V of KV-shared layers.
        counted = float(server.model.checkpoint_bytes - server.weights.audio)
        if arch.tpu_resident_gib_reported is None:
            down, up = TPU_WEIGHTS_ERROR
        else:
            counted = max(counted, arch.tpu_resident_gib_reported * GIB)
        return Band.around(counted / tp, down, error_up=up)
    # vLLM skips the K and V of KV-shared layers, yet logged load sizes are nearer to the checkpoint than to the count.
    stored = server.weights.total + server.weights.shared_kv + server.weights.duplicated_value
    return Band.total([Band.around(stored / tp, down, error_up=up), Band.exactly(arch.rope_cache_bytes)])


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


def gpu_overhead(server: Server) -> Band:
    """Return what vLLM sets aside on one GPU at start-up, bytes: CUDA runtime, activation, graphs, vision profile.

    Activation is the larger of one forward pass over max_num_batched_tokens and the sampler over max_num_seqs.
    """
    arch, batch, tp = server.architecture, server.max_num_batched_tokens, server.tensor_parallel
    width = arch.intermediate_size * (2 if arch.double_wide_shared_mlp else 1)
    forward = batch * (2 * width * BF16_BYTES / tp + 8 * arch.hidden_size * BF16_BYTES)
    if arch.experts is not None:
        per_expert = 3 * arch.experts.intermediate_size / tp + arch.hidden_size
        forward += batch * arch.experts.active * per_expert * BF16_BYTES
    activation = max(forward, SAMPLER_BYTES * server.max_num_seqs * arch.vocab_size)
    few, many = GRAPHS
    graphs = 0.0 if server.enforce_eager else few + (many - few) * min(1.0, server.max_num_seqs / 256)
    profile = VISION_PROFILE if arch.vision_tower else VISION_PROFILE_WITHOUT_TOWER
    overhead = NON_TORCH + activation + graphs + (0.0 if server.text_only else profile)
    error_up = OVERHEAD_ERROR + LARGE_BATCH_ERROR * max(0.0, batch / 8192 - 1)
    return Band(max(NON_TORCH, overhead - OVERHEAD_ERROR), overhead, overhead + error_up)


def loading_extra_bytes(server: Server) -> float:
    """Return what a GPU needs beside the weights while the model is built, for a moment and whatever the utilization.

    The output embedding is allocated before it is tied to the input embedding, so that it counts twice.
    """
    return CONTEXT + BF16_BYTES * server.architecture.parameters.embedding / server.tensor_parallel


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
    """Return the host's memory in use: the server's processes, `offloaded` bytes a device, a checkpoint staged in memory,
    and what streaming takes."""
    staged = server.model.checkpoint_bytes if server.hosting.staged_in_memory else 0
    pinned = PINNED_ROUNDING.times(offloaded * server.tensor_parallel)
    return Band.total([HOST_MEMORY, pinned, Band.exactly(staged + streamer_bytes(server))])


def error_origin(server: Server) -> str:
    """Return in a phrase where the band of the KV cache size comes from."""
    if not server.implementation.programs_outside_share:
        return "runtime overhead is a fit to known boots"
    if server.architecture.tpu_resident_gib_reported is not None:
        return "weights as one note reports them"
    return "weights may take more than their count"
