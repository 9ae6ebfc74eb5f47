"""The answer of `gemma4 memory`."""

from __future__ import annotations

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import BandData, Data, Number

_INSIDE = "whether it lies inside the plan's band; null where there is nothing to compare"


class PlannedMemory(Data):
    """What the stack's files plan; all of it predicted."""

    tokens: BandData = Field(description="what the KV cache holds")
    blocks: BandData = Field(description="of the KV cache, on each device")
    block_size: int = Field(description="tokens of the smallest block")
    kv_cache_dtype: str = Field(description="type of the KV cache, as vLLM spells it")
    request_tokens: int = Field(description="tokens of a request of the workload, prompt and answer")
    requests: BandData = Field(description="requests of the workload that the KV cache holds")
    requests_of_max_model_len: BandData = Field(description="requests of `maxModelLen` at admission")
    max_model_len: int = Field(description="longest prompt and answer together, tokens")
    memory_utilization: Number = Field(description="share of a device's memory that vLLM may plan with")
    weights_bytes: BandData = Field(description="on each device, with drafter and adapters")
    kv_bytes: BandData = Field(description="left for the KV cache on each device")


class MemberMemory(Data):
    """One server: a TPU slice by its name, or the only one, whose name is empty. null: its version does not say."""

    name: str = Field(description="of the slice; empty where there is only one server")
    error: str = Field(description="why there are no figures; empty where there are some")
    vllm_version: str = Field(description="as the server says; empty where it does not")
    max_model_len: int | None = Field(description="longest prompt and answer together, tokens")
    tokens: int | None = Field(description="what the KV cache holds, by vLLM's own count")
    tokens_inside: bool | None = Field(description=_INSIDE)
    blocks: int | None = Field(description="of the KV cache, on each device")
    blocks_inside: bool | None = Field(description=_INSIDE)
    block_size: int | None = Field(description="tokens of the smallest block")
    group_block_sizes: list[int] = Field(
        description="tokens of a block by group of layers; empty where no log was read"
    )
    kv_cache_dtype: str = Field(description="type of the KV cache; `auto` is the type in which the model computes")
    requests: int | None = Field(description="requests of the planned workload that the real blocks hold")
    requests_inside: bool | None = Field(description=_INSIDE)
    requests_of_max_model_len: Number | None = Field(description="at admission, by vLLM's own count")
    memory_utilization: Number | None = Field(description="share of a device's memory that vLLM may plan with")
    prefix_caching: bool | None = Field(description="whether prompts that begin alike share blocks")
    weights_gib: Number | None = Field(description="on each device, by the log")
    weights_inside: bool | None = Field(description=_INSIDE)
    kv_gib: Number | None = Field(description="left for the KV cache on each device, by the log, or as it was set")
    kv_inside: bool | None = Field(description=_INSIDE)
    graphs_gib: Number | None = Field(description="taken by CUDA graphs on each device, by the log")


class MemoryAnswer(JsonAnswer):
    """What `gemma4 memory --json` prints."""

    endpoint: str = Field(description="name of the stack, or the URL")
    planned: PlannedMemory | None = Field(description="null for a URL")
    members: list[MemberMemory] = Field(description="one element a server")
    notes: list[str] = Field(description="what to know of these figures, first of all why some are not compared")
