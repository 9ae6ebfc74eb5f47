"""What a reader should know beside the numbers: an idle or a crowded device, what moves along, who may check and call."""

from __future__ import annotations

from collections.abc import Iterator

from infra.catalog import GIB, Accelerator, Model
from infra.errors import Fault
from infra.planning.memory.gpu_overhead import cold_start_bytes
from infra.planning.performance.evaluation_time import evaluation_seconds
from infra.planning.performance.speed import SpeedEstimate, SpeedModel
from infra.planning.server.implementations import implementation_of
from infra.planning.server.server import IMAGE_TOKENS, Server
from infra.planning.settings.declarations import Settings
from infra.planning.settings.resolve import WRITTEN, Origin
from infra.planning.units import read_duration, read_minutes, read_predicted, read_rate, read_tokens_per_second


def access_notes(settings: Settings, model: Model) -> Iterator[str]:
    """Yield what is still to be set before the weights can be had, the check can ask, and anybody can call."""
    if model.gated and settings.weights.source != "existing" and not (settings.hf_token or settings.hf_token_secret):
        yield f"{model.hub_id} is gated: pulumi config set --secret gemma4:hfToken, or set hfTokenSecret."
    if not settings.access.deployers:
        yield (
            "The check after deployment acts as the stack's invoker account: list who deploys under access.deployers, "
            "or grant them roles/iam.serviceAccountOpenIdTokenCreator on it."
        )
    if not settings.access.invokers:
        yield "Nobody but the stack's invoker account may call the endpoint: list callers under access.invokers."


def paused_note(stack: str, *, paused: bool) -> Iterator[str]:
    """Yield that nothing runs, where a stack is paused: all other figures are those of a stack that runs."""
    if paused:
        yield f"Paused: nothing is kept running or asked for. All figures are of the stack when it runs: gemma4 resume {stack}"


def evaluation_note(settings: Settings, server: Server) -> Iterator[str]:
    """Yield what the questions of the serving check cost, where somebody wants them."""
    if settings.serving.evaluation and settings.access.ingress != "internal":
        seconds = evaluation_seconds(server, prefix_caching=settings.serving.prefix_caching)
        yield (
            "serving.evaluation: the check after deployment asks some sixty questions more, "
            f"{read_predicted(seconds, read_duration, ends=read_minutes)}, and fails below the floor; the floor is low, and no "
            "real Gemma 4 was asked to set it."
        )


def template_note(settings: Settings, accelerator: Accelerator) -> Iterator[str]:
    """Yield which chat template tells the model about tools, where tools are on and nobody chose one."""
    if settings.serving.tools and settings.serving.chat_template is None:
        other = (
            "serving.chatTemplate takes another by its path in the image"
            if implementation_of(accelerator).tools_template is None
            else "serving.chatTemplate: tools takes the one of vLLM's GPU image instead"
        )
        yield (
            "Tools are put to the model in the words of the checkpoint's own chat template; "
            f"{other} (docs/decisions/0009)."
        )


def vision_note(settings: Settings) -> Iterator[str]:
    """Yield what a budget of image tokens that somebody chose means for the figures."""
    tokens = settings.serving.vision_tokens
    if tokens is not None and settings.serving.modalities.image:
        yield (
            f"An image takes up to {tokens:,} prompt tokens (the model's own budget: {IMAGE_TOKENS}): count them in "
            "workload.promptTokens. vLLM measures its memory with as many images as one step takes, so the KV cache is "
            "predicted as without."
        )


def cold_start_note(server: Server, kv_bytes: float) -> Iterator[str]:
    """Yield what a server of text alone gives up of its KV cache of `kv_bytes` a device by compiling at every start."""
    spared = 0.0 if server.implementation.programs_outside_share else cold_start_bytes(server)
    if spared > 0 and not server.compile_cache_warm:
        yield (
            f"With text only, a start without vLLM's compile cache leaves {spared / GIB:.1f} GiB less for the KV cache "
            f"({max(0.0, kv_bytes) / GIB:.1f} instead of {max(0.0, kv_bytes + spared) / GIB:.1f}): the largest embedding is "
            "counted once more while the kernels are timed. Leave images on (serving.modalities.image: 1), or keep "
            "VLLM_CACHE_ROOT from start to start."
        )


def decoder_note(server: Server) -> Iterator[str]:
    """Yield how a TPU serves a model whose class its JAX path lacks, and what int4 weights there rest on."""
    if server.loads and server.implementation.programs_outside_share and server.weight_format.tpu_dense_jax_only:
        yield "Int4 weights on TPU are reported of 31B on one v6e chip (vLLM 0.29.1); nobody has reported another model."
    if server.decoder_alone:
        yield (
            "With text only, vLLM on TPU is told to serve the decoder alone (--hf-overrides), which its JAX path has: reported "
            "to work with 12B, and 2.4 GiB smaller than the whole model in PyTorch. vllmArgs may write --hf-overrides itself."
        )
    elif server.pytorch_on_tpu:
        yield (
            "vLLM on TPU lacks this model's class in JAX and serves it with PyTorch, which keeps the embedding twice. Where no "
            "images or sound are needed, serve text only: it is smaller then, and int4 weights load."
        )


def kv_dtype_note(server: Server, tokens: int, unquantised: int) -> Iterator[str]:
    """Yield a note where an fp8 KV cache of `tokens` holds no more than the `unquantised` of bf16 in the same memory."""
    if server.kv_cache_dtype.startswith("fp8") and 0 < tokens <= unquantised:
        yield (
            f"serving.kvCacheDtype: {server.kv_cache_dtype} saves nothing here: {tokens:,} tokens as with bf16, because a "
            "device holds one KV head, which is padded to the size of two. It only costs accuracy: leave it out."
        )


def idle_note(server: Server, knee: int, speed: SpeedModel, origin: Origin) -> Iterator[str]:
    """Yield a note where `knee` running requests, which would fit, make much more of the device than those of `server`.

    `origin` says who chose theirs: what a recipe says cannot be left out.
    """
    if knee < 2 * server.max_num_seqs:
        return
    more, now = (speed.tokens_per_second_at(at).with_new_prompts for at in (knee, server.max_num_seqs))
    by, instead = ("", ", or leave it out") if origin in WRITTEN else (f", by the {origin},", "")
    yield (
        f"maxNumSeqs {server.max_num_seqs}{by} leaves the card idle: {knee} running requests would fit and give "
        f"{read_predicted(more, read_tokens_per_second, ' in all')} instead of {read_predicted(now, read_rate)}, "
        f"with new prompts. Write serving.maxNumSeqs: {knee}{instead}."
    )


def crowding(server: Server, held: int, tokens: int, most: int, speed: SpeedEstimate) -> Fault:
    """Return the warning that `server` may run more requests of `tokens` tokens than the `held` that its KV cache holds.

    `most` is the largest maxNumSeqs whose requests are all held.
    """
    return Fault(
        "serving.maxNumSeqs",
        f"{server.max_num_seqs} requests may run at once; the KV cache holds {held} of {tokens:,} tokens.",
        f"The others wait or are preempted and computed anew: speed and price are those of {speed.planned.requests}.",
        f"Write {max(1, most)}.",
    )
