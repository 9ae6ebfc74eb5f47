"""The vLLM command: pure functions from settings to argv and environment, each flag checked against the flag table.

`command_of` spells out a Server. The hash of the specification is served as a second model name, so that an old server
cannot pass for a new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.catalog.flags import FlagTable, flag_table, normal_spelling
from infra.planning.server.flag_owners import own_values
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings

PORT = 8000
NO_DOMAIN = "none.invalid"
"""A host that nobody can have (RFC 2606): to vLLM an empty list of domains would mean that all are allowed."""
START_ON_GPU = Path(__file__).with_name("start_on_gpu.sh")
DRIVER_FILE, CUDA_COMPAT, HOST_LIBRARIES = (
    "/proc/driver/nvidia/version",
    "/usr/local/cuda/compat",
    "/usr/local/nvidia/lib64",
)
"""Where the host tells its driver, where NVIDIA's base images hold the compatibility libraries, and where the host's own
lie in the container."""
WITHOUT_EXPERTS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "proj")
"""What adapters of a mixture may change where no room is set aside for experts: all other linear layers, and the router."""
DECODER_CLASS = "Gemma4ForCausalLM"
"""The class of the decoder alone, which vLLM on TPU has in JAX also for models whose whole class it lacks."""
HASH_PREFIX = "spec-"


@dataclass(frozen=True)
class Command:
    """The server's command line and environment, what starts it, and the hash that names this specification."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    spec_hash: str
    wrapper: tuple[str, ...] = ()
    """What the container starts, with `argv` as its arguments: on a GPU it chooses the CUDA driver library. Empty on TPU."""


