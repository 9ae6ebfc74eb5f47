"""What the estimates of memory, speed and start are given, from the settings and what the engine will use."""

from __future__ import annotations

from collections.abc import Sequence

from infra.catalog import Accelerator, Architecture, Model, Platform
from infra.planning.artifacts import WeightSet
from infra.planning.memory.budget import ServerShape
from infra.planning.performance.decode import Served
from infra.planning.performance.speed import SpeedModel
from infra.planning.performance.startup import StartupEstimate, estimate_startup, weight_path
from infra.planning.platforms.startup_probe import PERIOD_S
from infra.planning.server.command import Engine, load_format
from infra.planning.settings.declarations import Settings


def server_shape(settings: Settings, model: Model, accelerator: Accelerator, engine: Engine) -> ServerShape:
    """For memory: the server as it will be started."""
    serving = settings.serving
    modalities = serving.modalities
    return ServerShape(
        model=model,
        accelerator=accelerator,
        vllm_version=engine.vllm_version,
        tensor_parallel=engine.tensor_parallel,
        tensor_parallel_written=serving.tensor_parallel_size is not None,
        max_model_len=engine.max_model_len,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        gpu_memory_utilization=serving.gpu_memory_utilization,
        async_scheduling=engine.async_scheduling,
        kv_cache_dtype=engine.kv_cache_dtype,
        block_size=serving.block_size,
        quantization=serving.quantization,
        speculation=serving.speculation.method,
        cpu_offload_gib=serving.cpu_offload_gb,
        enforce_eager=serving.enforce_eager,
        text_only=not (modalities.image or modalities.audio or modalities.video),
        host_memory_gib=_host_memory_gib(settings, accelerator),
        staged_in_memory=accelerator.tpu is not None,
        streamed=load_format(settings, accelerator) == "runai_streamer",
    )


def speed_model(
    settings: Settings, model: Model, architecture: Architecture, accelerator: Accelerator, engine: Engine
) -> SpeedModel:
    """For speed: the model on the machine, under the workload's requests."""
    serving, workload = settings.serving, settings.workload
    served = Served(
        model,
        architecture,
        accelerator,
        engine.tensor_parallel,
        kv_cache_dtype=engine.kv_cache_dtype,
        quantization=serving.quantization,
        cpu_offload_gib=serving.cpu_offload_gb,
        enforce_eager=serving.enforce_eager,
    )
    return SpeedModel(
        served,
        workload.prompt_tokens,
        workload.output_tokens,
        engine.max_num_batched_tokens,
        serving.speculation.method,
        engine.speculative_tokens,
    )


def startup_of(
    settings: Settings, architecture: Architecture, accelerator: Accelerator, weights: Sequence[WeightSet]
) -> StartupEstimate:
    """For the start: how the weights come, and what looks whether it is over."""
    serving = settings.serving
    path = weight_path(
        accelerator.platform,
        source=settings.weights.source,
        access=settings.weights.access,
        load_format=load_format(settings, accelerator),
        safetensors_load_strategy=serving.safetensors_load_strategy,
    )
    probed = accelerator.platform is Platform.CLOUD_RUN
    return estimate_startup(
        architecture,
        accelerator,
        weight_bytes=sum(one.size_bytes for one in weights),
        path=path,
        enforce_eager=serving.enforce_eager,
        probe_period_s=(settings.probes.startup.period_seconds or PERIOD_S) if probed else 0,
    )


def _host_memory_gib(settings: Settings, accelerator: Accelerator) -> float | None:
    limits = accelerator.cloud_run
    if limits is None:
        return accelerator.host_memory_gib
    return settings.scaling.memory_gib or limits.default_memory_gib
