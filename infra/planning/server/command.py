"""The vLLM command: pure functions from settings to argv and environment, each flag checked against the flag table.

`engine_of` fixes what the engine will really use (the arithmetic of memory and speed starts from it), `command_of`
spells it out. The specification's hash is served as a second model name, so that an old server cannot pass for a new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.catalog import Accelerator, Architecture, Backend, Model, Platform, catalog
from infra.catalog.flags import flag_table, normal_spelling
from infra.planning.memory.footprint import streamer_limit_bytes
from infra.planning.server.flag_owners import owned_flags
from infra.planning.settings.declarations import Settings

PORT = 8000
VPC_ADDRESS = "${VPC_ADDRESS}"
"""A slice's supervisor puts the machine's own address here: the server listens in the VPC and nowhere else."""
MOUNT = "/mnt/weights"
TPU_WEIGHTS = "/dev/shm/weights"  # noqa: S108 the node's memory file system, where tmpfs is the point
LARGE_DEVICE_GIB = 70  # vLLM's own defaults change at this device size (facts of vLLM 0.32)
VIDEO_TOKENS = 2496
"""Prompt tokens of one video (32 frames of 78): one step must take it whole where the input cannot be chunked."""
TOOLS_TEMPLATE = "/vllm-workspace/examples/tool_chat_template_gemma4.jinja"
"""Where vLLM's GPU images hold the template of their recipe (reported by several users, not seen in v0.32.0)."""
SHUTDOWN_S = 30
"""What requests get to finish when a slice's server is told to stop, as it is at each change: vLLM's own default is none."""
IMAGE_TOKENS = 280
"""Prompt tokens that one image takes at most, unless serving.visionTokens says otherwise."""
NO_DOMAIN = "none.invalid"
"""A host that nobody can have (RFC 2606): to vLLM an empty list of domains would mean that all are allowed."""
START_ON_GPU = Path(__file__).with_name("start_on_gpu.sh")
DRIVER_FILE, CUDA_COMPAT, HOST_LIBRARIES = (
    "/proc/driver/nvidia/version",
    "/usr/local/cuda/compat",
    "/usr/local/nvidia/lib64",
)
"""Where the host tells its driver, where NVIDIA's base images hold the compatibility libraries, and where Cloud Run puts
the host's own."""
HASH_PREFIX = "spec-"


@dataclass(frozen=True)
class Engine:
    """What the engine will use once every default is resolved. Lengths and counts in tokens and requests."""

    vllm_version: str
    """The one whose arithmetic counts: the image's own, or the nearest that was compared."""
    image_version: str | None
    """The one that the image's name says; None where it says none."""
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
    """The server's command line and environment, what starts it, and the hash that names this specification."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    spec_hash: str
    wrapper: tuple[str, ...] = ()
    """What the container runs with `argv` behind it: on a GPU the choice of the CUDA driver library; empty on TPU."""


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
    assistant_revision: str | None = None,
) -> Command:
    """Spell out argv and environment. `weights_path` and `assistant_path` are where the server finds the checkpoints;
    the revisions are part of these paths where they were staged, and spelled out where the server downloads them."""
    drafting = _speculative_config(settings, engine, assistant_path, assistant_revision)
    argv = ["vllm", "serve", weights_path]
    typed = {normal_spelling(flag): value for flag, value in settings.vllm_args.items()}
    planned = planned_flags(settings, engine, model, accelerator, drafting=drafting, revision=revision)
    for flag, value in {**{flag: value for flag, value in planned.items() if flag not in typed}, **typed}.items():
        argv += _spelled(flag, value)
    env = _environment(settings, accelerator)
    wrapper = _wrapper(settings, accelerator)
    spec_hash = _hash(image, revision, env, [*wrapper, *argv])
    names = ["--served-model-name", model.hub_id, spec_hash]
    host = VPC_ADDRESS if accelerator.backend is Backend.TPU else "0.0.0.0"  # noqa: S104 inside the container
    return Command((*argv, *names, "--host", host, "--port", str(PORT)), env, spec_hash, wrapper)


FLAG_ORDER = (
    "--tensor-parallel-size",
    "--dtype",
    "--max-model-len",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--gpu-memory-utilization",
    "--kv-cache-dtype",
    "--quantization",
    "--cpu-offload-gb",
    "--enforce-eager",
    "--block-size",
    "--enable-prefix-caching",
    "--limit-mm-per-prompt",
    "--mm-processor-kwargs",
    "--allowed-media-domains",
    "--speculative-config",
    "--chat-template",
    "--safetensors-load-strategy",
    "--revision",
    "--shutdown-timeout",
    "--async-scheduling",
    "--disable-chunked-mm-input",
    "--enable-auto-tool-choice",
    "--tool-call-parser",
    "--reasoning-parser",
    "--load-format",
    "--model-loader-extra-config",
)
"""What stands first in a command, in this order; other flags follow as they are declared.

The specification's hash depends on the order: another one would restart every server."""


