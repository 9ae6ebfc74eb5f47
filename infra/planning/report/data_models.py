"""The form of `gemma4 plan --json`, key by key: docs/plan-schema.md and docs/schemas/plan.json are made from these models.

Keys are camelCase and only ever added, unless `schema` changes. Sizes end in Bytes, times in S or Seconds, money begins with
usd. data.py fills the models; nothing else does.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

Number = Annotated[int | float, WithJsonSchema({"type": "number"})]
"""A number as Python holds it: a count stays whole."""
CapacityWait = Annotated[int, Field(description="how long one `pulumi up` waits")]
MachineRange = Annotated[str, Field(description="range of the machines, beside the gateway's `network.subnetCidr`")]


class Data(BaseModel):
    """Base of all models of JSON output: camelCase keys, no key that is not declared, built when first used."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )


class BandData(Data):
    """The likeliest value between two ends: about 80 % of runs lie inside."""

    low: Number = Field(description="the least")
    mid: Number = Field(description="the likeliest")
    high: Number = Field(description="the most")


class FaultData(Data):
    """What is wrong with a setting, in words. Consequence and fix may be empty."""

    key: str = Field(description="the setting")
    fact: str = Field(description="what is wrong")
    consequence: str = Field(description="what follows from it")
    fix: str = Field(description="what to write or type")


class SpanData(Data):
    """The fewest and the most replicas, or what they cost."""

    least: Number = Field(description="with what is paid for around the clock: kept instances, slices that never end")
    most: Number = Field(description="with all replicas")


class WeightsData(Data):
    """A checkpoint."""

    hub_id: str = Field(description="checkpoint to load: the model, then its drafter where one is used")
    revision: str = Field(description="commit, or a branch where nothing is pinned")
    pinned: bool = Field(description="whether the revision is a commit")
    bytes: Number = Field(description="size of the files")


class AdapterData(Data):
    """A LoRA adapter that the server serves beside its model."""

    name: str = Field(description="the model name by which requests ask for it")
    source: str = Field(description="repository on Hugging Face, or folder of a bucket as gs://")
    revision: str = Field(description="commit, or a branch where nothing is pinned; empty for a folder of a bucket")
    pinned: bool = Field(description="whether it is the same tomorrow: a commit, or a folder of a bucket")


class ModelData(Data):
    """What is served."""

    id: str = Field(description="catalog id")
    hub_id: str = Field(description="repository on Hugging Face")
    title: str = Field(description="for reading")
    maker: str = Field(description="who made the checkpoint: Google, or a third party")
    weight_format: str = Field(description="catalog id of the format of its weights, such as `bf16`, `fp8` or `w4a16`")
    weights: list[WeightsData] = Field(description="what is loaded")
    adapters: list[AdapterData] = Field(description="LoRA adapters, each served under its own name")


class AcceleratorData(Data):
    """The machine, and where it is."""

    id: str = Field(description="catalog id")
    title: str = Field(description="for reading")
    platform: str = Field(description="`cloud-run`, `tpu` or `compute-engine`")
    devices: int = Field(description="GPUs or chips")
    region: str = Field(description="region of the service; on TPU of the gateway")
    zone: str | None = Field(description="zone of the slices")


class RecipeData(Data):
    """A recipe that lies under the stack file."""

    id: str = Field(description="recipes under the stack file, the later over the earlier")
    measured_by: str | None = Field(description="who ran it; null: nobody is known to, unverified")
    corrections: list[str] = Field(description="what was changed in the published command or text, and why")
    overridden: list[str] = Field(
        description="settings of the recipe that something laid over it changes here: what was measured is another "
        "configuration"
    )


