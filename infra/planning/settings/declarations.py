"""What a stack file may say, key by key: meaning, type, range, default and an example.

The models are frozen and strict about names; `resolve.py` lays defaults, recipe, stack file and command line over each
other and turns every fault into one sentence. A default of None means that the planner chooses and says so.
The field descriptions are what `gemma4 explain` prints and what docs/configuration.md holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from infra.catalog.schema import Profile
from infra.image_names import parse_image_name
from infra.planning.settings.cidr import check_range
from infra.planning.units import parse_duration, spell_duration

MOST_SEQS = 4096
"""The most that serving.maxNumSeqs takes."""
MOST_CONCURRENCY = 1000
"""The most requests that Cloud Run sends to one instance, and the most that scaling.concurrency takes."""
SECRET_KEY = "hfToken"  # noqa: S105 the name of a setting
"""The one secret setting: settings hold only whether it is set."""

Provisioning = Literal["flex-start", "spot", "on-demand"]
VisionTokens = Literal[70, 140, 280, 560, 1120]
"""Budgets that Gemma 4's image processor knows."""
AdapterRank = Literal[1, 8, 16, 32, 64, 128, 256, 320, 512]
"""What vLLM 0.32 and 0.33 take for --max-lora-rank."""
MOST_ADAPTERS = 64
"""The most that serving.adapters and serving.adapterSlots take."""


def _read_by(parse: Callable[[str], object]) -> AfterValidator:
    """Return a check that a text can be read by `parse`; the setting keeps the text."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def _at_most(longest_s: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if parse_duration(text) > longest_s:
            raise ValueError(f"is too long; write {spell_duration(longest_s)} or less")
        return text

    return check


def _at_least(shortest_s: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if parse_duration(text) < shortest_s:
            raise ValueError(f"is too short; write {spell_duration(shortest_s)} or more")
        return text

    return check


def _whole(value: Any) -> Any:
    """Return a number that is given as text, as Pulumi gives every value of the first level: pydantic reads no choice there."""
    return int(value) if isinstance(value, str) and len(value) < 9 and value.isdecimal() else value


def _matching(pattern: str, example: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"has the wrong form; write it like {example}")
        return text

    return AfterValidator(check)


Duration = Annotated[str, _read_by(parse_duration)]
SettleTime = Annotated[Duration, AfterValidator(_at_most(900))]
QueueTime = Annotated[Duration, AfterValidator(_at_least(1)), AfterValidator(_at_most(900))]
Member = Annotated[
    str,
    _matching(
        r"(user|group|serviceAccount):[^\s:@]+@[^\s@]+\.[^\s@.]+"
        r"|serviceAccount:[^\s:@\[]+\[\S+\]"  # of a Kubernetes cluster
        r"|(domain|principal|principalSet):[^\s:]\S*",
        "group:ml@example.com or serviceAccount:app@my-project.iam.gserviceaccount.com",
    ),
]
Region = Annotated[str, _matching(r"[a-z]+(-[a-z]+)+\d+", "us-east4")]
Zone = Annotated[str, _matching(r"[a-z]+(-[a-z]+)+\d+-[a-z]", "us-east5-a")]
SliceName = Annotated[str, _matching(r"[a-z][a-z0-9]{0,11}", "blue (lower-case letters and digits, at most 12)")]
MachineType = Annotated[str, _matching(r"[a-z][a-z0-9]*-[a-z]+-\d+[a-z]?", "g4-standard-96")]
SystemImage = Annotated[
    str,
    _matching(
        r"cos-[a-z0-9][a-z0-9-]*|projects/[a-z0-9][a-z0-9.:-]*/global/images/[a-z][a-z0-9/-]*",
        "cos-125-19216-532-108 or projects/my-project/global/images/my-cos",
    ),
]
LabelKey = Annotated[str, _matching(r"[a-z][a-z0-9_-]{0,62}", "team")]
LabelValue = Annotated[str, _matching(r"[a-z0-9_-]{0,63}", "ml-platform")]
EnvName = Annotated[str, _matching(r"[A-Za-z_][A-Za-z0-9_]*", "VLLM_LOGGING_LEVEL")]
Commit = Annotated[
    str, _matching(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", "0123abc (a commit, or a branch without a slash)")
]
SecretName = Annotated[
    str,
    _matching(
        r"(projects/[a-z0-9][a-z0-9.:-]*/secrets/)?[A-Za-z0-9_-]{1,255}",
        "hf-token or projects/my-project/secrets/hf-token",
    ),
]
Domain = Annotated[
    str, _matching(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "images.example.com")
]
TemplatePath = Annotated[
    str,
    _matching(
        r"tools|(/[A-Za-z0-9_][A-Za-z0-9_.+@-]*)+", "/templates/tools.jinja (absolute, without blanks), or tools"
    ),
]
AdapterName = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", "support-tone")]
AdapterSource = Annotated[
    str,
    _matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9_][A-Za-z0-9._-]{0,63})?"
        r"|gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[A-Za-z0-9_=][A-Za-z0-9._=-]*)+",
        "my-org/support-tone-lora@0123abc or gs://my-bucket/adapters/support-tone",
    ),
]
CHECKPOINT = (
    r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*"
    r"|gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[A-Za-z0-9_][A-Za-z0-9._=+-]*)+"
)
"""What a checkpoint is named by, as a pattern: its repository, or its folder in a bucket."""
Checkpoint = Annotated[
    str,
    _matching(
        CHECKPOINT,
        "acme/gemma-4-12b-support or gs://my-bucket/gemma-4-12b-support",
    ),
]
CallerId = Annotated[
    str,
    _matching(r"[0-9]{6,32}", '"104857600000000000000" (the number of an account, which its identity tokens call sub)'),
]
BucketName = Annotated[str, _matching(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", "my-project-gemma-weights")]
ImageReference = Annotated[str, _read_by(parse_image_name)]
DockerHubUser = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9_-]{1,254}", "my-company")]
Cidr = Annotated[str, AfterValidator(check_range)]


def setting(
    default: Any,
    meaning: str,
    example: Any = None,
    *,
    flag: str = "",
    off: str | float | None = None,
    owns: tuple[str, ...] = (),
    **bounds: Any,
) -> Any:
    """Declare a setting: its default, its meaning in a sentence, an example of a good value, and pydantic bounds.

    `flag` is the flag of `vllm serve` that the setting becomes, with the setting's own value unless server/command.py
    computes another; the value `off`, like None, leaves the flag out. `owns` are further flags that the setting decides.
    All of them are refused in `vllmArgs`.
    """
    examples = [] if example is None else [example]
    command: JsonDict = {"flag": flag, "off": off, "owns": [*owns]}
    declared = command if flag or owns else None
    return Field(default, description=meaning, examples=examples, json_schema_extra=declared, **bounds)


class Group(BaseModel):
    """Base of all groups: camelCase keys, frozen, no unknown key."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, alias_generator=to_camel, protected_namespaces=()
    )


