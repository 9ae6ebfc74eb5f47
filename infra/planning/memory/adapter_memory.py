"""What LoRA adapters take: room that vLLM sets aside on each device for every slot, and the adapters in host memory.

vLLM 0.32 and 0.33 give each linear layer of the decoder, the router included, two stacks of matrices at the start: A (rank x
inputs) and B (outputs x rank), once for every slot, in the compute type, whatever the adapters themselves change
(vllm/lora/layers). Experts get theirs only where the server is asked to adapt them. Embeddings, the output head and the towers
get none. Column-parallel layers share out B between the
devices and row-parallel layers A; the other half stands on every device, as do both of layers that are not shared.
"""

from __future__ import annotations

from infra.catalog import BF16_BYTES, Architecture
from infra.planning.server.server import Server
from infra.planning.units import Band


def adapter_bytes(server: Server) -> float:
    """Return the bytes that the slots of adapters take on one device; 0 where no adapter is served."""
    room = server.adapter_slots * server.adapter_rank * BF16_BYTES
    return float(room * _numbers(server, server.tensor_parallel)) if room else 0.0


def adapters_in_host_memory(server: Server) -> Band:
    """Return the bytes of all adapters in host memory: each of the server's processes keeps every adapter whole.

    At most an adapter changes every layer at the largest rank; half of that is taken for the likeliest.
    """
    copies = server.adapters * server.tensor_parallel * server.adapter_rank * BF16_BYTES
    most = float(copies * _numbers(server, 1))
    return Band(0.0, most / 2, most)


def _numbers(server: Server, tensor_parallel: int) -> int:
    experts = experts_per_rank(server.architecture, tensor_parallel) if server.adapts_experts else 0
    return numbers_per_rank(server.architecture, tensor_parallel) + experts


def numbers_per_rank(architecture: Architecture, tensor_parallel: int) -> int:
    """Return how many numbers one device keeps for each slot and each unit of rank, over all layers and without experts."""
    hidden, layers = architecture.hidden_size, architecture.layers
    with_kv = architecture.sliding_layers_with_kv + architecture.full_layers_with_kv
    full = layers * architecture.full_layers_with_kv // with_kv
    total = 0
    for count, own_kv, head_dim, kv_heads in (
        (layers - full, architecture.sliding_layers_with_kv, architecture.head_dim, architecture.kv_heads),
        (full, architecture.full_layers_with_kv, architecture.global_head_dim, architecture.global_kv_heads),
    ):
        queries = architecture.attention_heads * head_dim // tensor_parallel
        keys = max(1, kv_heads // tensor_parallel) * head_dim
        total += count * (hidden + queries)  # q_proj, by itself or as a slice of qkv_proj
        total += own_kv * 2 * (hidden + keys)  # k_proj and v_proj; layers that share KV have neither
        total += count * (queries + hidden)  # o_proj
    total += _of_mlp(architecture, layers - with_kv, tensor_parallel)
    if architecture.experts is not None:
        total += layers * (hidden + architecture.experts.count)  # the router
    return total + _of_per_layer_embedding(architecture, tensor_parallel)


def experts_per_rank(architecture: Architecture, tensor_parallel: int) -> int:
    """Return the numbers of gate, up and down of all experts, over all layers; 0 for a model that is no mixture."""
    experts = architecture.experts
    if experts is None:
        return 0
    each = 3 * (architecture.hidden_size + experts.intermediate_size // tensor_parallel)
    return architecture.layers * experts.count * each


def _of_mlp(architecture: Architecture, sharing_kv: int, tensor_parallel: int) -> int:
    """Return the numbers of gate_proj, up_proj and down_proj over all layers, of which `sharing_kv` share KV."""
    total = 0
    for count, wide in ((architecture.layers - sharing_kv, 1), (sharing_kv, 1 + architecture.double_wide_shared_mlp)):
        width = wide * architecture.intermediate_size // tensor_parallel
        total += count * 3 * (architecture.hidden_size + width)
    return total


def _of_per_layer_embedding(architecture: Architecture, tensor_parallel: int) -> int:
    """Return the numbers of the gates and projections of E2B and E4B: two in each layer, not shared out, and one before all."""
    hidden, layers = architecture.hidden_size, architecture.layers
    width = architecture.parameters.per_layer_linears // (3 * hidden * layers)
    return layers * 2 * (hidden + width) + hidden + layers * width // tensor_parallel if width else 0
