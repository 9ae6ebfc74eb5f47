"""The form of what each command prints with `--json`: docs/json.md and docs/schemas/ are made from these models.

Keys are camelCase and only ever added, unless `schema` changes; times end in S, moments are RFC 3339 in UTC, money begins
with usd. null means unknown, an empty text that there is nothing to say. The tests hold every answer to its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from infra.planning.report.data_models import BandData, Data, FaultData, Number, PlanData


class JsonAnswer(Data):
    """An object that a command prints."""

    schema_: int = Field(alias="schema", description="1")


class FailureAnswer(JsonAnswer):
    """What any command prints with `--json` where it has no answer: with exit code 2, and with any other failure."""

    verdict: Literal["bad settings", "refused", "failed"] = Field(description="`bad settings`, `refused` or `failed`")
    error: str = Field(description="all faults as lines")
    faults: list[FaultData] = Field(description="every one found")


class StackRow(Data):
    """A stack file that can be planned."""

    stack: str = Field(description="name of the stack")
    model: str = Field(description="catalog id")
    accelerator: str = Field(description="catalog id")
    location: str = Field(description="zone, or region where the platform chooses the zone")
    verdict: Literal["fits", "tight", "refused"] = Field(description="as in the plan")
    deployable: bool = Field(description="whether the components for its machine exist")
    requests_held: int | None = Field(description="as `capacity.requestsOfWorkload` of the plan")
    requests_held_band: BandData | None = Field(description="as `capacity.requestsOfWorkloadBand` of the plan")
    kv_tokens: int | None = Field(description="as `capacity.tokens` of the plan")
    kv_tokens_band: BandData | None = Field(description="as `capacity.tokensBand` of the plan")
    usd_per_hour: Number = Field(description="one replica, running")


class UnreadableStack(Data):
    """A stack file that cannot be planned."""

    stack: str = Field(description="name of the stack")
    error: str = Field(description="why it cannot be planned")


class Stacks(JsonAnswer):
    """What `gemma4 stacks --json` prints."""

    stacks: list[StackRow | UnreadableStack] = Field(description="one entry a stack file")


class QualityData(Data):
    """What is published of how good a model's answers are."""

    benchmark: str = Field(description="title of the benchmark; empty where no score is known")
    percent: Number | None = Field(description="its score; null where none is known")
    own_score: bool = Field(description="whether it is of these very weights; if not, of Google's bf16 ones")
    note: str = Field(description="why a score is not the weights' own; empty where it is")
    source: str = Field(description="where the score was published")


class CandidateRow(Data):
    """A configuration that meets the need."""

    model: str = Field(description="catalog id")
    accelerator: str = Field(description="catalog id")
    deployable: bool = Field(description="whether the components for its machine exist")
    replicas: int = Field(description="instances, slices or machines")
    usd_per_hour: Number = Field(description="all replicas, running")
    verdict: Literal["fits", "tight", "refused"] = Field(description="as in the plan")
    users_per_replica: int = Field(description="requests that run at once on one replica")
    tokens_per_second_each: BandData = Field(description="of one user's stream, predicted")
    tokens_per_second: BandData = Field(description="of all replicas, prompts cached, predicted")
    with_new_prompts: BandData = Field(
        description="of all replicas when each request brings a prompt that is not cached, predicted"
    )
    usd_per_million_output_tokens: BandData = Field(description="while all users ask, prompts cached, predicted")
    usd_per_million_output_tokens_with_new_prompts: BandData = Field(
        description="the same when no prompt is cached, predicted"
    )
    holds: int = Field(description="requests of the workload that all replicas hold")
    holds_band: BandData = Field(description="the same over the band of the KV caches' size")
    measured: Literal["speed", "ran", "no"] = Field(
        description="whether somebody measured the `speed` of these settings at such a load, saw them run (`ran`), or neither"
    )
    quality: QualityData
    maker: str = Field(description="who made the checkpoint")
    why: str = Field(description="why it stands where it stands, and what a better score costs; numbers count from 1")
    doubt: str = Field(description="why it may not serve the need after all; empty where nothing speaks against it")
    scales_to_zero: bool = Field(description="whether nothing is paid for while nobody asks, but for storage")
    ends_after_s: int | None = Field(description="when a replica ends by itself; null where it does not")
    settings: dict[str, Any] = Field(description="what to write in a stack file beyond model and accelerator, by path")