class SpeculationSettings(Group):
    """Speculative decoding."""

    method: Literal["none", "ngram", "mtp"] = setting(
        "none",
        "Who drafts tokens: nobody, an n-gram match on the prompt, or the MTP assistant trained for the model.",
        "mtp",
        owns=("--spec-method", "--spec-model"),
    )
    tokens: int | None = setting(
        None,
        "Draft tokens a step; default: the assistant's recommendation, 3 for ngram.",
        4,
        ge=1,
        le=16,
        owns=("--spec-tokens",),
    )


class ModalitySettings(Group):
    """The most items of each kind that one request may carry; 0 switches the kind off and frees its memory."""

    image: int = setting(4, "Images a request.", 4, ge=0, le=64)
    audio: int = setting(0, "Audio clips a request (models with an audio tower, on GPU).", 1, ge=0, le=16)
    video: int = setting(
        0, "Videos a request; off unless asked for, while vLLM alone would take any number of any kind.", 1, ge=0, le=16
    )


class ServingSettings(Group):
    """The vLLM server."""

    max_model_len: int = setting(
        8192, "Longest prompt plus answer of one request, tokens.", 16384, ge=256, le=1_048_576, flag="--max-model-len"
    )
    max_num_seqs: int | None = setting(
        None, "Requests that run at once; others queue.", 16, ge=1, le=MOST_SEQS, flag="--max-num-seqs"
    )
    max_num_batched_tokens: int | None = setting(
        None,
        "Prompt tokens that one step may process; large values cost KV capacity.",
        2048,
        ge=64,
        le=131_072,
        flag="--max-num-batched-tokens",
    )
    gpu_memory_utilization: float = setting(
        0.90,
        "Share of device memory that vLLM may plan with (on TPU too).",
        0.90,
        gt=0.05,
        le=0.99,
        flag="--gpu-memory-utilization",
    )
    kv_cache_dtype: Literal["auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"] = setting(
        "auto",
        "Storage type of the KV cache; fp8 halves it where a device holds more than one KV head.",
        "fp8",
        flag="--kv-cache-dtype",
    )
    quantization: Literal["none", "fp8"] = setting(
        "none",
        "Quantise a bf16 checkpoint while loading (GPU only); QAT checkpoints need nothing here.",
        "fp8",
        flag="--quantization",
        off="none",
    )
    dtype: Literal["auto", "bfloat16", "float16"] = setting("bfloat16", "Compute type.", "bfloat16", flag="--dtype")
    cpu_offload_gb: float = setting(
        0,
        "GiB of weights kept in host memory, per GPU; each costs decode speed.",
        5,
        ge=0,
        le=160,
        flag="--cpu-offload-gb",
        off=0,
    )
    enforce_eager: bool = setting(
        False,
        "Skip CUDA graphs: a faster start, slower decoding (GPU; on TPU it only postpones the compilation).",
        True,
        flag="--enforce-eager",
        off=False,
    )
    tensor_parallel_size: int | None = setting(
        None,
        "Devices that share one model; default: all of the accelerator.",
        2,
        ge=1,
        le=8,
        flag="--tensor-parallel-size",
    )
    block_size: Annotated[Literal[16, 32, 64, 128, 256], BeforeValidator(_whole)] | None = setting(
        None, "Tokens a KV page; default: vLLM's own choice.", 32, flag="--block-size"
    )
    async_scheduling: bool | None = setting(
        None, "Overlap scheduling with the device; default: vLLM's own choice.", True, flag="--async-scheduling"
    )
    prefix_caching: bool = setting(
        True, "Reuse the KV cache of a shared prompt prefix.", True, flag="--enable-prefix-caching"
    )
    chunked_multimodal_input: bool | None = setting(
        None,
        "Whether an image may be split between two steps; default: not on TPU, else vLLM's choice.",
        False,
        flag="--disable-chunked-mm-input",
    )
    speculation: SpeculationSettings = setting(
        SpeculationSettings(), "Speculative decoding.", flag="--speculative-config"
    )
    modalities: ModalitySettings = setting(
        ModalitySettings(),
        "Items other than text that a request may carry.",
        flag="--limit-mm-per-prompt",
        owns=("--language-model-only", "--hf-overrides"),
    )
    vision_tokens: Annotated[VisionTokens, BeforeValidator(_whole)] | None = setting(
        None,
        "Most prompt tokens of one image, more for finer detail; a request may ask for another budget. Default: the "
        "model's own, 280.",
        560,
        flag="--mm-processor-kwargs",
    )
    allowed_media_domains: tuple[Domain, ...] = setting(
        (),
        "Hosts from which the server may fetch what a request links to (image_url and the like), exactly as spelled; "
        "default: none, so that media come as data: URLs.",
        ["images.example.com"],
        max_length=64,
        flag="--allowed-media-domains",
    )
    tools: bool = setting(
        True,
        "Parse tool calls (parser gemma4) and let the model choose to call; chatTemplate says in which words it is told.",
        True,
        flag="--enable-auto-tool-choice",
        owns=("--tool-call-parser",),
    )
    reasoning: bool = setting(
        True, "Split the thinking off into message.reasoning (parser gemma4).", True, flag="--reasoning-parser"
    )
    chat_template: TemplatePath | None = setting(
        None,
        "Absolute path of a chat template inside the image, or tools: the one that vLLM's GPU image holds for Gemma 4's "
        "tool calls; default: the checkpoint's own.",
        "/templates/tools.jinja",
        flag="--chat-template",
    )
    load_format: Literal["auto", "safetensors", "runai_streamer"] | None = setting(
        None,
        "How weights are read; default: the streamer on Cloud Run, else vLLM's choice.",
        "runai_streamer",
        flag="--load-format",
        owns=("--model-loader-extra-config",),
    )
    safetensors_load_strategy: Literal["eager", "lazy", "prefetch"] | None = setting(
        None,
        "How safetensors files are read when the streamer does not; lazy maps them, slow over a mounted bucket.",
        "prefetch",
        flag="--safetensors-load-strategy",
    )
    adapters: dict[AdapterName, AdapterSource] = setting(
        {},
        "LoRA adapters of the model (GPU), by the name under which requests ask for them: a repository on Hugging Face, "
        "with @ and a commit, or a folder of a bucket. Each adapter is a model of its own beside the base in /v1/models.",
        {"support-tone": "my-org/support-tone-lora@0123abc"},
        max_length=MOST_ADAPTERS,
        flag="--lora-modules",
        owns=("--enable-lora", "--max-cpu-loras"),
    )
    adapter_rank: Annotated[AdapterRank, BeforeValidator(_whole)] = setting(
        16,
        "Largest rank of an adapter: memory is set aside for so much, whatever the adapters' own ranks.",
        32,
        flag="--max-lora-rank",
    )
    adapter_slots: int | None = setting(
        None,
        "Adapters that stay on the device and may share a batch; requests for others wait. Default: one for each adapter, "
        "at most 8.",
        2,
        ge=1,
        le=MOST_ADAPTERS,
        flag="--max-loras",
    )
    adapter_experts: bool = setting(
        False,
        "Whether an adapter changes experts of a mixture, each by itself: their room is many times that of all else.",
        True,
        owns=("--lora-target-modules",),
    )
    cuda_compatibility: Literal["auto", "always", "never"] = setting(
        "auto",
        "Whether CUDA's compatibility library in the image is put before the host's driver library (GPU); auto: decided "
        "when the container starts, only on a driver of an older branch, which is what it is for.",
        "never",
    )
    ready_timeout: Duration | None = setting(
        None, "How long the serving check waits; default: 10m or twice the start estimate, whichever is longer.", "45m"
    )
    evaluation: bool = setting(
        False,
        "Ask a new server some sixty questions with known answers in the serving check, and fail where it answers fewer right "
        "than a low floor (`gemma4 evaluate` asks them at any time): a quantization or a KV type that breaks answers is seen "
        "before callers see it. Costs minutes on a slow machine.",
        True,
    )
    env: dict[EnvName, str] = setting(
        {}, "Further environment variables of the server; never a secret.", {"VLLM_LOGGING_LEVEL": "DEBUG"}
    )


