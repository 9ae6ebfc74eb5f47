"""What prompts cost: the time to the first token, and the rate when every request brings a new prompt.

vLLM cuts prompts into steps of at most `max_num_batched_tokens` and lets running requests decode in the same steps. A step
reads the weights once, whatever passes through them, and its linear layers take as long as that or as their arithmetic and
the traffic of activations, whichever is more; attention comes on top. A short prompt is therefore almost free beside requests
that decode. The output embedding is applied to the last token only. KV-shared layers (E2B, E4B) compute every token of a
prompt: vLLM skips them only with --kv-sharing-fast-prefill, which is off unless somebody asks for it.

A prompt that the prefix cache holds costs nothing here: where a part of the prompts is cached, a rate lies between
`rate_with_new_prompts` and decoding alone. Weights in fp8 are counted at the rate of bf16. Not modelled: collectives between
devices, the network, images and audio, and queueing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from infra.catalog import BF16_BYTES, catalog
from infra.planning.performance.decode import flop_seconds, launch_s, step_of
from infra.planning.server.server import Server
from infra.planning.units import Band

LINEAR_FLOPS_SHARE = 0.8
"""Share of the dense bf16 peak that the linear layers reach on a prompt (fitted: see SOURCE)."""
ACTIVATION_PASSES = 40
"""How often a token's hidden state, in bf16, goes through memory in a layer beside the matrix multiplications: norms,
residuals, rotary, the wide inner state of the MLP. Fitted; counted operation by operation, with nothing fused, it is 48 to 64
times. It is why a machine with little arithmetic for its bandwidth (v5e) comes nearer to its peak than one with much (v6e)."""
ATTENTION_FLOPS_SHARE = 0.35
"""Share of it that attention reaches on a prompt (fitted): with heads of 256 and 512, both Triton's kernel on GPUs and the
ragged paged one on TPU read K and V again for each small block of queries."""
REQUEST_S = 0.008
"""Seconds that a request spends outside the engine's steps: API, tokenising, scheduling, sampling and the way back (fitted to
first tokens of prompts of 128 on v6e-1, which take 7 to 8 ms more than a step)."""
TIMED_ERROR, GUESSED_ERROR, SHARED_ERROR = 0.24, 0.30, 0.40
"""Relative error of a prompt's time on machines where prompts were timed, on others, and where several devices share a model.

