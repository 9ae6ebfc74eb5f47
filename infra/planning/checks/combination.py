"""What is known not to work, whatever the memory says: combinations that a platform or vLLM refuses, and what to write.

`check_combination` finds what this model on this machine cannot do (exit code 3), and what is merely worth a warning. What
is wrong in itself is found in setting_values.py, what is wrong where the server runs in infra/planning/platforms.
"""

from __future__ import annotations

from collections.abc import Iterator

from infra.catalog import Accelerator, Architecture, Assistant, Model, catalog
from infra.catalog.versions import minor_version, version_numbers
from infra.errors import Fault, Findings
from infra.planning.server.implementations import implementation_of
from infra.planning.server.server import IMAGE_TOKENS, VIDEO_TOKENS, Server
from infra.planning.server.user_flags import SPREADING_FLAGS, UNPLANNED_FLAGS, doubtful_arguments, serving_flags
from infra.planning.settings.declarations import Settings
from infra.planning.units import counted, read_usd


def check_combination(
    settings: Settings, server: Server, assistant: Assistant | None, *, without_metrics: str
) -> Findings:
    """Return everything about model and machine that is known not to work, with what to write instead.

    `without_metrics` says what else follows on this platform if the server's metrics are off.
    """
    architecture, accelerator = server.architecture, server.accelerator
    refusals = [
        *_parallelism(settings, accelerator),
        *_engine(settings, server, assistant),
        *_modalities(settings, architecture, accelerator),
        *_overruled(settings, accelerator),
    ]
    return Findings(tuple(refusals), tuple(_warnings(settings, accelerator, without_metrics)))


def _parallelism(settings: Settings, accelerator: Accelerator) -> Iterator[Fault]:
    parallel = settings.serving.tensor_parallel_size
    if parallel is not None and parallel > accelerator.devices:
        fact = f"{parallel} is more than {accelerator.id} has: {counted(accelerator.devices, 'device')}."
        yield Fault(
            "serving.tensorParallelSize",
            fact,
            "vLLM would find no such device.",
            f"Write {accelerator.devices}, or leave it out.",
        )


def check_idle_devices(settings: Settings, accelerator: Accelerator, usd_per_hour: float) -> Iterator[Fault]:
    """Yield a warning where fewer devices share the model than are paid for; `usd_per_hour` is the price of all of them."""
    parallel, devices = settings.serving.tensor_parallel_size, accelerator.devices
    spread = any(serving_flags(settings).main_spelling(written) in SPREADING_FLAGS for written in settings.vllm_args)
    if parallel is None or parallel >= devices or spread:
        return
    idle = devices - parallel
    fact = f"the model is on {parallel} of the {devices} devices of {accelerator.id}; the rest ({idle}) is idle."
    wasted = f"{read_usd(usd_per_hour * idle / devices)} of {read_usd(usd_per_hour)}"
    fix = f"Write {devices}, or leave it out"
    for one in catalog().accelerators.values():
        same_kind = (one.platform, one.bandwidth) == (accelerator.platform, accelerator.bandwidth)
        if same_kind and one.devices == parallel:
            fix += f"; {one.id} has just {parallel}"
    yield Fault("serving.tensorParallelSize", fact, f"They are paid for all the same: {wasted} an hour.", f"{fix}.")