class WorkloadSettings(Group):
    """The request that speed and cost are predicted for."""

    prompt_tokens: int = setting(1024, "Prompt length of a typical request, tokens.", 1024, ge=1, le=1_048_576)
    output_tokens: int = setting(256, "Answer length of a typical request, tokens.", 256, ge=1, le=131_072)


class ScalingSettings(Group):
    """Cloud Run instances; behind a gateway only its concurrency and requestTimeout."""

    min_instances: int = setting(0, "Instances kept warm; each is paid around the clock.", 0, ge=0, le=100)
    max_instances: int = setting(1, "Most instances; must be covered by the GPU quota.", 1, ge=1, le=100)
    concurrency: int | None = setting(
        None,
        "Requests in flight, running and waiting: of one instance (GPU; default: twice maxNumSeqs, at most "
        f"{MOST_CONCURRENCY}), or of one server behind the gateway (TPU and Compute Engine; default: 512, all together at "
        "most 4000).",
        32,
        ge=1,
        le=MOST_CONCURRENCY,
    )
    cpu: int | None = setting(None, "vCPU of an instance; default: the accelerator's recommendation.", 8, ge=1, le=64)
    memory_gib: int | None = setting(
        None, "Memory of an instance, GiB; default: the accelerator's recommendation.", 32, ge=1, le=512
    )
    zonal_redundancy: bool = setting(False, "Reserve GPU capacity in a second zone: dearer, separate quota.", False)
    request_timeout: Duration = setting("60m", "Longest request, queued or running, at most 60m.", "60m")


