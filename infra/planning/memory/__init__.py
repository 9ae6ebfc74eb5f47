"""Whether a server fits its devices, and how many tokens its KV cache holds.

Read in this order: `kv_blocks` (how a device's cache is cut into blocks), `kv_cache` (how many tokens the blocks hold:
vLLM's own arithmetic), `footprint` (what weights and programs take before any cache), `gpu_overhead` (what vLLM sets aside on
a GPU at start-up, by version), `adapter_memory` (what LoRA adapters take beside them), `budget` (what is left for the cache,
with the error of each part), `verdict` (fits, tight or refused, and why), `alternatives` (what would fit instead).
"""

from infra.planning.memory.kv_cache import KvCapacity, kv_capacity

__all__ = ["KvCapacity", "kv_capacity"]
