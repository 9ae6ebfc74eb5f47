"""What vLLM's implementations do differently: its own CUDA worker on GPUs, and tpu-inference on TPU chips.

The device kind is a fact of the machine; everything that follows from the code that serves on it stands here, as facts.
Read in the sources of vLLM 0.32 and 0.33 and of tpu-inference 0.32 unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from infra.catalog import Accelerator, Device
from infra.catalog.versions import minor_version


@dataclass(frozen=True)
class Implementation:
    """One implementation of vLLM: what it can do, what it chooses by itself, and how it uses memory."""

    device: Device
    image: str
    """The catalog's id of its image, and the folder of its Dockerfile under containers/."""

    # What it can do.
    quantizes_while_loading: bool
    """Whether it makes fp8 of a bf16 checkpoint at start."""
    offloads_weights: bool
    """Whether weights may stay in host memory."""
    reads_audio: bool
    """Whether it loads the audio tower."""
    splits_media: bool
    """Whether an image or a video may be split between two steps, for architectures that allow it."""
    most_image_tokens: int | None
    """The most tokens that its encoder makes of an image; None: as many as serving.visionTokens says."""
    tools_template: str | None
    """Where its image holds the template for tool calls; None where that is not known."""
    serves_adapters: bool
    """Whether it serves LoRA adapters of Gemma 4."""
    uses_cuda: bool
    """Whether the container chooses a CUDA driver library before the server starts."""
    eager_starts_sooner: bool
    """Whether serving.enforceEager shortens the start; elsewhere the first requests pay for the compilation."""

    # What it chooses by itself, and what is recommended.
    batched_tokens: tuple[tuple[float, int], ...]
    """Default of --max-num-batched-tokens, by the least device memory (GiB) for which it holds, smallest device first."""
    least_step_tokens: int | None
    """Steps are padded to a power of two of tokens, this many at least and no more than a step may take; None: not padded."""
    overlaps_scheduling: bool
    """Default of --async-scheduling."""
    overlaps_ngram_since: int | None
    """The first minor version whose scheduling overlaps with the device under ngram speculation too; None: in none."""
    most_useful_seqs: int
    """The largest maxNumSeqs that is recommended."""
    safe_utilization: float | None
    """The largest gpuMemoryUtilization that is offered for it; None: any."""

    # How it uses memory.
    frees_sliding_window: bool
    """Whether sliding-window layers give back KV blocks that leave the window; else every layer keeps the whole context."""
    kv_word_bytes: int
    """K and V heads of one token are padded to whole words of this size."""
    scaled_kv_types: bool
    """Whether it stores KV types with a scale for each token and head."""
    programs_outside_share: bool
    """Whether compiled programs live outside the share of memory that vLLM plans with, and nothing is set aside in it."""
    keeps_checkpoint_as_it_is: bool
    """Whether all tensors but the audio tower stay as the checkpoint has them: no rotary tables, embedding counted once."""

    env: Mapping[str, str] = field(hash=False)
    """Environment variables of the server."""

    def usual_batched_tokens(self, device_memory_gib: float) -> int:
        """Return the default of --max-num-batched-tokens on devices of that memory."""
        return next(tokens for least, tokens in reversed(self.batched_tokens) if device_memory_gib >= least)

    def can_overlap(self, speculation: str, vllm_version: str) -> bool:
        """Return whether --async-scheduling may be on with a method of speculation."""
        since = self.overlaps_ngram_since
        return speculation != "ngram" or (since is not None and minor_version(vllm_version) >= since)


CUDA = Implementation(
    device=Device.GPU,
    image="gpu",
    quantizes_while_loading=True,
    offloads_weights=True,
    reads_audio=True,
    splits_media=True,
    most_image_tokens=None,
    # As their recipe has it; reported by several users, not seen in v0.32.0.
    tools_template="/vllm-workspace/examples/tool_chat_template_gemma4.jinja",
    serves_adapters=True,
    uses_cuda=True,
    eager_starts_sooner=True,
    batched_tokens=((0, 2048), (70, 8192)),
    least_step_tokens=None,
    overlaps_scheduling=True,
    overlaps_ngram_since=33,  # Model Runner V2 does; until 0.32 the configuration refused it for every runner
    most_useful_seqs=512,  # the last batch that vLLM captures a CUDA graph for
    safe_utilization=None,
    frees_sliding_window=True,
    kv_word_bytes=1,
    scaled_kv_types=True,
    programs_outside_share=False,
    keeps_checkpoint_as_it_is=False,
    # The weights' mount is read-only, so that the Hub's cache lies elsewhere.
    env={"HF_HOME": "/tmp/huggingface", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},  # noqa: S108
)

TPU_INFERENCE = Implementation(
    device=Device.TPU,
    image="tpu",
    quantizes_while_loading=False,
    offloads_weights=False,
    reads_audio=False,
    splits_media=False,
    most_image_tokens=280,
    tools_template=None,
    # Gemma 4 runs on JAX there, whose loader makes no LoRA manager, and the compilation asserts that there is one.
    serves_adapters=False,
    uses_cuda=False,
    eager_starts_sooner=False,
    batched_tokens=((0, 4096),),  # as in all published recipes
    least_step_tokens=16,  # MIN_TOKEN_BUCKET, with VLLM_TPU_BUCKET_PADDING_GAP at its default of 0
    overlaps_scheduling=False,
    overlaps_ngram_since=None,  # its runner counts as a V1 runner, which cannot
    most_useful_seqs=256,  # the common choice
    safe_utilization=0.90,
    frees_sliding_window=False,
    kv_word_bytes=4,
    scaled_kv_types=False,
    programs_outside_share=True,
    keeps_checkpoint_as_it_is=True,
    env={
        "HF_HOME": "/dev/shm/huggingface",  # noqa: S108  the node's memory file system, as for the weights
        "VLLM_XLA_CACHE_PATH": "/dev/shm/xla-cache",  # noqa: S108
        "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
    },
)

IMPLEMENTATIONS: Mapping[Device, Implementation] = {one.device: one for one in (CUDA, TPU_INFERENCE)}
"""The implementation that serves on each kind of device."""


def implementation_of(accelerator: Accelerator) -> Implementation:
    """Return the implementation of vLLM that serves on a machine."""
    return IMPLEMENTATIONS[accelerator.device]