class StartupProbeSettings(Group):
    """The Cloud Run startup probe: HTTP GET /health."""

    initial_delay_seconds: int | None = setting(None, "Seconds before the first probe; default: none.", 60, ge=0)
    period_seconds: int | None = setting(
        None, "Seconds between probes; a long period delays readiness; default: 10.", 10, ge=1
    )
    timeout_seconds: int | None = setting(None, "Seconds that one probe may take.", 5, ge=1)
    failure_threshold: int | None = setting(
        None, "Failed probes before the start counts as failed; default: fills the cap.", 180, ge=1
    )


class ProbeSettings(Group):
    """Health probes."""

    startup: StartupProbeSettings = setting(StartupProbeSettings(), "The startup probe.")


class TpuSettings(Group):
    """Queued resources of Cloud TPU."""

    zone: Zone | None = setting(None, "Zone of the slices; default: the accelerator's first known zone.", "us-east5-a")
    slices: tuple[SliceName, ...] = setting(
        ("blue",),
        "Names of the slices behind the gateway; the first must come up. An empty list pauses the stack, as `paused: true` "
        "does.",
        ["blue", "green"],
        max_length=8,
    )
    provisioning: Provisioning = setting(
        "flex-start",
        "How capacity is bought: flex-start runs at most 7 days and waits in a queue; spot may be taken back at any time.",
        "flex-start",
    )
    max_run_duration: Duration = setting("24h", "When a flex-start slice ends, 10m to 7d.", "24h")
    valid_until_duration: Duration | None = setting(
        None,
        "How long the request may wait in the queue; default: as long as `up` waits (waitForCapacity). With more, a slice may "
        "be granted, and paid for, while nobody waits for it.",
        "4h",
    )
    wait_for_capacity: Duration = setting(
        "20m",
        "How long `up` waits for capacity. The next `up` asks anew, or goes on waiting for what still stands.",
        "20m",
    )
    iap_ssh: bool = setting(
        False, "Let ssh in through Identity-Aware Proxy (35.235.240.0/20 to port 22 of the slices), nobody else.", True
    )
    privileged: bool = setting(
        False, "Give the server's container all of its machine, where it does not start with the chips alone.", False
    )


