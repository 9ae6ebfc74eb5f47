"""The form of a stored benchmark, key by key, and how a file of it is written and read.

A file holds what was measured, request by request, and nothing that can be computed from it: summary.py does that. Keys are
camelCase and only ever added, unless `schema` changes. Times end in S, moments are RFC 3339 in UTC, null means unknown.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from infra.errors import SettingsError
from infra.planning.report.data_models import BandData, Data, Number

SCHEMA = 1


class Target(Data):
    """The server that was measured."""

    stack: str | None = Field(description="name of the stack; null where only a URL was given")
    url: str = Field(description="address of the service, without a path")
    model: str = Field(description="the name by which requests asked for it")
    member: str = Field(description="name of the slice behind the gateway; empty where there is one server")


class Versions(Data):
    """What ran."""

    gemma4: str = Field(description="version of this program")
    vllm: str = Field(description="version that the server says")
    aiperf: str = Field(description="version of the load generator")
    plan: str | None = Field(
        description="hash of the specification that the stack's files planned; null without a stack"
    )


class PlannedServer(Data):
    """What the stack's files planned when it was measured."""

    model: str = Field(description="catalog id")
    accelerator: str = Field(description="catalog id")
    usd_per_hour: Number = Field(description="one replica, running, at list price")
    kv_tokens: BandData = Field(description="capacity of the KV cache, predicted")
    flags: list[str] = Field(description="arguments of `vllm serve`")
    row: dict[str, Any] = Field(description="machine, model and flags by the keys of a row of `gemma4 scorecard`")


class ServerFacts(Data):
    """What the server itself said before the first cell."""

    kv_tokens: int | None = Field(description="capacity of its KV cache")
    max_model_len: int | None = Field(description="most tokens of a request, prompt and answer together")
    max_num_seqs: int | None = Field(
        description="most requests that run at once: of the plan, the server does not say it"
    )
    prefix_caching: bool | None = Field(description="whether it keeps the KV cache of prompts")


class Shape(Data):
    """One point of the grid: how many requests at a time, and how long each is."""

    concurrency: int = Field(description="requests in flight at any time", ge=1)
    input_tokens: int = Field(description="tokens of each prompt, chat template included, as near as text allows", ge=1)
    output_tokens: int = Field(description="tokens of each answer, forced", ge=1)
    workload: str = Field(description="the recipe's name of these lengths; empty where it has none")


class RunSettings(Data):
    """How it was measured."""

    prefix_cache: Literal["unique", "shared"] = Field(
        description="`unique`: prompts differ from their first token on; `shared`: every prompt begins with the same text"
    )
    warmup_requests: int | None = Field(description="before each cell, not counted; null: as many as its concurrency")
    requests: int | None = Field(description="of each repeat; null: chosen by concurrency")
    repeats: int = Field(description="of each cell")
    seed: int = Field(description="from which prompts are made")
    temperature: Literal[0] = Field(default=0, description="always 0")
    forced_output: Literal[True] = Field(default=True, description="always true: an answer neither ends early nor late")
    grid: list[Shape] = Field(description="every point that was asked for, in the order of measuring")


class Repeat(Data):
    """One measurement of a cell. The five lists have one entry a request that succeeded, in the same order."""

    started_at: str
    duration_s: float = Field(description="from the first request's start to the last one's end", ge=0)
    requests: int = Field(description="sent")
    failed: int = Field(description="of them without a whole answer")
    errors: dict[str, int] = Field(description="how often each reason was given")
    output_tokens_per_second: float = Field(description="of all requests together")
    requests_per_second: float
    ttft_s: list[float] = Field(description="time to first token")
    itl_s: list[float] = Field(description="mean inter-token latency of the request")
    e2e_s: list[float] = Field(alias="e2eS", description="from sending to the last token")
    output_tokens: list[int] = Field(description="as the server's usage counts them")
    input_tokens: list[int] = Field(description="as the server's usage counts them")
    server_output_tokens: int | None = Field(
        description="growth of vLLM's counter of generated tokens meanwhile; null where it was not read"
    )
    acceptance: float | None = Field(description="share of drafted tokens that were accepted; null without speculation")
    prefix_hit_rate: float | None = Field(
        description="share of prompt tokens found in the prefix cache; null: not known"
    )
    client_cpu_s: float | None = Field(description="seconds of a core that the load generator used, start included")


class Cell(Shape):
    """What became of one point of the grid."""

    status: Literal["measured", "skipped", "impossible"] = Field(
        description="`skipped`: it cannot run on this server; `impossible`: faster than the machine can be, an error of "
        "measurement"
    )
    why: str = Field(description="of skipped and impossible: the reason in words; empty for measured")
    notes: list[str] = Field(
        description="what a reader should know, as tokens that were counted otherwise by the server"
    )
    roofline_tokens_per_second: float | None = Field(
        description="output tokens a second that the machine's memory allows at most; null where the machine is not known"
    )
    repeats: list[Repeat] = Field(description="in the order of measuring; empty for skipped")


class BenchmarkRun(Data):
    """A benchmark as its file holds it."""

    schema_: int = Field(alias="schema", default=SCHEMA, description="1")
    id: str = Field(description="moment of the start and the target's name; the file's name without .json")
    started_at: str
    ended_at: str = Field(description="when the last cell was stored")
    complete: bool = Field(description="false while it runs, and where it was interrupted")
    target: Target
    versions: Versions
    plan: PlannedServer | None = Field(description="null where only a URL was given")
    server: ServerFacts
    settings: RunSettings
    cells: list[Cell] = Field(description="those that are done, in the order of `settings.grid`")


def store(run: BenchmarkRun, file: Path) -> None:
    """Write a run at once."""
    write_at_once(run.model_dump_json(by_alias=True, indent=1) + "\n", file)


def write_at_once(text: str, file: Path) -> None:
    """Write a file, and its folder where there is none: whoever reads it sees the former text or the new one, never a part."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", delete=False
    ) as new:
        try:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
            os.fchmod(new.fileno(), 0o644)
            os.replace(new.name, file)
        except BaseException:
            os.unlink(new.name)
            raise


def load(file: Path) -> BenchmarkRun:
    """Return the run that a file holds. Raises SettingsError where it cannot be read or is not one."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError.of(
            str(file), f"cannot be read: {reason}.", fix="Name a file that gemma4 bench wrote."
        ) from None
    try:
        return BenchmarkRun.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SettingsError.of(
            str(file),
            f"is not a stored benchmark: {where}: {first['msg']}.",
            fix="Name a file that gemma4 bench wrote with this version.",
        ) from None