class MemoryData(Data):
    """Memory of one device."""

    device_bytes: int = Field(description="memory of one device as its runtime reports it")
    cap_bytes: int = Field(description="what vLLM may plan with: device memory times utilization")
    weights_bytes: BandData = Field(description="resident on one device, without drafter and without what is offloaded")
    assistant_bytes: int = Field(description="the MTP drafter; 0 without one")
    adapter_bytes: int = Field(description="room for LoRA adapters on one device; 0 where none is served")
    offloaded_bytes: int = Field(description="weights of one device kept in host memory")
    overhead_bytes: BandData = Field(
        description="runtime, activations, graphs; 0 on TPU, where it is outside the share"
    )
    kv_bytes_per_device: BandData = Field(
        description="what is left for the KV cache; negative where the rest does not fit"
    )
    construction_peak_bytes: BandData | None = Field(description="the most that loading needs; null on TPU")
    program_bytes: BandData | None = Field(description="compiled programs outside the share; null on GPU")
    host_bytes: BandData = Field(description="memory of the host that the server needs")
    error_origin: str = Field(description="where the width of the bands comes from")


class CapacityData(Data):
    """What the KV cache of one server holds."""

    predicted: bool = Field(description="always true")
    tokens: int | None = Field(description="the KV cache size that this version of vLLM would log")
    tokens_band: BandData | None = Field(description="the same over the band of the cache's size")
    concurrency_at_max_model_len: Number | None = Field(
        description="requests of `maxModelLen` by what vLLM sets aside at admission"
    )
    concurrency_at_max_model_len_band: BandData | None = Field(description="the same over the band of the cache's size")
    requests_of_workload: int | None = Field(
        description="requests of the workload, each with its whole prompt and answer, by what they hold"
    )
    requests_of_workload_band: BandData | None = Field(description="the same over the band of the cache's size")
    max_model_len: int = Field(description="longest prompt plus answer")
    largest_max_model_len: int = Field(
        description="the longest with which this cache would start at its likeliest size"
    )
    largest_max_model_len_band: BandData = Field(
        description="a context up to `low` fits the cache, up to `high` it may fit (`tight`), beyond that it is refused"
    )
    max_num_seqs: int = Field(description="requests that may run at once, if the cache holds them")
    max_num_batched_tokens: int = Field(description="prompt tokens of one step")
    kv_cache_dtype: str = Field(description="storage type of the cache as vLLM is told")


class RateData(Data):
    """The speed with a number of requests running."""

    requests: int = Field(description="how many run")
    tokens_per_second: BandData = Field(description="output tokens a second of all together, prompts cached")
    tokens_per_second_each: BandData = Field(description="the same for each stream")
    with_new_prompts: BandData = Field(
        description="output tokens a second of all together when each request brings a prompt that is not cached"
    )
    bound: str = Field(description="what limits a step: `bandwidth`, `compute`, `launch`, `pcie` or `sampling`")


class SpeedData(Data):
    """How fast one server answers."""

    predicted: bool = Field(description="always true")
    prompt_tokens: int = Field(description="the workload's prompt")
    output_tokens: int = Field(description="the workload's answer")
    alone: RateData | None = Field(description="one request running")
    planned: RateData | None = Field(
        description="as many running as may and as are held: the smallest of `capacity.maxNumSeqs`, "
        "`capacity.requestsOfWorkload` and what `scaling.concurrency` admits, at least 1"
    )
    all_servers: RateData | None = Field(
        description="all `cost.replicas` servers together: the prediction for one times their number, each with as many "
        "requests as planned, or fewer where the gateway is not sent as many"
    )
    ttft_s: BandData | None = Field(
        description="first token of one uncached prompt on an idle server; network and images are not part of it"
    )
    speculation_gain: BandData | None = Field(description="factor on a lone stream's speed; 1 where no gain is claimed")
    sources: list[str] = Field(description="what the constants are fitted to")


class StageData(Data):
    """A stage of the start."""

    name: str = Field(description="a stage of the start")
    seconds: BandData = Field(description="how long it takes")
    repeats: bool = Field(description="whether it happens on each fresh instance, or only the first time")


class StartupData(Data):
    """How long a start takes."""

    predicted: bool = Field(description="always true")
    from_zero_s: BandData = Field(description="from no instance, or a granted slice, to ready")
    first_deploy_s: BandData = Field(description="the first time, with the image's import")
    restart_s: BandData = Field(description="with image and weights in place")
    stages: list[StageData] = Field(description="what the start is made of")
    ready_timeout_s: int = Field(description="how long the serving check waits")
    source: str = Field(description="what the estimate rests on")


