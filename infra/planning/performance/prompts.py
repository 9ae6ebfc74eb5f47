"""What prompts cost: the time to the first token, and the rate when every request brings a new prompt.

A prompt is counted as arithmetic, or as reading the weights once a chunk where that takes longer. A prompt that the
prefix cache holds costs nothing here. Not modelled: the network, images and audio, and queueing.
"""

from __future__ import annotations

import math

from infra.planning.performance.decode import flop_seconds, step_of
from infra.planning.server.server import Server
from infra.planning.units import Band

PREFILL_FLOPS_SHARE = 0.6
"""Share of the dense bf16 peak that a prompt reaches (fitted to four models on an L4 at 16K, all within 13 %)."""
SOURCE = "prompt: uncached prefill of four Gemma 4 sizes on one L4 (read 2026-11-21)"


def first_token(server: Server, prompt_tokens: int) -> Band:
    """Return the seconds to the first token of one uncached prompt on an idle server."""
    return Band.around(_prompt_seconds(server, prompt_tokens), _prefill_error(server))


def rate_with_new_prompts(
    server: Server, requests: int, prompt_tokens: int, output_tokens: int, *, decoding: Band
) -> Band:
    """Return the output tokens/s of all `requests` together when each brings a prompt that is not in the prefix cache.

    `decoding` is their rate where no prompt is worked on.
    """
    answer_s = output_tokens / (decoding.mid / requests)
    mid = requests * output_tokens / (answer_s + requests * _prompt_seconds(server, prompt_tokens))
    down, up = 1 - decoding.low / decoding.mid, decoding.high / decoding.mid - 1
    error = _prefill_error(server)
    return Band.around(mid, max(down, error), error_up=max(up, error))


def _prompt_seconds(server: Server, prompt_tokens: int) -> float:
    """Return the time of one prompt: its arithmetic, or reading the weights once a chunk if that is longer, plus launches.

    Two operations a parameter and token, plus attention: full layers see half the prompt, sliding ones their window.
    """
    arch = server.architecture
    full_share = arch.full_layers_with_kv / (arch.full_layers_with_kv + arch.sliding_layers_with_kv)
    full_layers = full_share * arch.layers
    seen = full_layers * arch.global_head_dim * prompt_tokens / 2
    seen += (arch.layers - full_layers) * arch.head_dim * min(prompt_tokens / 2, arch.sliding_window)
    flop = prompt_tokens * (2 * arch.active_parameters + 4 * arch.attention_heads * seen)
    chunk = min(prompt_tokens, server.max_num_batched_tokens)
    chunks = math.ceil(prompt_tokens / chunk)
    read = step_of(server, 0, 0.0, tokens=chunk)
    compute_s = flop_seconds(server, flop, PREFILL_FLOPS_SHARE)
    return max(compute_s, chunks * (read.bandwidth_s + read.pcie_s)) + chunks * read.launch_s


def _prefill_error(server: Server) -> float:
    if "prompt" not in server.accelerator.measured:
        return 0.40
    return 0.35 if server.mixture else 0.25
