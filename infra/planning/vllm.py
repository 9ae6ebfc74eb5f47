"""The vLLM command: pure functions from settings to argv and environment, each flag checked against the flag table.

`engine_of` fixes what the engine will really use (the arithmetic of memory and speed starts from it), `command_of`
spells it out. The specification's hash is served as a second model name, so that an old server cannot pass for a new one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog import Accelerator, Backend, Model, Platform
from infra.catalog.flags import flag_table, normal_spelling
from infra.errors import Fault
from infra.planning.settings import Settings

PORT = 8000
MOUNT = "/mnt/weights"
TPU_WEIGHTS = "/dev/shm/weights"  # noqa: S108 the node's memory file system, where tmpfs is the point
LARGE_DEVICE_GIB = 70  # vLLM's own defaults change at this device size (facts of vLLM 0.32)
VIDEO_TOKENS = 2496
"""Prompt tokens of one video (32 frames of 78): one step must take it whole where the input cannot be chunked."""
STREAMER_MEMORY_BYTES = 4_000_000_000  # its own default of 40 GB is more than an L4 instance has
HASH_PREFIX = "spec-"

MANAGED_FLAGS: Mapping[str, str] = {
    "--model": "model",
    "--host": "the program",
    "--port": "the program",
    "--uds": "the program",
    "--grpc": "the program",
    "--headless": "the program",
    "--ssl-keyfile": "the program",
    "--ssl-certfile": "the program",
    "--config": "the stack file",
    "--served-model-name": "the program",
    "--revision": "weights.revision",
    "--api-key": "access.invokers",
    "--hf-token": "hfToken",
    "--tensor-parallel-size": "serving.tensorParallelSize",
    "--max-model-len": "serving.maxModelLen",
    "--max-num-seqs": "serving.maxNumSeqs",
    "--max-num-batched-tokens": "serving.maxNumBatchedTokens",
    "--gpu-memory-utilization": "serving.gpuMemoryUtilization",
    "--kv-cache-dtype": "serving.kvCacheDtype",
    "--quantization": "serving.quantization",
    "--dtype": "serving.dtype",
    "--cpu-offload-gb": "serving.cpuOffloadGb",
    "--enforce-eager": "serving.enforceEager",
    "--block-size": "serving.blockSize",
    "--async-scheduling": "serving.asyncScheduling",
    "--enable-prefix-caching": "serving.prefixCaching",
    "--disable-chunked-mm-input": "serving.chunkedMultimodalInput",
    "--speculative-config": "serving.speculation",
    "--spec-method": "serving.speculation.method",
    "--spec-model": "serving.speculation.method",
    "--spec-tokens": "serving.speculation.tokens",
    "--limit-mm-per-prompt": "serving.modalities",
    "--language-model-only": "serving.modalities",
    "--enable-auto-tool-choice": "serving.tools",
    "--tool-call-parser": "serving.tools",
    "--reasoning-parser": "serving.reasoning",
    "--chat-template": "serving.chatTemplate",
    "--load-format": "serving.loadFormat",
    "--model-loader-extra-config": "serving.loadFormat",
    "--safetensors-load-strategy": "serving.safetensorsLoadStrategy",
}
"""Flags that a setting owns, by their main spelling: `vllmArgs` may not set them a second time."""

UNPLANNED_FLAGS = frozenset(
    {
        "--data-parallel-size",
        "--decode-context-parallel-size",
        "--disable-hybrid-kv-cache-manager",
        "--disable-sliding-window",
        "--enable-lora",
        "--hf-overrides",
        "--kv-cache-dtype-skip-layers",
        "--kv-cache-memory-bytes",
        "--kv-offloading-size",
        "--mm-encoder-only",
        "--num-gpu-blocks-override",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
        "--quantization-config",
        "--skip-mm-profiling",
    }
)
"""Flags that change memory or devices in ways that the plan's arithmetic does not follow: taken, with a warning."""


@dataclass(frozen=True)
class Engine:
    """What the engine will use once every default is resolved. Lengths and counts in tokens and requests."""

    vllm_version: str
    backend: Backend
    tensor_parallel: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    async_scheduling: bool
    """Effective value: on by default on GPU, switched off by ngram speculation."""
    kv_cache_dtype: str
    speculation: str
    speculative_tokens: int


