"""Asks a real vLLM's KV planner for random configurations of Gemma 4, for tests/data/kv_planner.csv.

Run it with the Python of an environment that has that vLLM, 0.32 or newer (no accelerator is needed), and put the rows in
the place of those of its version:

    python scripts/kv_planner_answers.py > rows.csv

What is asked are vLLM's own functions: `Attention.get_kv_cache_spec` with the Triton backend, which Gemma 4 gets on L4 and
RTX PRO 6000, for the layers; the choice of the layout; the groups, blocks and the check at start-up; and the capacity that
is logged. Only the configuration around them is made up, of the fields that they read. The same seed draws the same
configurations for every version, so that a change of the planner is a readable difference.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KV_TYPES = (
    *("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"),
    *("fp8_per_token_head", "int8_per_token_head", "int4_per_token_head"),
)
"""All that the Triton backend can store."""
COLUMNS = (
    *("version", "model", "tp", "kv_cache_dtype", "max_model_len", "max_num_batched_tokens", "async_scheduling"),
    *("block_size", "kv_bytes", "num_blocks", "tokens", "fits"),
)


def main() -> None:
    """Print one row for each configuration, without the line of column names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=33)
    asked = parser.parse_args()
    import vllm  # type: ignore[import-not-found]

    architectures = tomllib.loads((ROOT / "infra/catalog/models.toml").read_text("utf-8"))["architectures"]
    drawn = random.Random(asked.seed)  # noqa: S311
    rows = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    for _ in range(asked.count):
        one = _drawn(drawn, architectures)
        num_blocks, tokens, fits = _answer(one, architectures[one["model"]])
        version = vllm.__version__.partition("+")[0]
        rows.writerow({"version": version, **one, "num_blocks": num_blocks, "tokens": tokens, "fits": int(fits)})


def _drawn(drawn: random.Random, architectures: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration. Bytes are drawn around what one request of the longest context needs, so that many fit."""
    model = drawn.choice(sorted(architectures))
    one: dict[str, Any] = {
        "model": model,
        "tp": drawn.choice((1, 2, 4, 8)),
        "kv_cache_dtype": drawn.choice(KV_TYPES),
        "max_model_len": drawn.choice((drawn.randint(512, 131_072), 2 ** drawn.randint(9, 17))),
        "max_num_batched_tokens": drawn.choice((drawn.randint(64, 16_384), 2 ** drawn.randint(8, 14))),
        "async_scheduling": drawn.randint(0, 1),
        "block_size": drawn.choice(("", "", 16, 32, 48, 64, 128, 256)),
    }
    full = architectures[model]["full_layers_with_kv"] * architectures[model]["global_kv_heads"] * 512 * 4
    one["kv_bytes"] = int(one["max_model_len"] * full / one["tp"] * 2 ** drawn.uniform(-2, 6)) + drawn.randint(1, 2**28)
    return one


def _answer(one: dict[str, Any], geometry: dict[str, Any]) -> tuple[int, int, bool]:
    """Return blocks, logged tokens, and whether the server would start."""
    import vllm.v1.core.kv_cache_utils as planner  # type: ignore[import-not-found]
    from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend  # type: ignore[import-not-found]
    from vllm.v1.attention.backends.utils import (  # type: ignore[import-not-found]
        get_supported_kv_cache_layouts,
        resolve_kv_cache_layout,
    )

    capacity, groups = planner.get_kv_cache_capacity, []
    config = _configuration(one)
    layers = _layers(one, geometry, config, TritonAttentionBackend)
    layouts = [layout.name for layout in get_supported_kv_cache_layouts([TritonAttentionBackend])]
    resolve_kv_cache_layout(config, [layouts], list(layers.values()))
    if not hasattr(planner, "get_kv_cache_configs"):  # since 0.33
        import vllm.v1.core.kv_cache_planning as planner  # type: ignore[import-not-found]

        groups = [planner.get_global_kv_cache_groups(config, [dict(layers)])]
    refused = []
    planner._check_enough_kv_cache_memory = lambda available, needed, *_: refused.append(
        available <= 0 or needed() > available
    )
    (plan,) = planner.get_kv_cache_configs(config, [layers], [one["kv_bytes"]], *groups)
    if not refused:
        raise RuntimeError("vLLM did not ask its check at start-up where it is looked for here")
    return plan.num_blocks, capacity(config, plan)[0], not any(refused)


def _configuration(one: dict[str, Any]) -> Any:
    """Return what the planner reads of vLLM's configuration: Model Runner V2 on one machine, text decoder only."""
    from vllm.config import CacheConfig, VllmConfig  # type: ignore[import-not-found]

    config = SimpleNamespace(
        cache_config=CacheConfig(block_size=one["block_size"] or 16, cache_dtype=one["kv_cache_dtype"]),
        model_config=SimpleNamespace(
            max_model_len=one["max_model_len"],
            original_max_model_len=one["max_model_len"],
            supports_kv_cache_grouping=False,
            use_mla=False,
        ),
        scheduler_config=SimpleNamespace(
            async_scheduling=bool(one["async_scheduling"]),
            max_num_batched_tokens=one["max_num_batched_tokens"],
            disable_hybrid_kv_cache_manager=False,
        ),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=one["tp"],
            pipeline_parallel_size=1,
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=None,
        kv_transfer_config=None,
        num_prefill_lookahead_tokens=0,
        use_v2_model_runner=True,
    )
    config.max_concurrent_batches = VllmConfig.max_concurrent_batches.fget(config)
    config.max_in_flight_tokens = VllmConfig.max_in_flight_tokens.fget(config)
    return config


def _layers(one: dict[str, Any], geometry: dict[str, Any], config: Any, backend: Any) -> dict[str, Any]:
    """Return vLLM's own specification of each layer that has a KV cache on one of `tp` devices."""
    import torch  # type: ignore[import-not-found]
    from vllm.model_executor.layers.attention.attention import Attention  # type: ignore[import-not-found]
    from vllm.utils.torch_utils import kv_cache_dtype_str_to_dtype  # type: ignore[import-not-found]
    from vllm.v1.attention.backend import AttentionType  # type: ignore[import-not-found]
    from vllm.v1.worker.utils import customize_attention_spec  # type: ignore[import-not-found]

    stored = kv_cache_dtype_str_to_dtype(one["kv_cache_dtype"], SimpleNamespace(dtype=torch.bfloat16))
    sliding, full = geometry["sliding_layers_with_kv"], geometry["full_layers_with_kv"]
    layers = {}
    for number in range(sliding + full):
        slides = number < sliding
        heads = geometry["kv_heads" if slides else "global_kv_heads"]
        head_size = geometry["head_dim" if slides else "global_head_dim"]
        layer = SimpleNamespace(
            attn_backend=backend,
            attn_type=AttentionType.DECODER,
            head_size=head_size,
            head_size_v=head_size,
            kv_cache_dtype=one["kv_cache_dtype"],
            kv_cache_torch_dtype=stored,
            num_kv_heads=max(1, heads // one["tp"]),
            sliding_window=geometry["sliding_window"] if slides else None,
        )
        spec = Attention.get_kv_cache_spec(layer, config)
        layers[f"layers.{number}"] = customize_attention_spec(backend, spec)
    return layers


if __name__ == "__main__":
    main()
