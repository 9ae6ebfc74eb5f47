"""What LoRA adapters take: room that vLLM sets aside on each device for every slot, and the adapters in host memory.

vLLM 0.32 and 0.33 give each linear layer of the decoder, the router and the experts included, two stacks of matrices at the
start: A (rank x inputs) and B (outputs x rank), once for every slot, in the compute type, whatever the adapters themselves
change (vllm/lora/layers). Embeddings, the output head and the towers get none. Column-parallel layers share out B between the
devices and row-parallel layers A; the other half stands on every device, as do both of layers that are not shared.
"""

from __future__ import annotations

from infra.catalog import BF16_BYTES, Architecture
from infra.planning.server.server import Server
from infra.planning.units import Band


def adapter_bytes(server: Server) -> float:
    """Return the bytes that the slots of adapters take on one device; 0 where no adapter is served."""
    room = server.adapter_slots * server.adapter_rank * BF16_BYTES
    return float(room * numbers_per_rank(server.architecture, server.tensor_parallel)) if room else 0.0


def adapters_in_host_memory(server: Server) -> Band:
    """Return the bytes of all adapters in host memory: each of the server's processes keeps every adapter whole.

    At most an adapter changes every layer at the largest rank; in the middle, all but experts, which adapters trained with
    PEFT's `target_modules` leave alone.
    """
    architecture = server.architecture
    copies = server.adapters * server.tensor_parallel * server.adapter_rank * BF16_BYTES
    every = numbers_per_rank(architecture, 1)
    return Band(0.0, float(copies * (every - _of_experts(architecture, 1))), float(copies * every))


def numbers_per_rank(architecture: Architecture, tensor_parallel: int) -> int:
    """Return how many numbers one device keeps for each slot and each unit of rank, over all layers."""
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
    total += _of_per_layer_embedding(architecture, tensor_parallel)
    return total + _of_experts(architecture, tensor_parallel)


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


def _of_experts(architecture: Architecture, tensor_parallel: int) -> int:
    """Return the numbers of a mixture's router and of all its experts: gate, up and down of each."""
    experts, hidden = architecture.experts, architecture.hidden_size
    if experts is None:
        return 0
    each = 3 * (hidden + experts.intermediate_size // tensor_parallel)
    return architecture.layers * (hidden + experts.count + experts.count * each)