@dataclass(frozen=True)
class Command:
    """The server's command line and environment, and the hash that names this specification."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    spec_hash: str


def default_batched_tokens(settings: Settings, accelerator: Accelerator) -> int:
    """`--max-num-batched-tokens` where nobody set it: vLLM's own GPU defaults; on TPU 4,096, as all published recipes."""
    if settings.serving.max_num_batched_tokens is not None:
        return settings.serving.max_num_batched_tokens
    if accelerator.backend is Backend.TPU:
        return 4096
    if accelerator.device_memory_gib >= LARGE_DEVICE_GIB:
        return 8192
    return VIDEO_TOKENS if settings.serving.modalities.video else 2048


def effective_async(settings: Settings, backend: Backend) -> bool:
    """Whether the engine overlaps scheduling: an explicit choice, else on for GPU unless ngram drafts."""
    if settings.serving.speculation.method == "ngram":
        return False
    if settings.serving.async_scheduling is not None:
        return settings.serving.async_scheduling
    return backend is Backend.GPU


def version_of(image: str, default: str) -> str:
    """The vLLM version that an image reference names by tag (`…:v0.32.0`), else `default`."""
    match = re.search(r":v?(\d+\.\d+(?:\.\d+)?\w*)(?:@|$)", image)
    return match.group(1) if match else default


def command_of(
    settings: Settings,
    engine: Engine,
    model: Model,
    accelerator: Accelerator,
    *,
    weights_path: str,
    assistant_path: str | None,
    image: str,
    revision: str,
) -> Command:
    """Spell out argv and environment. `weights_path` and `assistant_path` are where the server finds the checkpoints;
    `revision` is the model's, part of the path where they were staged and a flag where the server downloads them."""
    argv = ["vllm", "serve", weights_path]
    for flag, value in _flags(settings, engine, accelerator, assistant_path, revision).items():
        argv += _spelled(flag, value)
    for flag, value in settings.vllm_args.items():
        argv += _spelled(normal_spelling(flag), value)
    env = _environment(settings, accelerator)
    spec_hash = _hash(image, revision, env, argv)
    names = ["--served-model-name", model.hub_id, spec_hash]
    everywhere = "0.0.0.0"  # noqa: S104 inside the container
    return Command((*argv, *names, "--host", everywhere, "--port", str(PORT)), env, spec_hash)


def check_arguments(settings: Settings) -> list[Fault]:
    """Every fault of `vllmArgs`: unknown or removed flags, wrong values, flags that a setting owns, contradictions."""
    table = flag_table()
    faults = []
    seen: dict[str, str] = {}
    for written, value in settings.vllm_args.items():
        key, main = f"vllmArgs.{written}", table.main_spelling(written)
        problems = table.check(written, value)
        faults += [Fault(key, problem.fact, problem.consequence, problem.fix) for problem in problems]
        if not problems and main in MANAGED_FLAGS:
            owner = MANAGED_FLAGS[main]
            fix = "Take it out." if owner.startswith("the ") else f"Write {owner} instead, once."
            faults.append(
                Fault(key, f"{main} is already decided by {owner}.", "The command would carry it twice.", fix)
            )
        elif not problems and main in seen:
            consequence = "The last one would win."
            faults.append(
                Fault(key, f"sets {main} a second time, after vllmArgs.{seen[main]}.", consequence, "Keep one.")
            )
        seen.setdefault(main, written)
    return faults