def planned_flags(
    settings: Settings,
    engine: Engine,
    model: Model,
    accelerator: Accelerator,
    *,
    drafting: Mapping[str, Any] | None,
    revision: str,
) -> dict[str, Any]:
    """Return every flag that the command may carry with its value, None where the flag is left out.

    A flag has the value of the setting that declares it, save for those that are resolved or put together here.
    """
    serving = settings.serving
    on_tpu = accelerator.backend is Backend.TPU
    chunked = serving.chunked_multimodal_input if serving.chunked_multimodal_input is not None else not on_tpu
    flags = {one.flag: one.value_in(settings) for one in owned_flags(type(settings)) if one.flag}
    flags |= {
        "--tensor-parallel-size": engine.tensor_parallel,
        "--max-num-seqs": engine.max_num_seqs,
        "--max-num-batched-tokens": engine.max_num_batched_tokens,
        "--limit-mm-per-prompt": {kind: getattr(serving.modalities, kind) for kind in ("image", "audio", "video")},
        "--mm-processor-kwargs": None if serving.vision_tokens is None else {"max_soft_tokens": serving.vision_tokens},
        "--allowed-media-domains": serving.allowed_media_domains or (NO_DOMAIN,),
        "--speculative-config": drafting,
        "--chat-template": TOOLS_TEMPLATE if serving.chat_template == "tools" else serving.chat_template,
        "--revision": revision if _downloads(settings) else None,
        "--shutdown-timeout": SHUTDOWN_S if on_tpu else None,
        "--disable-chunked-mm-input": None if chunked else True,
        "--enable-auto-tool-choice": serving.tools or None,
        "--tool-call-parser": "gemma4" if serving.tools else None,
        "--reasoning-parser": "gemma4" if serving.reasoning else None,
    }
    flags |= _loader(settings, accelerator, catalog().architectures[model.architecture])
    return {flag: flags[flag] for flag in (*FLAG_ORDER, *(flag for flag in flags if flag not in FLAG_ORDER))}


def load_format(settings: Settings, accelerator: Accelerator) -> str:
    """How the weights are read: the streamer on Cloud Run unless said otherwise, else vLLM's own choice."""
    serving = settings.serving
    if serving.load_format is not None:
        return serving.load_format
    if accelerator.platform is not Platform.CLOUD_RUN or _downloads(settings):
        return "auto"
    chosen_otherwise = serving.safetensors_load_strategy is not None and settings.weights.access == "mount"
    return "auto" if chosen_otherwise else "runai_streamer"


def _loader(settings: Settings, accelerator: Accelerator, architecture: Architecture) -> dict[str, Any]:
    chosen = load_format(settings, accelerator)
    limits = {"concurrency": 16, "memory_limit": streamer_limit_bytes(architecture)}
    return {
        "--load-format": None if chosen == "auto" else chosen,
        "--model-loader-extra-config": limits if chosen == "runai_streamer" else None,
    }


def _speculative_config(
    settings: Settings, engine: Engine, assistant_path: str | None, assistant_revision: str | None
) -> dict[str, Any] | None:
    if engine.speculation == "none":
        return None
    config: dict[str, Any] = {"method": engine.speculation, "num_speculative_tokens": engine.speculative_tokens}
    if engine.speculation == "mtp":
        config |= {"model": assistant_path}
        config |= {"revision": assistant_revision} if _downloads(settings) else {}
    return config


def _downloads(settings: Settings) -> bool:
    """Whether the server fetches its weights from Hugging Face itself."""
    return settings.weights.source == "huggingface"


def _wrapper(settings: Settings, accelerator: Accelerator) -> tuple[str, ...]:
    if accelerator.backend is Backend.TPU:
        return ()
    script = START_ON_GPU.read_text("utf-8")
    choice = settings.serving.cuda_compatibility
    return ("bash", "-c", script, START_ON_GPU.stem, choice, DRIVER_FILE, CUDA_COMPAT, HOST_LIBRARIES)


def _environment(settings: Settings, accelerator: Accelerator) -> dict[str, str]:
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    env["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] = "0"  # a redirect is followed without a look at the allowed domains
    if not _downloads(settings):
        env |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if accelerator.backend is Backend.TPU:
        env |= {
            "HF_HOME": "/dev/shm/huggingface",  # noqa: S108  as TPU_WEIGHTS
            "VLLM_XLA_CACHE_PATH": "/dev/shm/xla-cache",  # noqa: S108
            "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
        }
    else:
        env |= {"HF_HOME": "/tmp/huggingface", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}  # noqa: S108  the mount is read-only
    return env | settings.serving.env


def _spelled(flag: str, value: Any) -> list[str]:
    known = flag_table().find(flag)
    if isinstance(value, list | tuple) and known is not None and known.many:
        return [flag, *(str(item) for item in value)]
    if value is None:
        return []
    if value is True:
        return [flag]
    if value is False:
        return [known.negative if known and known.negative else f"--no-{flag.removeprefix('--')}"]
    if isinstance(value, Mapping | list | tuple):
        return [flag, json.dumps(value, separators=(",", ":"))]
    return [flag, f"{value:g}" if isinstance(value, float) else str(value)]


def _hash(image: str, revision: str, env: Mapping[str, str], argv: list[str]) -> str:
    whole = json.dumps(
        {"image": image, "revision": revision, "env": dict(sorted(env.items())), "argv": argv}, sort_keys=True
    )
    return HASH_PREFIX + hashlib.sha256(whole.encode()).hexdigest()[:12]