def _engine(settings: Settings, server: Server, assistant: Assistant | None) -> Iterator[Fault]:
    serving, does = settings.serving, server.implementation
    model, architecture, accelerator, version = (
        server.model,
        server.architecture,
        server.accelerator,
        server.image_version,
    )
    if version is not None and version_numbers(version) < version_numbers(model.min_vllm):
        fact = f"vLLM {version} does not know {model.id}; {model.min_vllm} is the first that does."
        yield Fault(
            "images.serving",
            fact,
            "It would stop at the model's configuration.",
            "Leave it out, or name a later image.",
        )
    if serving.max_model_len > architecture.max_position:
        fact = f"{serving.max_model_len:,} is more than the model's {architecture.max_position:,} positions."
        yield Fault(
            "serving.maxModelLen", fact, "vLLM would refuse to start.", f"Write at most {architecture.max_position}."
        )
    if serving.async_scheduling and not does.can_overlap(serving.speculation.method, server.vllm_version):
        fact = f"cannot be on with ngram speculation under vLLM {server.vllm_version}."
        fix = "Leave serving.asyncScheduling out, or use serving.speculation.method: mtp."
        yield Fault("serving.asyncScheduling", fact, "vLLM would refuse to start.", fix)
    if serving.speculation.method == "mtp":
        yield from _assistant(model, assistant, version)
    compute_type = "bfloat16" if serving.dtype == "auto" else serving.dtype  # the checkpoints say bfloat16
    if serving.kv_cache_dtype in {"bfloat16", "float16"} - {compute_type} and minor_version(server.vllm_version) >= 33:
        fact = f"{serving.kv_cache_dtype} is not the compute type, {compute_type}."
        consequence = "Since 0.33 vLLM refuses to start with it."
        yield Fault("serving.kvCacheDtype", fact, consequence, f"Leave it out, or write auto or {compute_type}.")
    quantized = server.weight_format.quantized
    if serving.quantization == "fp8" and (quantized or not does.quantizes_while_loading):
        why = (
            "the checkpoint is quantised already"
            if quantized
            else f"vLLM on {accelerator.device.name} cannot quantise while loading"
        )
        yield Fault(
            "serving.quantization", f"fp8 does not apply: {why}.", "vLLM would refuse to start.", "Leave it out."
        )
    if serving.cpu_offload_gb and not does.offloads_weights:
        yield Fault(
            "serving.cpuOffloadGb",
            f"there is no CPU offload on {accelerator.device.name}.",
            "vLLM would refuse to start.",
            "Leave it out.",
        )
    if serving.chat_template == "tools" and does.tools_template is None:
        where = f"where its {accelerator.device.name} image holds one is not known"
        fact = f"tools stands for a file of vLLM's GPU image; {where}."
        fix = "Leave it out, for the checkpoint's own template, or write the file's whole path."
        yield Fault("serving.chatTemplate", fact, "vLLM would stop where the file is not there.", fix)
    if settings.workload.prompt_tokens + settings.workload.output_tokens > serving.max_model_len:
        total = settings.workload.prompt_tokens + settings.workload.output_tokens
        fact = (
            f"prompt and answer together are {total:,} tokens, more than serving.maxModelLen {serving.max_model_len:,}."
        )
        yield Fault(
            "workload",
            fact,
            "The server would answer 400 to every such request.",
            "Raise serving.maxModelLen or lower workload.",
        )


def _assistant(model: Model, assistant: Assistant | None, version: str | None) -> Iterator[Fault]:
    key = "serving.speculation.method"
    if assistant is None:
        fix = "Use ngram, or none."
        yield Fault(key, f"there is no MTP assistant for {model.id}.", "Nothing could draft.", fix)
    elif version is not None and version_numbers(version) < version_numbers(assistant.min_vllm):
        fact = f"vLLM {version} cannot use {assistant.hub_id}; {assistant.min_vllm} is the first that can."
        fix = "Use ngram, or none, or name a later image under images.serving."
        yield Fault(key, fact, "It would stop at the speculative configuration.", fix)


def _modalities(settings: Settings, architecture: Architecture, accelerator: Accelerator) -> Iterator[Fault]:
    modalities = settings.serving.modalities
    if modalities.audio and "audio" not in architecture.input_modalities:
        consequence = "The server would answer 400 to every audio request."
        *others, last = (row.id.upper() for row in catalog().architectures.values() if "audio" in row.input_modalities)
        fix = f"Write 0, or use {', '.join(others)} or {last}."
        yield Fault("serving.modalities.audio", "the model has no audio tower.", consequence, fix)
    elif modalities.audio and not implementation_of(accelerator).reads_audio:
        consequence = "An audio request would be an error."
        yield Fault(
            "serving.modalities.audio",
            f"vLLM on {accelerator.device.name} skips the audio tower.",
            consequence,
            "Write 0, or serve on a GPU.",
        )
    yield from _items(settings, architecture, accelerator)
    if modalities.image and "image" not in architecture.input_modalities:
        yield Fault(
            "serving.modalities.image", "the model takes no images.", "Image requests would be an error.", "Write 0."
        )


