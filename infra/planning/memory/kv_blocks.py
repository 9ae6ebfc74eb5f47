"""How one device's KV cache is cut into blocks, by implementation and version of vLLM.

On GPU the sliding-window and the full-attention layers share one pool of equally large blocks, so that a sliding layer
gives back what leaves its window; on TPU every layer keeps the whole context. Read in the sources of vLLM 0.19 to 0.33
and of tpu-inference 0.32. Assumed: no pipeline and no context parallelism, the layer-outermost cache layout, and an
attention backend whose kernel blocks are a multiple of 16 tokens (Triton, which Gemma 4 gets on L4 and RTX PRO 6000).
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

from infra.catalog import Architecture
from infra.catalog.versions import minor_version
from infra.errors import SettingsError
from infra.planning.server.implementations import TPU_INFERENCE, Implementation

OLDEST, NEWEST = 19, 33
"""Minor versions of vLLM 0.x whose planner is known; others count as the nearer one."""
TPU_USUAL_SEQS = 256
"""vLLM's default of max_num_seqs on TPU."""

_KERNEL_BLOCK = 16


@dataclass(frozen=True)
class KvGeometry:
    """The blocks of one device; every block in use belongs to one group of layers."""

    bytes_per_block: int
    full_groups: int
    """Groups of full-attention layers; each needs its own blocks for all tokens of a request."""
    full_block: int
    """Tokens of a block in such a group."""
    sliding_groups: int
    """Groups of sliding-window layers; each needs blocks for the window and for what is in flight. 0 on TPU."""
    sliding_block: int
    sliding_window: int
    tokens_in_flight: int
    """Tokens that may be scheduled but not settled; vLLM reserves room for them when it admits a request."""

    @property
    def groups(self) -> int:
        return self.full_groups + self.sliding_groups

    def admission_blocks(self, tokens: int) -> int:
        """Return the blocks that vLLM sets aside for a request of up to `tokens` tokens, at start-up and on admission."""
        return self._blocks(tokens, self.sliding_window - 1 + self.tokens_in_flight)

    def longest_admitted(self, lengths: range, blocks: int) -> int:
        """Return the longest of `lengths` for which vLLM sets aside at most `blocks` blocks, 0 where there is none."""
        count = bisect.bisect_right(lengths, blocks, key=self.admission_blocks)
        return lengths[count - 1] if count else 0

    def held_blocks(self, tokens: int) -> int:
        """Return the blocks that a decoding request of `tokens` tokens holds once its prompt is computed."""
        return self._blocks(tokens, self.sliding_window)

    def _blocks(self, tokens: int, reach: int) -> int:
        full = self.full_groups * ceil_div(tokens, self.full_block)
        # One more: the window need not begin where a block begins.
        sliding = self.sliding_groups * (ceil_div(min(reach, tokens), self.sliding_block) + 1)
        return full + sliding


@dataclass(frozen=True)
class StoredType:
    """How one head's key or value of one token is stored, and the first minor version of vLLM that can."""

    bits: int
    scale_bytes: int = 0
    since: int = OLDEST

    def bytes_per_head(self, head_dim: int) -> int:
        return head_dim * self.bits // 8 + self.scale_bytes


_PLAIN = {
    "auto": StoredType(16),  # the compute type, bfloat16 or float16
    "bfloat16": StoredType(16),
    "float16": StoredType(16),
    "fp8": StoredType(8),
    "fp8_e4m3": StoredType(8),
    "fp8_e5m2": StoredType(8),
}
# The scales make the pages of the two kinds of layers indivisible; 0.24 is the first version that pads such pages.
_PER_TOKEN_HEAD = {
    "int8_per_token_head": StoredType(8, scale_bytes=4, since=24),
    "fp8_per_token_head": StoredType(8, scale_bytes=4, since=24),
    "int4_per_token_head": StoredType(4, scale_bytes=4, since=28),  # before, sliding layers did not pack their halves
}


def stored_type(kv_cache_dtype: str, implementation: Implementation, minor: int) -> StoredType:
    """Return how vLLM 0.`minor` stores a KV type of that name. Raises SettingsError where Gemma 4 cannot use it there."""
    known = _PLAIN | _PER_TOKEN_HEAD if implementation.scaled_kv_types else _PLAIN
    usable = {name: stored for name, stored in known.items() if stored.since <= minor}
    if stored := usable.get(kv_cache_dtype):
        return stored
    raise SettingsError.of(
        "serving.kvCacheDtype",
        f"{kv_cache_dtype!r} is not a KV cache type that Gemma 4 can use on {implementation.device.value} with vLLM 0.{minor}.",
        fix=f"Use one of {', '.join(usable)}.",
    )