class Recommendations(JsonAnswer):
    """What `gemma4 recommend --json` prints. Exit code 3 where there are no candidates."""

    candidates: list[CandidateRow] = Field(description="the one to choose first, at most `--top`")
    rejected: dict[str, int] = Field(description="by reason, how many of the catalog's pairs were left out")
    cheapest_too_dear_usd_per_hour: Number | None = Field(
        description="the least that would have to be paid, where everything is dearer than `--max-usd-per-hour`"
    )
    most_users: int | None = Field(
        description="about as many as the largest candidate would hold, where none holds them"
    )


class SettingRow(Data):
    """A setting, a group, or another word that `gemma4 explain` knows."""

    key: str = Field(description="dotted path, or the word that was asked for")
    meaning: str = Field(description="in a sentence")
    type: str = Field(description="what may be written; `group` for a group")
    required: bool = Field(description="whether a plan needs it")
    default: Any = Field(description="null where the planner or vLLM chooses")
    range: str = Field(description="bounds, or empty")
    example: Any = Field(description="a good value; null for groups and words")


class Explanations(JsonAnswer):
    """What `gemma4 explain --json` prints."""

    terms: list[SettingRow] = Field(description="what was asked for; groups stand before their members")


class ModelRow(Data):
    """A model of the catalog."""

    id: str = Field(description="catalog id")
    title: str = Field(description="for reading")
    hub_id: str = Field(description="repository on Hugging Face")
    maker: str = Field(description="as `maker` of a plan's model")
    parameters: int = Field(description="how many")
    active_parameters: int = Field(description="how many of them work for one token")
    weight_format: str = Field(description="as `weightFormat` of a plan's model")
    checkpoint_bytes: int = Field(description="size of the files")
    largest_max_model_len: int = Field(description="the longest prompt plus answer that it was made for, tokens")
    modalities: list[str] = Field(description="what a request may carry beside text")
    gated: bool = Field(description="whether Hugging Face asks for a token")
    assistant: str | None = Field(description="catalog id of its MTP drafter; null without one")
    min_vllm: str = Field(description="the first version of vLLM that serves it")
    cheapest_machine: str | None = Field(
        description="catalog id of the cheapest machine on which it fits at the defaults and is deployed; null: none"
    )
    usd_per_hour: Number | None = Field(description="one replica there, running")
    fits_on: list[str] = Field(description="all such machines")


class Models(JsonAnswer):
    """What `gemma4 models --json` prints."""

    models: list[ModelRow] = Field(description="all of the catalog")


class MachineRow(Data):
    """A machine of the catalog."""

    id: str = Field(description="catalog id")
    title: str = Field(description="for reading")
    platform: str = Field(description="as `platform` of a plan's accelerator")
    deployable: bool = Field(description="whether the components for it exist")
    devices: int = Field(description="GPUs or chips")
    device_memory_gib: Number = Field(description="memory of one device")
    usd_per_hour: Number = Field(description="one machine with vCPU and memory, at list price in its first place")
    locations: list[str] = Field(description="zones, or regions where the platform chooses the zone")
    invited_locations: list[str] = Field(description="where Google has to allow it first")
    models: list[str] = Field(description="catalog ids of what fits at the defaults, the largest first")


class Machines(JsonAnswer):
    """What `gemma4 machines --json` prints."""

    machines: list[MachineRow] = Field(description="all of the catalog")


class Pinned(JsonAnswer):
    """What `gemma4 pin --json` prints. Exit code 1 where one could not be pinned."""

    pinned: dict[str, str] = Field(
        description="by catalog id, the digest of an image or the commit of a model; by name, the commit of a checkpoint"
    )
    failed: dict[str, str] = Field(description="by id or name, why it keeps its old pin")
    file: str | None = Field(description="the catalog's lock file, if it was written")
    checkpoints_file: str | None = Field(
        description="the lock file of checkpoints beside the stack files, if it was written"
    )


class CheckRow(Data):
    """A serving check in the stack's state."""

    name: str = Field(description="of the resource")
    url: str = Field(description="where it asked")
    spec: str = Field(description="hash of the specification that was checked")
    at: str = Field(description="moment of the check by the state's own record; empty where it has none")
    result: dict[str, Any] = Field(
        description="what it measured, as the check wrote it: `vllm_version`, `ready_s`, `ttft_s`, `tokens_per_second` and "
        "so on; or `skipped`, the reason why nothing was asked"
    )


class Status(JsonAnswer):
    """What `gemma4 status STACK --json` prints."""

    stack: str = Field(description="name of the stack")
    planned_spec: str = Field(description="hash of the specification that the files here plan")
    checks: list[CheckRow] = Field(description="the last check of each server; empty where nothing is deployed")