class GatewaySettings(Group):
    """The gateway before servers that have no address of their own: which of them a request goes to, and whose goes first."""

    affinity: Literal["none", "session", "prefix"] = setting(
        "none",
        "Where requests go that belong together, since a server answers sooner where it has read their beginning before. "
        "none: to the least busy server; session: to one server for each x-session-id header, or prompt_cache_key of the "
        "body; prefix: as session, and a request with neither by its first messages. A busy server passes requests on.",
        "prefix",
    )
    per_caller: int | None = setting(
        None,
        "Most requests for an answer that one identity may have in flight, running and waiting; further ones get 429. An "
        "identity is an account (the sub of its token), not a person: all who call through one service account share the "
        "number. Counted in one instance, so the gateway stays at one. Default: no limit of its own.",
        32,
        ge=1,
        le=MOST_CONCURRENCY,
    )
    per_server: int | None = setting(
        None,
        "Most requests that one server is sent at once. Further ones wait at the gateway, where those of gateway.priority go "
        "first, up to scaling.concurrency for each server. Write serving.maxNumSeqs or a little more. Default: all are sent, "
        "and the server queues them in the order in which they come.",
        64,
        ge=1,
        le=MOST_CONCURRENCY,
    )
    queue_timeout: QueueTime = setting(
        "30s",
        "How long a request may wait at the gateway for a server before it is answered 503 with Retry-After, 1s to 15m; "
        "only with gateway.perServer, for without it servers queue by themselves.",
        "30s",
    )
    priority: tuple[CallerId, ...] = setting(
        (),
        "Identities whose requests go first where requests wait at the gateway (gateway.perServer), each by the number of its "
        "account: `gcloud iam service-accounts describe EMAIL --format='value(uniqueId)'`, or sub in an identity token. They "
        "overtake what came up to half of gateway.queueTimeout earlier, and nothing older.",
        ["104857600000000000000"],
        max_length=64,
    )