def _flags(
    settings: Settings, engine: Engine, accelerator: Accelerator, assistant_path: str | None, revision: str
) -> dict[str, Any]:
    serving = settings.serving
    on_tpu = accelerator.backend is Backend.TPU
    flags: dict[str, Any] = {
        "--tensor-parallel-size": engine.tensor_parallel,
        "--dtype": serving.dtype,
        "--max-model-len": engine.max_model_len,
        "--max-num-seqs": engine.max_num_seqs,
        "--max-num-batched-tokens": engine.max_num_batched_tokens,
        "--gpu-memory-utilization": serving.gpu_memory_utilization,
        "--kv-cache-dtype": engine.kv_cache_dtype,
        "--quantization": None if serving.quantization == "none" else serving.quantization,
        "--cpu-offload-gb": serving.cpu_offload_gb or None,
        "--enforce-eager": serving.enforce_eager or None,
        "--block-size": serving.block_size,
        "--enable-prefix-caching": serving.prefix_caching,
        "--limit-mm-per-prompt": {kind: getattr(serving.modalities, kind) for kind in ("image", "audio", "video")},
        "--speculative-config": _speculative_config(engine, assistant_path),
        "--chat-template": serving.chat_template,
        "--safetensors-load-strategy": serving.safetensors_load_strategy,
        "--revision": revision if settings.weights.source == "huggingface" else None,
    }
    if serving.async_scheduling is not None:
        flags["--async-scheduling"] = serving.async_scheduling
    chunked = serving.chunked_multimodal_input if serving.chunked_multimodal_input is not None else not on_tpu
    flags["--disable-chunked-mm-input"] = None if chunked else True
    if serving.tools:
        flags |= {"--enable-auto-tool-choice": True, "--tool-call-parser": "gemma4"}
    if serving.reasoning:
        flags["--reasoning-parser"] = "gemma4"
    return flags | _loader(settings, accelerator)


def load_format(settings: Settings, accelerator: Accelerator) -> str:
    """How the weights are read: the streamer on Cloud Run unless said otherwise, else vLLM's own choice."""
    serving = settings.serving
    if serving.load_format is not None:
        return serving.load_format
    if serving.safetensors_load_strategy is not None:
        return "auto"
    return (
        "runai_streamer"
        if accelerator.platform is Platform.CLOUD_RUN and settings.weights.source != "huggingface"
        else "auto"
    )


def _loader(settings: Settings, accelerator: Accelerator) -> dict[str, Any]:
    chosen = load_format(settings, accelerator)
    if chosen == "auto":
        return {}
    flags: dict[str, Any] = {"--load-format": chosen}
    if chosen == "runai_streamer":
        flags["--model-loader-extra-config"] = {"concurrency": 16, "memory_limit": STREAMER_MEMORY_BYTES}
    return flags


def _speculative_config(engine: Engine, assistant_path: str | None) -> dict[str, Any] | None:
    if engine.speculation == "none":
        return None
    config: dict[str, Any] = {"method": engine.speculation, "num_speculative_tokens": engine.speculative_tokens}
    return config | {"model": assistant_path} if engine.speculation == "mtp" else config


def _environment(settings: Settings, accelerator: Accelerator) -> dict[str, str]:
    offline = settings.weights.source != "huggingface"
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if offline:
        env |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if accelerator.backend is Backend.TPU:
        env |= {
            "HF_HOME": "/dev/shm/huggingface",  # noqa: S108  as TPU_WEIGHTS
            "VLLM_XLA_CACHE_PATH": "/dev/shm/xla-cache",  # noqa: S108
            "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
        }
    else:
        env |= {"HF_HOME": "/tmp/huggingface", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}  # noqa: S108  the mount is read-only
    if accelerator.id == "l4":
        env["VLLM_ENABLE_CUDA_COMPATIBILITY"] = "1"
    return env | settings.serving.env


def _spelled(flag: str, value: Any) -> list[str]:
    known = flag_table().find(flag)
    if isinstance(value, list) and known is not None and known.many:
        return [flag, *(str(item) for item in value)]
    if value is None:
        return []
    if value is True:
        return [flag]
    if value is False:
        return [known.negative if known and known.negative else f"--no-{flag.removeprefix('--')}"]
    if isinstance(value, Mapping | list):
        return [flag, json.dumps(value, separators=(",", ":"))]
    return [flag, f"{value:g}" if isinstance(value, float) else str(value)]


def _hash(image: str, revision: str, env: Mapping[str, str], argv: list[str]) -> str:
    whole = json.dumps(
        {"image": image, "revision": revision, "env": dict(sorted(env.items())), "argv": argv}, sort_keys=True
    )
    return HASH_PREFIX + hashlib.sha256(whole.encode()).hexdigest()[:12]
