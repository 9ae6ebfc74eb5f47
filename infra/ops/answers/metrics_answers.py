"""The answer of `gemma4 metrics`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data, Number


class LatencyData(Data):
    """How long something took, from the buckets in which vLLM counts. A percentile lies on a straight line through its
    bucket; the mean is exact."""

    count: int = Field(description="observations; without any the others are null")
    mean_s: Number | None = Field(description="exact")
    p50_s: Number | None = Field(description="half took no longer")
    p90_s: Number | None = Field(description="nine tenths took no longer")


class LoadData(Data):
    """What a server does now, and what it counted in the time that `over` names. null: not reported, or nothing happened."""

    running: int | None = Field(description="requests that are being computed now")
    waiting: int | None = Field(description="requests in line now")
    kv_usage: Number | None = Field(
        description="share of the KV cache in use now, 0 to 1; of all servers by their sizes"
    )
    kv_tokens: int | None = Field(description="what the KV cache holds in all")
    prompt_tokens_per_second: Number | None = Field(description="prompts read, over `speedsOverS`")
    generation_tokens_per_second: Number | None = Field(description="tokens written, over `speedsOverS`")
    ttft: LatencyData | None = Field(
        description="from a request's arrival at the server to its first token, no network"
    )
    inter_token: LatencyData | None = Field(description="between two tokens of an answer")
    prefix_hit_rate: Number | None = Field(description="share of the prompts' tokens found in the prefix cache, 0 to 1")
    preemptions: int | None = Field(description="requests that were put back in line for want of KV cache")
    acceptance_rate: Number | None = Field(description="share of the drafted tokens that were accepted, 0 to 1")
    accepted_length: Number | None = Field(description="tokens that a step yields: those accepted, and one more")
    finished: dict[str, int] | None = Field(
        description="ended requests by reason; reasons that did not occur are left out"
    )
    unknown: list[str] = Field(description="keys above that this version or configuration of vLLM does not report")


class MemberLoad(Data):
    """One server: a TPU slice by its name, or the only one, whose name is empty."""

    name: str = Field(description="of the slice; empty where there is only one server")
    error: str = Field(description="why there is no reading; empty where there is one")
    running_for_s: Number | None = Field(description="since the server's process began")
    restarted: bool = Field(
        description="whether it began after the reading before: what it had counted by then is gone"
    )
    load: LoadData | None = Field(description="null where it did not answer")


class MetricsAnswer(JsonAnswer):
    """What `gemma4 metrics --json` prints; with `--watch`, one such object a line and interval."""

    endpoint: str = Field(description="name of the stack, or the URL")
    at: str = Field(description="moment of the reading")
    over: Literal["since start", "interval"] = Field(
        description="the time that counts, latencies and rates are of: since each server's start, or, with `--watch`, since "
        "the reading before"
    )
    speeds_over_s: Number = Field(description="the time that tokens a second are of")
    members: list[MemberLoad] = Field(description="one element a server")
    together: LoadData | None = Field(description="all servers that answered; null where none did")
    warnings: list[str] = Field(description="what needs somebody: a KV cache nearly full, requests that wait for long")
    notes: list[str] = Field(description="what to know of these figures")
