"""Answers about stack files and the catalog: stacks, recommend, explain, models, machines, pin."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import BandData, Data, Number


class PlanScreen(JsonAnswer):
    """A plan in words, as an assistant gets it: what `gemma4 plan STACK` prints. `--json` prints all of it as data."""

    stack: str = Field(description="name of the stack")
    verdict: Literal["fits", "tight", "refused"] = Field(description="as in the plan")
    text: str = Field(description="the first screen, or what changes against another plan")


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
    usd_per_hour: Number = Field(description="one replica, running, or all that one machine runs")


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