class StartupProbeData(Data):
    """The startup probe as deployed."""

    path: str = Field(description="what is asked")
    initial_delay_seconds: int = Field(description="as deployed")
    period_seconds: int = Field(description="as deployed")
    timeout_seconds: int = Field(description="as deployed")
    failure_threshold: int = Field(description="as deployed")
    window_s: int = Field(description="from container start until Cloud Run gives up")


class ProbesData(Data):
    """Health probes."""

    startup: StartupProbeData | None = Field(description="the startup probe; null where the platform has none")


class SlicesData(Data):
    """The TPU slices of the stack."""

    names: list[str] = Field(description="one a slice; the first must come up")
    provisioning: str = Field(description="`flex-start`, `spot` or `on-demand`")
    chips: int = Field(description="chips of one slice")
    quota: str = Field(description="quota that the chips are counted against")
    valid_until_duration_s: int = Field(description="how long the request may stand in the queue")
    max_run_duration_s: int | None = Field(description="when a slice ends by itself; null where it does not")
    wait_for_capacity_s: CapacityWait
    subnet_cidr: MachineRange
    gateway_requests_each: int = Field(
        description="requests in flight for one slice that is ready; one more than all of these is answered with 429"
    )


class MachineServerData(Data):
    """One of the servers on a machine."""

    suffix: str = Field(description="what follows the machine's name in the server's; empty of the only one")
    port: int = Field(description="where it listens")
    devices: list[int] = Field(description="numbers of its GPUs; empty: all that the machine has")


class MachinesData(Data):
    """The machines of the stack on Compute Engine."""

    names: list[str] = Field(description="one a machine")
    zones: list[str] = Field(description="in any of them a machine may be")
    shapes: list[str] = Field(description="machine types in order of preference, each with the same servers")
    gpus: int = Field(description="of the first shape")
    servers: list[MachineServerData] = Field(description="on each machine")
    members: list[str] = Field(description="every server that the gateway knows by name, whether or not it is there")
    provisioning: str = Field(description="`on-demand`, `spot` or `flex-start`")
    image: str = Field(description="of the system, as Compute Engine takes it")
    disk_gb: int = Field(description="boot disk, Hyperdisk Balanced")
    disk_throughput_mibps: int = Field(description="MiB a second")
    disk_iops: int = Field(description="operations a second")
    valid_until_duration_s: int | None = Field(
        description="how long a flex-start request may wait; null on other terms"
    )
    max_run_duration_s: int | None = Field(description="when a machine ends by itself; null where it does not")
    wait_for_capacity_s: CapacityWait
    subnet_cidr: MachineRange
    gateway_requests_each: int = Field(
        description="requests in flight for one server that is ready; one more than all of these is answered with 429"
    )


class QuotaData(Data):
    """A quota that the whole stack is counted against."""

    name: str = Field(
        description="quota that the whole stack is counted against, as Google names it; the devices first"
    )
    service: str = Field(description="API that it belongs to")
    place: str = Field(description="region or zone; global: the whole project")
    needed: Number = Field(description="by all instances or slices together, in `unit`")
    unit: str = Field(description="`GPU`, `GiB`, `vCPU` or `chips`")
    needed_in_quota_units: int = Field(description="the same as Google counts it: bytes, milli-vCPU, milliGPU")
    usual: Number | None = Field(
        description="what projects were seen to have where nobody asked for more; null where reports contradict each other. "
        "Yours may have less"
    )
    source: str = Field(description="where that was read")
    read: str = Field(description="and when, as YYYY-MM-DD")


class PriceLineData(Data):
    """A part of a price."""

    label: str = Field(description="what is paid for")
    quantity: Number = Field(description="in the unit of the price")
    unit: str = Field(description="unit of the price")
    usd_per_unit: Number = Field(description="list price")
    usd: Number = Field(description="amount, less what is free of charge")
    source: str = Field(description="where the price was read")
    read: str = Field(description="and when, as YYYY-MM-DD")