class SupervisorRow(Data):
    """What the supervisor last wrote into its machine's guest attributes."""

    stage: str = Field(description="as containers/tpu/README.md lists them; empty: nothing heard")
    wanted: str = Field(description="hash of the newest specification there")
    running: str = Field(description="hash of the one that runs")
    preparing: str = Field(description="the next one, and how far")
    error: str = Field(description="newest trouble")
    maintenance: str = Field(description="what the machine itself was told")
    at: str = Field(description="moment of the report")
    age_s: Number | None = Field(description="its age; after 300 the machine counts as not heard from")
    unreadable: str = Field(description="why Google does not hand the report out")


class SliceRow(Data):
    """A slice of the stack."""

    name: str = Field(description="as in `tpu.slices`")
    id: str = Field(description="of queued resource and node")
    owned: bool = Field(description="whether it carries this stack's labels")
    queue: str = Field(description="state of the queued resource, `none` without one")
    why: str = Field(description="Google's reason, of one that failed")
    node: str = Field(description="state of the machine; empty without one")
    address: str = Field(description="inside the VPC")
    health: str = Field(description="as Google says it")
    problem: str = Field(description="Google's description and symptoms")
    maintenance: str = Field(description="moment when announced maintenance begins")
    supervisor: SupervisorRow = Field(description="what its supervisor last reported")
    waited_s: Number | None = Field(description="since it was asked for")
    expires_at: str = Field(description="moment, while it waits: the end of the request")
    expires_guessed: bool = Field(
        description="by the file's `tpu.validUntilDuration`, since Google's record does not say"
    )
    expired: bool = Field(description="it still stands in the queue ten minutes after that: it is served no more")
    age_s: Number | None = Field(description="since the machine came")
    left_s: Number | None = Field(description="until it ends; null where it does not")
    ends_at: str = Field(description="moment when that is")
    ends_guessed: bool = Field(description="creation plus run duration, since Google does not say")
    granted: str = Field(description="how what was granted differs from the file; what was granted counts")
    serving: bool = Field(description="granted, owned, ready, healthy, heard from, serving what is planned")
    next: str = Field(description="what to do")


class OrphanRow(Data):
    """A queued resource with the stack's labels that is not one of its slices."""

    id: str = Field(description="carries the stack's labels, but is not one of its slices")
    zone: str = Field(description="where it was found")
    queue: str = Field(description="state of the queued resource")
    why: str = Field(description="why it should be looked at")
    next: str = Field(description="what to do")


class SliceStatuses(JsonAnswer):
    """What `gemma4 tpu status STACK --json` prints. Exit code 0 only where every slice has `serving: true`."""

    stack: str = Field(description="name of the stack")
    zone: str = Field(description="where its file wants the slices")
    slices: list[SliceRow] = Field(description="those that the file names")
    orphans: list[OrphanRow] = Field(description="what else carries the stack's labels, and is paid for")
    gaps: list[str] = Field(description="zones that were not looked through, with the reason: silence is not none")


class EndedRow(Data):
    """A request that has ended and holds quota."""

    id: str = Field(description="of the queued resource")
    zone: str = Field(description="where it is")
    state: str = Field(description="`FAILED` or `SUSPENDED`")
    error: str = Field(description="Google's reason")
    owned: bool = Field(description="whether a stack of this program made it")
    chips: int = Field(description="of the quota that it holds")
    created: str = Field(description="moment when it was asked for")
    done: Literal["deleted", "failed", ""] = Field(description="`deleted`, `failed`, or empty where it was let be")


class EndedRequestsAnswer(JsonAnswer):
    """What `gemma4 tpu ended --json` prints. Exit code 1 where one could not be deleted."""

    ended: list[EndedRow] = Field(description="all of the project")
    deleted: list[str] = Field(description="ids")
    failed: dict[str, str] = Field(description="by id, why it could not be deleted")
    gaps: list[str] = Field(description="zones that were not looked through, with the reason")


class ZoneRoomRow(Data):
    """A zone that lists the accelerator."""

    zone: str = Field(description="one that lists the accelerator")
    flex_start: bool = Field(description="known to this program to take flex-start")
    limit: int | None = Field(description="of the zone, chips; -1 without limit")
    held: int | None = Field(description="chips that count against it, ended requests included")
    region_limit: int | None = Field(description="of the region")
    region_held: int | None = Field(description="and what counts against that")
    room: bool | None = Field(
        description="whether the quotas leave room for one more slice; says nothing of stock; null: unknown"
    )


