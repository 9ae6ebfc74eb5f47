"""The most output tokens a second that a machine allows: a faster measurement is an error of measurement.

Every step of decoding reads the weights once and the KV cache of each running request; a machine cannot do so faster than at
its nominal bandwidth, nor compute faster than at its peak. All costs that a real server has beside these are left out: kernels
that start, collectives, sampling, the drafter of MTP, the network. Of a mixture of experts only those of one token count, since
real routing may send all requests to the same experts.
"""

from __future__ import annotations

from infra.benchmark.stored_run import Shape
from infra.catalog import BF16_BYTES, GIB
from infra.planning.performance.decode import kv_bytes, weight_bytes
from infra.planning.server.server import Server


def most_tokens_per_second(server: Server, shape: Shape, *, servers: int = 1, prompts_computed: bool = True) -> float:
    """Return an upper bound on the output tokens a second of all requests together.

    `servers` share the load; `prompts_computed` is false where a prefix cache may answer for the prompts.
    """
    each = -(-shape.concurrency // servers)
    return servers * min(_by_reading(server, shape, each), _by_computing(server, shape, prompts_computed))


def _by_reading(server: Server, shape: Shape, requests: int) -> float:
    """Return the bound by bandwidth. A step yields one token a request, and one more for each draft that is accepted.

    Each request counts with the context of its prompt alone, which is the least that it ever has while it decodes.
    """
    offloaded = server.cpu_offload_gib * GIB * server.tensor_parallel
    read = max(0.0, weight_bytes(server, tokens=1) - offloaded) + requests * kv_bytes(server, shape.input_tokens)
    step_s = read / (server.accelerator.bandwidth * server.tensor_parallel)
    return requests * (1 + server.speculative_tokens) / step_s


def _by_computing(server: Server, shape: Shape, prompts_computed: bool) -> float:
    """Return the bound by arithmetic: each token passes through all active weights once, those of prompts through all but the
    embedding. A machine may be faster on narrower numbers than its peak at bf16, in proportion at most."""
    parameters, narrow = server.architecture.active_parameters, server.weight_format.bytes_per_parameter
    of_prompt = 2 * (parameters - server.architecture.parameters.embedding) * shape.input_tokens * prompts_computed
    flop = 2 * parameters * shape.output_tokens + of_prompt
    peak = server.accelerator.flops * server.tensor_parallel * max(1.0, BF16_BYTES / narrow)
    return shape.output_tokens * peak / flop