class LoadPriceData(Data):
    """Price of a million output tokens at a load."""

    requests: int = Field(description="running at one server, all prompts cached")
    usd: BandData = Field(description="of a million output tokens; a server is one of those that a machine runs")


class TokenPriceData(Data):
    """Price of a million output tokens."""

    predicted: bool = Field(description="always true")
    alone: BandData | None = Field(description="with one request running")
    planned: BandData | None = Field(description="with `plannedRequests` running")
    planned_with_new_prompts: BandData | None = Field(description="the same, no prompt cached")
    planned_requests: int | None = Field(description="as `speed.planned.requests`")
    at_loads: list[LoadPriceData] | None = Field(
        description="at 1, 10 and 40 requests, as far as one server runs so many at once"
    )


class PriceLinesData(Data):
    """What the prices are made of."""

    hour: list[PriceLineData] = Field(description="what `usdPerHour` is made of")
    idle_month: list[PriceLineData] = Field(description="what `usdPerMonthIdle` is made of")
    staging: list[PriceLineData] = Field(description="what `usdStaging` is made of")


class WholeStackData(Data):
    """All replicas together: the fewest and the most that may run."""

    replicas: SpanData = Field(description="how many replicas are paid for at once")
    usd_per_hour: SpanData = Field(description="an hour of them")
    usd_per_month: SpanData = Field(description="730 such hours, with storage and gateway")


class CostData(Data):
    """What the stack costs, at list prices in US dollars."""

    usd_per_hour: Number = Field(
        description="one replica, running, at list prices: of a machine with several servers, one server's share"
    )
    replicas: int = Field(description="servers that run at most: instances, slices, or those of all machines")
    usd_per_hour_at_most: Number = Field(description="all replicas")
    usd_per_month_idle: Number = Field(description="a month in which nobody asks for anything")
    usd_per_run: Number | None = Field(
        description="all slices or machines for as long as they run; null where nothing ends"
    )
    usd_staging: Number = Field(description="the one-time copy of the weights")
    usd_staging_band: BandData = Field(description="the same by how long the copy may take")
    usd_per_million_output_tokens: TokenPriceData = Field(description="price of a million output tokens")
    lines: PriceLinesData = Field(description="what the prices are made of")
    notes: list[str] = Field(description="prices that stand in for others, and what else to know of them")
    whole_stack: WholeStackData = Field(description="all replicas together")


class VllmData(Data):
    """The server's command."""

    version: str | None = Field(description="of the image; null where its name says none")
    counted_as: str = Field(description="the version whose arithmetic the capacity is counted by")
    image: str = Field(description="reference at its origin")
    argv: list[str] = Field(description="the whole command, one word each")
    wrapper: list[str] = Field(description="what the container runs with the command behind it; on TPU empty")
    cuda_compatibility: str | None = Field(
        description="which choice of the CUDA driver library the wrapper makes; null on TPU"
    )
    env: dict[str, str] = Field(description="environment by name; never a secret")
    spec_hash: str = Field(description="names this specification; served as a second model name")


class OpenFaultData(Data):
    """A fault of vLLM that stood open when its thread was read."""

    thread: str = Field(description="where it is told")
    what: str = Field(description="what happens")
    cure: str = Field(description="what was reported to help; empty where nothing was")
    seen_in: str = Field(description="versions of vLLM in which it was seen")
    stops_the_server: bool = Field(description="whether it ends the server at its start")
    read: str = Field(description="the day on which the thread was read")


class AccessData(Data):
    """Who may call, and who may deploy."""

    invokers: list[str] = Field(description="members that get `run.invoker`, beside the stack's invoker account")
    deployers: list[str] = Field(description="members that may take identity tokens of the invoker account")
    ingress: str = Field(description="`all` (identity token needed all the same) or `internal`")