def command_of(
    settings: Settings,
    server: Server,
    *,
    weights_path: str,
    assistant_path: str | None,
    image: str,
    revision: str,
    assistant_revision: str | None = None,
    adapter_paths: Mapping[str, str] | None = None,
) -> Command:
    """Spell out argv and environment of `server`, and hash them.

    `weights_path` and `assistant_path` are where the server finds the checkpoints, `adapter_paths` where it finds the LoRA
    adapters, by name. The revisions are part of these paths where the checkpoints were staged, and flags of their own where
    the server downloads them.
    """
    drafting = _speculative_config(settings, server, assistant_path, assistant_revision)
    planned = planned_flags(settings, server, drafting=drafting, revision=revision, adapters=adapter_paths)
    typed = {normal_spelling(flag): value for flag, value in settings.vllm_args.items()}
    argv, flags = ["vllm", "serve", weights_path], flag_table(server.vllm_version)
    for flag, value in {**{flag: value for flag, value in planned.items() if flag not in typed}, **typed}.items():
        argv += _spelled(flag, value, flags)
    env = _environment(settings, server)
    wrapper: tuple[str, ...] = ()
    if server.implementation.uses_cuda:
        script, choice = START_ON_GPU.read_text("utf-8"), settings.serving.cuda_compatibility
        wrapper = ("bash", "-c", script, START_ON_GPU.stem, choice, DRIVER_FILE, CUDA_COMPAT, HOST_LIBRARIES)
    hashed = {"image": image, "revision": revision, "env": env, "argv": [*wrapper, *argv]}
    spec_hash = HASH_PREFIX + hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:12]
    names = ["--served-model-name", server.model.hub_id, spec_hash]
    heard = ["--host", server.hosting.listens_on, "--port", server.hosting.port or str(PORT)]
    return Command((*argv, *names, *heard), env, spec_hash, wrapper)


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
    server: Server,
    *,
    drafting: Mapping[str, Any] | None,
    revision: str,
    adapters: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return every flag that the command may carry with its value, None where the flag is left out.

    A flag has the value of the setting that declares it, save for those that are resolved or put together here.
    """
    serving = settings.serving
    split = serving.chunked_multimodal_input
    if split is None:
        split = server.implementation.splits_media
    template = server.implementation.tools_template if serving.chat_template == "tools" else serving.chat_template
    flags = own_values(settings) | {
        "--tensor-parallel-size": server.tensor_parallel,
        "--max-num-seqs": server.max_num_seqs,
        "--max-num-batched-tokens": server.max_num_batched_tokens,
        "--limit-mm-per-prompt": {kind: getattr(serving.modalities, kind) for kind in ("image", "audio", "video")},
        "--mm-processor-kwargs": None if serving.vision_tokens is None else {"max_soft_tokens": serving.vision_tokens},
        "--allowed-media-domains": serving.allowed_media_domains or (NO_DOMAIN,),
        "--speculative-config": drafting,
        "--chat-template": template,
        "--revision": revision if settings.weights.from_hub else None,
        "--shutdown-timeout": server.hosting.shutdown_s,
        "--disable-chunked-mm-input": None if split else True,
        "--enable-auto-tool-choice": serving.tools or None,
        "--tool-call-parser": "gemma4" if serving.tools else None,
        "--reasoning-parser": "gemma4" if serving.reasoning else None,
        "--load-format": None if server.load_format == "auto" else server.load_format,
        "--model-loader-extra-config": (
            {"concurrency": 16, "memory_limit": server.streamer_limit_bytes} if server.streamed else None
        ),
        "--disable-custom-all-reduce": True if _refuses_all_reduce(server) else None,
        "--hf-overrides": {"architectures": [DECODER_CLASS]} if server.decoder_alone else None,
        "--enable-lora": True if adapters else None,
        "--lora-modules": tuple(f"{name}={path}" for name, path in (adapters or {}).items()) or None,
        "--max-lora-rank": server.adapter_rank or None,
        "--max-loras": server.adapter_slots or None,
        "--lora-target-modules": WITHOUT_EXPERTS if adapters and server.mixture and not server.adapts_experts else None,
        "--max-cpu-loras": max(server.adapters, server.adapter_slots) or None,
    }
    return {flag: flags[flag] for flag in (*FLAG_ORDER, *(flag for flag in flags if flag not in FLAG_ORDER))}


def _speculative_config(
    settings: Settings, server: Server, assistant_path: str | None, assistant_revision: str | None
) -> dict[str, Any] | None:
    if server.speculation == "none":
        return None
    config: dict[str, Any] = {"method": server.speculation, "num_speculative_tokens": server.speculative_tokens}
    if server.speculation == "mtp":
        config["model"] = assistant_path
        if settings.weights.from_hub:
            config["revision"] = assistant_revision
    return config


def _refuses_all_reduce(server: Server) -> bool:
    """Return whether more devices share the model than vLLM's own all-reduce connects on the machine."""
    most = server.hosting.most_all_reduce
    return most is not None and server.tensor_parallel > most


def _environment(settings: Settings, server: Server) -> dict[str, str]:
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    env["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] = "0"  # a redirect is followed without a look at the allowed domains
    if not settings.weights.from_hub:
        env |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    own = {**server.implementation.env, **server.hosting.env}
    if server.tensor_parallel > 1 and not _refuses_all_reduce(server):
        # vLLM's own all-reduce hands its buffers from GPU to GPU in a way that refuses expandable segments, and ends the server
        # at its start: vllm #42609, #49101, and #56180 on two RTX 5090; not mended in 0.33.
        own.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    return {**env, **own, **settings.serving.env}


def _spelled(flag: str, value: Any, flags: FlagTable) -> list[str]:
    """Return the words of one flag, none for a value of None."""
    known = flags.find(flag)
    if isinstance(value, list | tuple) and known is not None and known.many:
        return [flag, *(str(item) for item in value)]
    if value is None:
        return []
    if value is True:
        return [flag]
    if value is False:
        return [known.negatives[0] if known and known.negatives else f"--no-{flag.removeprefix('--')}"]
    if isinstance(value, Mapping | list | tuple):
        return [flag, json.dumps(value, separators=(",", ":"))]
    return [flag, f"{value:g}" if isinstance(value, float) else str(value)]