class MachineSettings(Group):
    """Machines of Compute Engine with GPUs."""

    names: tuple[SliceName, ...] = setting(
        ("blue",),
        "Names of the machines behind the gateway; an empty list pauses the stack.",
        ["blue", "green"],
        max_length=8,
    )
    zones: tuple[Zone, ...] = setting(
        (),
        "Zones of one region in which Google may place a machine; default: the accelerator's first known zone.",
        ["us-central1-b"],
        max_length=8,
    )
    shapes: tuple[MachineType, ...] = setting(
        (),
        "Machine types that may serve, in order of preference: each runs the same servers, so that GPUs which a larger one "
        "has beside them are idle and paid for. Default: the accelerator's own.",
        ["g4-standard-96", "g4-standard-192"],
        max_length=4,
    )
    provisioning: Provisioning = setting(
        "on-demand",
        "How capacity is bought: on-demand stays until it is deleted; spot may be taken back at any time; flex-start is "
        "refused, since Google does not sell these machines so.",
        "spot",
    )
    max_run_duration: Duration = setting("24h", "When a flex-start machine ends, 10m to 7d.", "24h")
    valid_until_duration: Duration | None = setting(
        None,
        "How long a flex-start request may wait in the queue; default: as long as waitForCapacity. Longer, and a machine may "
        "be granted, and paid for, when nobody waits for it.",
        "4h",
    )
    wait_for_capacity: Duration = setting(
        "20m", "How long `up` waits for a machine; where it comes later, it serves all the same.", "20m"
    )
    image: SystemImage = setting(
        "cos-125-19216-532-108",
        "Container-Optimized OS, whose version fixes which GPU drivers there are: an image of cos-cloud by its name, or a "
        "family.",
        "cos-125-19216-395-4",
    )
    disk_gb: int = setting(
        200, "Boot disk (Hyperdisk Balanced), GB: two serving images fit while one is changed.", 200, ge=20, le=4096
    )
    disk_throughput: int = setting(
        600,
        "Throughput of the boot disk, MiB/s; 140 are free. It decides how long an image takes to unpack.",
        600,
        ge=140,
        le=2400,
    )
    iap_ssh: bool = setting(
        False,
        "Let ssh in through Identity-Aware Proxy (35.235.240.0/20 to port 22 of the machines), nobody else.",
        True,
    )


class WeightSettings(Group):
    """Where the server reads its weights."""

    source: Literal["bucket", "existing", "huggingface"] = setting(
        "bucket",
        "bucket: our own copy, staged once; existing: a bucket that is filled; huggingface: download at every start.",
        "bucket",
    )
    bucket: BucketName | None = setting(
        None, "Bucket name; needed for existing, else chosen.", "my-project-gemma-weights"
    )
    access: Literal["mount", "stream"] = setting(
        "mount", "mount: a read-only Cloud Storage FUSE volume; stream: gs:// read by the server itself.", "mount"
    )
    revision: Commit | None = setting(
        None, "Commit of the model repository; default: the pinned one, else main.", "0123abc", flag="--revision"
    )
    protect: bool = setting(False, "Refuse to delete the bucket with the stack.", True)

    @property
    def from_hub(self) -> bool:
        """True if the server itself downloads its weights from Hugging Face, without a bucket."""
        return self.source == "huggingface"

    @property
    def staged(self) -> bool:
        """True if the stack copies the weights into its own bucket."""
        return self.source == "bucket"


class AccessSettings(Group):
    """Who may do what."""

    invokers: tuple[Member, ...] = setting(
        (), "Members that may call the endpoint.", ["group:ml@example.com"], owns=("--api-key",)
    )
    deployers: tuple[Member, ...] = setting(
        (),
        "Members that run `pulumi up`: may take identity tokens of the stack's invoker account for the check.",
        ["user:me@example.com"],
    )
    ingress: Literal["all", "internal"] = setting(
        "all", "all: reachable from the internet with an identity token; internal: from the VPC only.", "all"
    )
    settle_time: SettleTime = setting(
        "2m",
        "How long a new grant, account or API takes to count with Google: `up` waits so long before what needs it, only "
        "where something is new. At most 15m; 0s: not at all.",
        "2m",
    )


class ImageSettings(Group):
    """Container images."""

    mode: Literal["mirror", "build"] = setting(
        "mirror",
        "mirror: the upstream image through an Artifact Registry remote repository; build: our Dockerfile, pushed.",
        "mirror",
    )
    serving: ImageReference | None = setting(
        None,
        "Another serving image, with tag or digest: Docker Hub's through the mirror, Google's registries directly, "
        "others as the base of a build.",
        "vllm/vllm-openai:v0.32.0",
    )
    require_pinned: bool = setting(False, "Refuse images by tag and weights without a revision.", True)
    docker_hub_user: DockerHubUser | None = setting(
        None,
        "Docker Hub account that the mirror pulls as, with dockerHubSecret; default: nobody, which Docker Hub serves at a "
        "lower rate.",
        "my-company",
    )
    docker_hub_secret: SecretName | None = setting(
        None, "An existing Secret Manager secret that holds an access token of dockerHubUser.", "docker-hub-token"
    )