The first holds 80 % of runs: with the constants fitted to all others, four in five of 14 first tokens on TPU are off by 23 %
where a model was left out and by 25 % where a machine was; single runs left out by up to 32 %, since each constant hangs on few
of them. The second is what a machine that was left out has at worst. The third is a judgement: nobody timed it, and
collectives are not counted."""
SOURCE = (
    "prompt: first tokens of E2B, E4B and 12B on v6e-1 and v5e-1, 128 to 65,376 tokens, and of four sizes on one L4 at 16,384 "
    "(read 2026-11-22)"
)


def first_token(server: Server, prompt_tokens: int) -> Band:
    """Return the seconds to the first token of one uncached prompt on an idle server."""
    seconds = REQUEST_S + _attention_seconds(server, prompt_tokens)
    for steps, tokens in _steps(server, prompt_tokens):
        seconds += steps * (_linear_seconds(server, tokens) + launch_s(server))
    return Band.around(seconds, _error(server))


def rate_with_new_prompts(
    server: Server, requests: int, prompt_tokens: int, output_tokens: int, *, decoding: Band
) -> Band:
    """Return the output tokens/s of all `requests` together when each brings a prompt that is not in the prefix cache.

    `decoding` is their rate where no prompt is worked on. Whenever a request ends, the next one comes at once. A request
    then lasts as long as its answer takes to decode, plus what the prompts of all requests add to the steps meanwhile.
    """
    answer_s = requests * output_tokens / decoding.mid
    prompts_s = _added_seconds(server, requests, prompt_tokens, output_tokens)
    cycle_s = answer_s + prompts_s
    # Two errors that have nothing to do with each other count by their share of the time.
    down, up = (
        math.hypot(answer_s / cycle_s * (end / decoding.mid - 1), prompts_s / cycle_s * _error(server))
        for end in (decoding.low, decoding.high)
    )
    return Band.around(requests * output_tokens / cycle_s, down, error_up=up)


def _added_seconds(server: Server, requests: int, prompt_tokens: int, output_tokens: int) -> float:
    """Return by how long the prompts of `requests` requests, one each, make every one of these requests last longer.

    Requests of one length that started together end together, so that their prompts fill steps together as well.
    """
    budget, all_tokens = server.max_num_batched_tokens, requests * prompt_tokens
    plain_s = _linear_seconds(server, 0, beside=requests)
    seconds = REQUEST_S + requests * _attention_seconds(server, prompt_tokens)
    for steps, tokens in _steps(server, all_tokens):
        seconds += steps * (_linear_seconds(server, tokens, beside=requests) - plain_s)
    # Steps that bring none of a request's tokens: those before the last of a long prompt, or those of others' prompts.
    further = max(math.ceil(prompt_tokens / budget) - 1, math.ceil(all_tokens / budget) - output_tokens)
    return seconds + further * (plain_s + launch_s(server))


def _steps(server: Server, tokens: int) -> Iterator[tuple[int, int]]:
    """Yield how many steps take how many of `tokens` prompt tokens: the full ones, and the last one."""
    full, rest = divmod(tokens, server.max_num_batched_tokens)
    if full:
        yield full, server.max_num_batched_tokens
    if rest:
        yield 1, rest


def _linear_seconds(server: Server, prompt_tokens: int, *, beside: int = 0) -> float:
    """Return the time of the linear layers in a step with so many prompt tokens `beside` requests that decode: that of reading
    the weights or of the arithmetic, whichever is longer."""
    arch, slow = server.architecture, catalog().slow_prompts.get(server.accelerator.id)
    tokens = _padded(server, prompt_tokens) + beside
    read = step_of(server, 0, 0.0, tokens=prompt_tokens + beside)
    flop = 2 * tokens * (arch.active_parameters - arch.parameters.embedding)
    computing_s = flop_seconds(server, flop, LINEAR_FLOPS_SHARE)
    if slow is not None:
        computing_s = flop / (slow.linear_flops * server.tensor_parallel)
    # Devices that share a model divide the inner states among them, but each works on the whole hidden state.
    passes = ACTIVATION_PASSES * (1 + 1 / server.tensor_parallel) / 2
    computing_s += passes * tokens * arch.layers * arch.hidden_size * BF16_BYTES / server.accelerator.bandwidth
    return max(read.bandwidth_s + read.pcie_s, computing_s)


def _padded(server: Server, tokens: int) -> int:
    """Return how many tokens a step computes: on TPU the next power of two, as far as one step may take."""
    least = server.implementation.least_step_tokens
    if least is None or not tokens:
        return tokens
    bucket = max(least, 1 << (tokens - 1).bit_length())
    return max(tokens, min(bucket, server.max_num_batched_tokens))


def _attention_seconds(server: Server, prompt_tokens: int) -> float:
    """Return the time of attention over a whole prompt: a token sees those before it, on sliding layers in its window."""
    arch = server.architecture
    full_layers = arch.layers * arch.full_layers_with_kv / (arch.full_layers_with_kv + arch.sliding_layers_with_kv)
    seen_in_window = min(prompt_tokens / 2, arch.sliding_window)
    seen = full_layers * arch.global_head_dim * prompt_tokens / 2
    seen += (arch.layers - full_layers) * arch.head_dim * seen_in_window
    flop = 4 * arch.attention_heads * seen * prompt_tokens
    slow = catalog().slow_prompts.get(server.accelerator.id)
    if slow is not None:
        return flop / (slow.attention_flops * server.tensor_parallel)
    return flop_seconds(server, flop, ATTENTION_FLOPS_SHARE)


def _error(server: Server) -> float:
    if server.tensor_parallel > 1:
        return SHARED_ERROR
    return TIMED_ERROR if "prompt" in server.accelerator.measured else GUESSED_ERROR
