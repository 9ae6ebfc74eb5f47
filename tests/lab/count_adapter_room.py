"""Counts what vLLM's own layers hold for LoRA adapters: run by the laboratory's Python, which has vLLM, and not ours.

`python count_adapter_room.py MODEL RANK SLOTS` builds the model of MODEL/config.json on PyTorch's meta device, so that its size
does not matter, lets vLLM's LoRA manager wrap it, and prints the bytes of all stacked matrices.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ |= {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


def room(model: str, rank: int, slots: int) -> int:
    import torch  # type: ignore[import-not-found]
    from vllm.config import set_current_vllm_config  # type: ignore[import-not-found]
    from vllm.distributed import init_distributed_environment, initialize_model_parallel  # type: ignore[import-not-found]
    from vllm.engine.arg_utils import EngineArgs  # type: ignore[import-not-found]
    from vllm.lora.model_manager import LoRAModelManager  # type: ignore[import-not-found]
    from vllm.model_executor.model_loader.utils import initialize_model  # type: ignore[import-not-found]

    arguments: dict[str, Any] = {"enable_lora": True, "max_loras": slots, "max_lora_rank": rank, "max_model_len": 4096}
    config = EngineArgs(
        model=model, dtype="bfloat16", enforce_eager=True, skip_tokenizer_init=True, max_num_seqs=16, **arguments
    ).create_engine_config()
    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, "tcp://127.0.0.1:0", 0, backend="gloo")
        initialize_model_parallel(1, 1)
        with torch.device("meta"):
            torch.set_default_dtype(torch.bfloat16)
            built = initialize_model(vllm_config=config)
            manager = LoRAModelManager(built, 16, 2048, 1, config.lora_config, torch.device("meta"), config)
    stacks = (
        stack for module in manager.modules.values() for stack in (*module.lora_a_stacked, *module.lora_b_stacked)
    )
    return sum(stack.numel() * stack.element_size() for stack in stacks)


if __name__ == "__main__":
    print(f"room {room(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))}")