def gpu_geometry(
    architecture: Architecture,
    *,
    tp: int,
    stored: StoredType,
    minor: int,
    block_size: int | None,
    max_num_batched_tokens: int,
    async_scheduling: bool,
) -> KvGeometry:
    """Return the blocks on each of `tp` GPUs under vLLM 0.`minor`; `block_size` None means vLLM's own 16 tokens."""

    def page(heads: int, head_dim: int, block: int) -> int:
        # K and V of the heads that fall to one device; fewer heads than devices are repeated.
        return 2 * max(1, heads // tp) * stored.bytes_per_head(head_dim) * block

    full_block = block_size or _KERNEL_BLOCK
    sliding_block = _sliding_block(full_block, minor)
    full_page = page(architecture.global_kv_heads, architecture.global_head_dim, full_block)
    sliding_page = page(architecture.kv_heads, architecture.head_dim, sliding_block)
    common = max(full_page, sliding_page)
    # The rarer kind of layer decides how many layers share a block, unless both are about equally many.
    few, many = sorted((architecture.sliding_layers_with_kv, architecture.full_layers_with_kv))
    layers = many if many < 1.5 * few else few
    concurrent_steps = 2 if async_scheduling and minor >= 26 else 1
    return KvGeometry(
        bytes_per_block=layers * common,
        full_groups=ceil_div(architecture.full_layers_with_kv, layers),
        full_block=_grown(full_block, full_page, common),
        sliding_groups=ceil_div(architecture.sliding_layers_with_kv, layers),
        sliding_block=_grown(sliding_block, sliding_page, common),
        sliding_window=architecture.sliding_window,
        tokens_in_flight=concurrent_steps * max_num_batched_tokens,
    )


def tpu_geometry(architecture: Architecture, *, tp: int, stored: StoredType, page: int) -> KvGeometry:
    """Return the pages of `page` tokens on each of `tp` chips: one group, in which every layer is stored at full length."""
    packing = 8 * TPU_INFERENCE.kv_word_bytes // stored.bits

    def layer_bytes(heads: int, head_dim: int) -> int:
        # K and V lie interleaved and are padded to whole 32-bit words: one KV head in fp8 takes as much as in bf16.
        rows = ceil_div(2 * max(1, heads // tp), packing) * packing
        return rows * stored.bytes_per_head(head_dim)

    sliding = architecture.sliding_layers_with_kv * layer_bytes(architecture.kv_heads, architecture.head_dim)
    full = architecture.full_layers_with_kv * layer_bytes(architecture.global_kv_heads, architecture.global_head_dim)
    return KvGeometry(
        bytes_per_block=(sliding + full) * page,
        full_groups=1,
        full_block=page,
        sliding_groups=0,
        sliding_block=page,
        sliding_window=architecture.sliding_window,
        tokens_in_flight=0,
    )


def tpu_page_size(max_model_len: int, max_num_seqs: int = TPU_USUAL_SEQS) -> int:
    """Return how many tokens tpu-inference 0.32 puts on a KV page: 32 at 16K, 64 at 32K, 128 at 64K with 256 sequences.

    Short contexts are cut into 16 pages; long ones so that all block tables fit half of the 1 MiB of scalar memory.
    """
    short = 16 if max_model_len > 8192 else min(256, max(16, _power_of_two(max_model_len) // 16))
    return max(short, _power_of_two(ceil_div(max_model_len, tpu_pages_per_request(max_num_seqs))))


def tpu_pages_per_request(max_num_seqs: int) -> int:
    """Return the most entries that one request's block table may have on TPU."""
    return max(1, 1024 * 1024 // 2 // max_num_seqs // 4)


def ceil_div(value: int, divisor: int) -> int:
    """Return `value / divisor`, rounded up."""
    return -(-value // divisor)


def _sliding_block(block: int, minor: int) -> int:
    """Return the tokens of a sliding layer's block before pages are made equal, where full layers begin with `block`."""
    if minor <= 24:
        return block
    if minor <= 29:
        return _KERNEL_BLOCK  # in these versions --block-size ruled the full layers only
    return max(_KERNEL_BLOCK, block // _KERNEL_BLOCK * _KERNEL_BLOCK)


def _grown(block: int, page: int, common: int) -> int:
    """Return the tokens of a block once its page has the common size: more tokens where that divides, else padding."""
    return block * (common // page) if common % page == 0 else block


def _power_of_two(value: int) -> int:
    return 1 << (value - 1).bit_length()


def counted_minor(version: str) -> int:
    """Return the minor number of a version of vLLM, or the nearest whose planner is known. Raises SettingsError."""
    if re.match(r"v?\d+\.\d+", version.strip()) is None:
        fix = "Write it like 0.32.0 or 0.26.1rc1."
        raise SettingsError.of("images.serving", f"{version!r} is not a version of vLLM.", fix=fix)
    return min(max(minor_version(version), OLDEST), NEWEST)