def _items(settings: Settings, architecture: Architecture, accelerator: Accelerator) -> Iterator[Fault]:
    """Yield a refusal for images and videos that one step must take whole and cannot."""
    serving, does = settings.serving, implementation_of(accelerator)
    tokens, most = serving.vision_tokens or IMAGE_TOKENS, does.most_image_tokens
    if most is not None and tokens > most:
        fact = f"vLLM on {accelerator.device.name} makes at most {most} tokens of an image, whatever is set."
        consequence = "The prompt would have room for more than the encoder gives, and image requests would fail."
        yield Fault("serving.visionTokens", fact, consequence, f"Write {most} or less, or serve on a GPU.")
    whole = not does.splits_media or not architecture.media_may_be_split or serving.chunked_multimodal_input is False
    batched = serving.max_num_batched_tokens
    if batched is None or not whole:
        return
    for kind, largest in (("video", VIDEO_TOKENS), ("image", tokens)):
        if getattr(serving.modalities, kind) and batched < largest:
            fact = f"{batched:,} is less than the {largest:,} tokens of one {kind}, which cannot be split here."
            fix = f"Write at least {largest}, or serving.modalities.{kind}: 0."
            yield Fault("serving.maxNumBatchedTokens", fact, "vLLM would refuse to start.", fix)
            return


def _overruled(settings: Settings, accelerator: Accelerator) -> Iterator[Fault]:
    """Yield a refusal for variables by which vLLM would choose the CUDA driver library, after the container's start did."""
    for name in ("VLLM_ENABLE_CUDA_COMPATIBILITY", "VLLM_CUDA_COMPATIBILITY_PATH"):
        if name in settings.serving.env and implementation_of(accelerator).uses_cuda:
            fact = "is overruled by serving.cudaCompatibility, which decides when the container starts."
            fix = "Take it out, and write serving.cudaCompatibility: always or never where auto is wrong."
            yield Fault(f"serving.env.{name}", fact, "It would have no effect.", fix)


def _warnings(settings: Settings, accelerator: Accelerator, without_metrics: str) -> Iterator[Fault]:
    if settings.serving.allowed_media_domains and not settings.weights.from_hub:
        fact = "the server has no way out to the internet while its weights come from a bucket."
        consequence = "Fetching from these hosts would fail after a wait."
        fix = "Let requests carry media as data: URLs, or write weights.source: huggingface, which opens a way out."
        yield Fault("serving.allowedMediaDomains", fact, consequence, fix)
    if "LD_LIBRARY_PATH" in settings.serving.env and implementation_of(accelerator).uses_cuda:
        fact = "comes behind the folder that serving.cudaCompatibility puts first."
        consequence = "Your own libcuda.so.1 would not be found."
        fix = "Keep it if it is for other libraries; put your libcuda.so.1 into the image's /usr/local/cuda/compat."
        yield Fault("serving.env.LD_LIBRARY_PATH", fact, consequence, fix)
    yield from doubtful_arguments(settings)
    for written in settings.vllm_args:
        if (flag := serving_flags(settings).main_spelling(written)) in UNPLANNED_FLAGS:
            fact = f"{flag} changes memory or devices in ways that this plan does not follow."
            fix = "Measure before you rely on the numbers above."
            yield Fault(f"vllmArgs.{written}", fact, "Capacity, speed and verdict are those without it.", fix)
        if flag == "--disable-log-stats":
            fact = "turns the server's metrics off."
            consequence = f"Nothing would show its load{without_metrics}."
            yield Fault(f"vllmArgs.{written}", fact, consequence, "Take it out.")
