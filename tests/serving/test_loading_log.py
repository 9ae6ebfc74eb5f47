"""What a starting server is busy with, read from lines as vLLM 0.32 and Cloud Run write them."""

from __future__ import annotations

import pytest

from infra.serving.loading_log import current_activity

CORE = "(EngineCore pid=284) INFO 05-30 07:47:06 "
SERVER = "(APIServer pid=1) INFO 05-30 07:47:08 "
OPENING = "engine ready, opening its port"


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("Starting new instance. Reason: DEPLOYMENT_ROLLOUT - Instance started due to …", "container starting"),
        (f"{CORE}[core.py:134] Initializing a V1 LLM engine (v0.32.0) with config: model='/mnt'", "engine starting"),
        (f"{CORE}[gpu_model_runner.py:5040] Starting to load model /mnt/weights...", "loading weights"),
        (
            "(EngineCore pid=187) Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]",
            "loading weights, 0 %",
        ),
        (
            "Loading safetensors using Runai Model Streamer:  21% Completed | 24533/119028 [00:06<00:21, 4464.37it/s]",
            "loading weights, 21 %",
        ),
        ("Multi-thread loading shards:  50% Completed | 1/2 [00:03<00:03,  3.45s/it]", "loading weights, 50 %"),
        (f"{CORE}[default_loader.py:502] Loading weights took 18.35 seconds", "weights loaded, compiling"),
        (f"{CORE}[gpu_model_runner.py:5150] Model loading took 8.8 GiB memory and 74.7 seconds", "weights loaded, compiling"),
        (f"{CORE}[backends.py:1167] Dynamo bytecode transform time: 6.61 s", "compiling"),
        (f"{CORE}[backends.py:399] Compiling a graph for compile range (1, 32768) takes 40.99 s", "compiling"),
        (f"{CORE}[monitor.py:20] torch.compile took 50.98 s in total", "compiling"),
        (f"{CORE}[gpu_worker.py:760] Available KV cache memory: 57.09 GiB", "weights loaded, KV cache allocated"),
        (f"{CORE}[kv_cache_utils.py:2328] GPU KV cache size: 124,704 tokens, …", "weights loaded, KV cache allocated"),
        (
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  44%|████▍     | 4/9 [00:00<00:00, 10.60it/s]",
            "capturing CUDA graphs, 44 %",
        ),
        (f"{CORE}[core.py:403] init engine (profile, create kv cache, warmup model) took 97.04 s", OPENING),
        (f"{SERVER}[entry.py:140] Starting vLLM server on http://0.0.0.0:8000", OPENING),
        ("(APIServer pid=1) INFO:     Application startup complete.", "serving"),
        ('(APIServer pid=1) INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK', ""),
        ("WARNING something of another version", ""),
    ],
)  # fmt: skip
def test_a_line_means(line: str, meaning: str) -> None:
    assert current_activity([line]) == meaning


def test_the_newest_line_that_says_something_counts() -> None:
    lines = ["Loading weights took 1.0 seconds", "torch.compile took 5.0 s in total", "a warning", "another"]
    assert current_activity(lines) == "compiling"
    assert current_activity([]) == ""


def test_of_a_bar_in_one_entry_the_last_state_counts() -> None:
    shards = "Loading safetensors checkpoint shards:"
    assert (
        current_activity([f"{shards}  25% Completed | 1/4\r{shards}  50% Completed | 2/4\r"]) == "loading weights, 50 %"
    )
    graphs = "Capturing CUDA graphs (decode, FULL):"
    assert current_activity([f"{graphs}  20%|██ | 1/5{graphs}  60%|██████ | 3/5"]) == "capturing CUDA graphs, 60 %"