class ResourceData(Data):
    """A resource that the program registers."""

    type: str = Field(description="Pulumi type")
    name: str = Field(description="Pulumi name")
    component: str = Field(description="name of the component that owns it; empty for stack and components")
    inputs: dict[str, Any] = Field(
        description="what the program sets. `[secret]` stands for a secret, `[unknown]` for what only the cloud knows; "
        "files, and texts of more than 2,000 characters, stand as their SHA-256"
    )
    options: dict[str, Any] = Field(
        description="`protect`, `timeouts` and `ignoreChanges` of Pulumi, where they are set"
    )


class ComparisonData(Data):
    """What two plans differ in, as a whole."""

    against: str = Field(description="the stack that is compared with")
    verdict: str = Field(description="how many changes there are, or that nothing changes")
    price: str = Field(description="one sentence on the price of the whole stack")
    effects: list[str] = Field(
        description="what happens to what is running, as far as it is known; empty against another stack"
    )
    not_compared: list[str] = Field(description="what one of the plans does not hold, with the reason")


class ChangeData(Data):
    """One change."""

    section: str = Field(
        description="`verdict`, `price`, `figures`, `warnings`, `settings`, `command`, `resources`, or `other` for every "
        "further value of a plan"
    )
    subject: str = Field(description="what changes")
    before: str = Field(description="for reading; empty: absent there")
    after: str = Field(description="for reading; empty: absent here")
    old: Any = Field(description="the value itself, not rounded; null: absent there")
    new: Any = Field(description="the value itself, not rounded; null: absent here")
    tone: Literal["better", "worse", ""] = Field(description="`better`, `worse` or empty where that is not plain")


class PlanData(Data):
    """What `gemma4 plan STACK --json` prints for a plan. A platform may add a key of its own, as `slices` is one."""

    model_config = ConfigDict(extra="allow")

    schema_: int = Field(alias="schema", description="1")
    stack: str = Field(description="name of the stack")
    verdict: Literal["fits", "tight", "refused"] = Field(
        description="`fits`, `tight` (may fit, within the known errors) or `refused` (cannot work)"
    )
    deployable: bool = Field(
        description="whether `pulumi up` would begin: not refused, and the components for it exist"
    )
    model: ModelData = Field(description="what is served")
    accelerator: AcceleratorData = Field(description="the machine, and where it is")
    profile: str = Field(description="`latency`, `balanced` or `throughput`")
    recipes: list[RecipeData] = Field(description="what lies under the stack file")
    memory: MemoryData = Field(description="memory of one device")
    capacity: CapacityData = Field(description="what the KV cache of one server holds")
    speed: SpeedData = Field(description="how fast one server answers, and all of them")
    startup: StartupData = Field(description="how long a start takes")
    probes: ProbesData = Field(description="health probes")
    slices: SlicesData | None = Field(description="TPU slices; null on other platforms")
    machines: MachinesData | None = Field(description="machines of Compute Engine; null on other platforms")
    quotas: list[QuotaData] = Field(description="what the whole stack is counted against")
    cost: CostData = Field(description="what the stack costs")
    vllm: VllmData = Field(description="the server's command")
    access: AccessData = Field(description="who may call, and who may deploy")
    resources: list[ResourceData] | None = Field(
        description="what the real program registers, the stack and its components included; null where it was not asked for"
    )
    resources_missing: str = Field(description="why there is no list, or what is still to come")
    refusals: list[FaultData] = Field(description="why it cannot work")
    warnings: list[FaultData] = Field(description="what may go wrong")
    notes: list[str] = Field(description="what a reader should know beside the numbers")
    open_faults: list[OpenFaultData] = Field(description="faults of vLLM that this configuration may meet")
    origins: dict[str, str] = Field(
        description="by setting: `default`, `recipe`, `recipe of the profile`, `stack file`, `command line` or `planner`"
    )
    settings: dict[str, Any] = Field(
        description="every setting by its dotted path, defaults included; null where the planner or vLLM chooses. Of "
        "`hfToken` only whether it is set"
    )
    comparison: ComparisonData | None = Field(default=None, description="with `--diff` only: the comparison as a whole")
    diff: list[ChangeData] = Field(default_factory=list, description="with `--diff` only: every change")