class Zones(JsonAnswer):
    """What `gemma4 zones --json` prints. Exit code 3 where no zone has room, 1 where no zone could be asked."""

    accelerator: str = Field(description="catalog id")
    quota: str = Field(description="quota of the stack's provisioning, by zone; its twin counts the region")
    zones: list[ZoneRoomRow] = Field(description="those that list the accelerator")
    gaps: list[str] = Field(description="zones and quotas that could not be read")


class RowData(Data):
    """A part of the scorecard. Its keys are spelled as those of the rows that it reads: in small letters, with underscores."""

    model_config = ConfigDict(alias_generator=None)


class ComparedFigureData(RowData):
    """One figure of a run, published and predicted."""

    figure: str = Field(description="its name, e.g. `kv_tokens` or `tokens_per_second`")
    unit: str = Field(description="of all values of this figure")
    published: Number = Field(description="as the row has it")
    predicted: Number = Field(description="the likeliest value")
    low: Number = Field(description="the least that is predicted")
    high: Number = Field(description="the most that is predicted")
    error_pct: Number | None = Field(
        description="percent by which the prediction is above what was published; null where that is not above 0"
    )
    in_band: bool = Field(description="whether what was published lies between `low` and `high`")
    sets: list[str] = Field(description="names of the sets in which it counts")


class ScoredRow(RowData):
    """A row of the file, with its main figure: of memory the tokens from card and flags, else from given bytes, else the
    weights."""

    id: str = Field(description="of the row; where it has none, its list and its number there")
    what: str = Field(description="as in the file; of a verdict its `config`")
    figure: str | None = Field(description="name of the main figure; null where nothing is compared, as all below it")
    unit: str | None = Field(description="of all values of this figure")
    published: Number | None = Field(description="as the row has it")
    predicted: Number | None = Field(description="the likeliest value")
    low: Number | None = Field(description="the least that is predicted")
    high: Number | None = Field(description="the most that is predicted")
    error_pct: Number | None = Field(
        description="percent by which the prediction is above what was published; null where that is not above 0"
    )
    in_band: bool | None = Field(description="whether what was published lies between `low` and `high`")
    sets: list[str] = Field(description="names of the sets in which the main figure counts")
    set: str | None = Field(description="the first of them")
    verdict: Literal["fits", "tight", "refused"] | None = Field(description="by memory, of rows of memory")
    outcome: Literal["boots", "dies"] | None = Field(description="of the run, as published")
    verdict_holds: bool | None = Field(
        description="false: `fits` and it died, or `refused` and it booted; null: no verdict or no outcome"
    )
    reason: str = Field(
        description="why nothing is compared, or what of the row was not counted; empty where all of it was"
    )
    further: list[ComparedFigureData] = Field(description="other figures of the same row")


class ScoredSet(RowData):
    """Errors and bands of a set of rows. Errors are |predicted / published - 1|."""

    name: str = Field(description="of the set")
    rows: int = Field(description="figures in it")
    median_error_pct: Number | None = Field(description="half of the rows have no larger error")
    p90_error_pct: Number | None = Field(description="nine tenths have no larger one, interpolated between neighbours")
    worst_error_pct: Number | None = Field(description="the largest error")
    inside: int = Field(description="rows inside their bands")
    share_inside: Number = Field(description="of all rows of the set, 0 to 1")
    half_width_pct: Number | None = Field(description="median of half the bands' widths in percent of their middles")
    outside: list[str] = Field(description="ids of the rows outside their bands")


class ScoredVerdicts(RowData):
    """How verdicts and outcomes agree."""

    compared: list[str] = Field(description="ids of rows with a verdict and an outcome")
    died_though_fits: list[str] = Field(description="those that died although the verdict was `fits`")
    booted_though_refused: list[str] = Field(description="those that booted although they were refused")


class Scorecard(JsonAnswer):
    """What `gemma4 scorecard --json` prints. Its keys are spelled as those of the rows that it reads."""

    rows: list[ScoredRow] = Field(description="one element for each row of the file, in its order")
    sets: list[ScoredSet] = Field(description="those that hold a row")
    verdicts: ScoredVerdicts = Field(description="of rows of memory")


ANSWERS: Mapping[str, type[BaseModel]] = {
    "plan": PlanData,
    "stacks": Stacks,
    "recommend": Recommendations,
    "explain": Explanations,
    "models": Models,
    "machines": Machines,
    "pin": Pinned,
    "status": Status,
    "scorecard": Scorecard,
    "tpu status": SliceStatuses,
    "tpu ended": EndedRequestsAnswer,
    "zones": Zones,
}
"""By command, the model of its answer; every command that takes `--json` is here. A failure is a `FailureAnswer`."""