class NetworkSettings(Group):
    """The stack's own VPC."""

    subnet_cidr: Cidr = setting(
        "10.8.0.0/26",
        "Private range of the subnet, /16 to /26. TPU slices and machines get the one of the same size beside it: "
        "10.8.0.64/26.",
        "10.8.0.0/26",
    )


class Settings(Group):
    """Everything that a stack file may say under `gemma4:`."""

    model: str = setting(
        ...,
        "Catalog id of the model; with `checkpoint`, of one with its architecture.",
        "gemma-4-12b-it-qat-w4a16",
        owns=("--model",),
    )
    checkpoint: Checkpoint | None = setting(
        None,
        "Another checkpoint of the model's architecture: a fine-tune, or another format (FP8, int4, NVFP4), as OWNER/NAME on "
        "Hugging Face or gs://BUCKET/PREFIX. Its size is read by `gemma4 pin OWNER/NAME` first; those that `gemma4 models` "
        "lists are known. Default: the model's own.",
        "RedHatAI/gemma-4-12B-it-FP8-Dynamic",
    )
    accelerator: str = setting(..., "Catalog id of the accelerator.", "l4")
    profile: Profile = setting("balanced", "What to tune for: latency | balanced | throughput.", "balanced")
    region: Region | None = setting(
        None,
        "Region of the service (of the gateway, where there is one); default: the accelerator's first.",
        "us-east4",
    )
    serving: ServingSettings = setting(ServingSettings(), "The vLLM server.")
    vllm_args: dict[str, Any] = setting(
        {}, "Any further flag of vllm serve, checked against its flag table.", {"max-log-len": 100}
    )
    workload: WorkloadSettings = setting(WorkloadSettings(), "The request that speed and cost are predicted for.")
    scaling: ScalingSettings = setting(
        ScalingSettings(), "Cloud Run instances; behind a gateway only its concurrency and requestTimeout."
    )
    paused: bool = setting(
        False,
        "Keep everything but what is paid for by the hour: no instance is kept warm, no TPU slice or machine is asked for. "
        "`gemma4 pause` sets it, `gemma4 resume` takes it away.",
        True,
    )
    probes: ProbeSettings = setting(ProbeSettings(), "Health probes.")
    tpu: TpuSettings = setting(TpuSettings(), "Queued resources of Cloud TPU.")
    gateway: GatewaySettings = setting(
        GatewaySettings(),
        "The Cloud Run service in front of servers that have no address of their own (on TPU and Compute Engine): which of "
        "them a request goes to, and whose goes first.",
    )
    machine: MachineSettings = setting(MachineSettings(), "Machines of Compute Engine with GPUs.")
    weights: WeightSettings = setting(WeightSettings(), "Where the server reads its weights.")
    access: AccessSettings = setting(AccessSettings(), "Who may do what.")
    images: ImageSettings = setting(ImageSettings(), "Container images.")
    network: NetworkSettings = setting(NetworkSettings(), "The stack's own VPC.")
    labels: dict[LabelKey, LabelValue] = setting({}, "Labels of every resource, beside our own.", {"team": "ml"})
    deletion_protection: bool = setting(False, "Refuse to delete or replace the service.", True)
    preflight: bool = setting(
        True,
        "Whether `pulumi up` first asks Google, in a second or two, if the project is there, is paid for and has the quotas, "
        "and stops before it creates anything if not. false: go on all the same, for example where a quota is granted that "
        "the API does not show yet. `gemma4 preflight` asks far more.",
        False,
    )
    hf_token: bool = setting(
        False,
        "Hugging Face token, only ever set with `pulumi config set --secret gemma4:hfToken`. Gemma 4 is not gated and "
        "needs none; with one, the Hub answers more requests before it slows down.",
        owns=("--hf-token",),
    )
    hf_token_secret: SecretName | None = setting(
        None, "An existing Secret Manager secret that holds the token.", "hf-token"
    )
