"""`gemma4 memory`: how each server has really laid out its KV cache, beside what the stack plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.text import Text

from infra.catalog.versions import minor_version
from infra.errors import Gemma4Error, GoogleError
from infra.google.logs import LogSource, last_lines
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.memory_answers import MemberMemory, MemoryAnswer, PlannedMemory
from infra.ops.endpoint.endpoint import Endpoint, Member
from infra.ops.endpoint.find_endpoint import find_endpoint
from infra.ops.live_metrics.member_readings import TIMEOUTS, nobody_answers
from infra.ops.terminal.progress import waiting
from infra.planning.memory.budget import capacity_of
from infra.planning.plan import Plan
from infra.planning.report.data_models import BandData
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.units import Band, exact_band, read_count, read_gib, read_predicted, read_rate
from infra.serving.kv_layout import KvLayout
from infra.serving.memory_log import LINES, LoggedMemory, logged_memory

_GIB = 2**30
_COLUMNS = 80


def memory_answer(stack: str | None = None, url: str | None = None) -> MemoryAnswer:
    """Return the size and the layout of each server's KV cache, and of a stack what was planned and whether the server is
    inside its band. Raises Gemma4Error where no server answers."""
    return memory_of(find_endpoint(stack, url))


def memory_of(endpoint: Endpoint) -> MemoryAnswer:
    """Return the answer for an endpoint."""
    notes: dict[str, None] = {}
    with waiting(f"asking {endpoint.name} for its KV cache"):
        members = [_member(endpoint, member, notes) for member in endpoint.members]
    if all(member.error for member in members):
        raise nobody_answers(endpoint, {member.name: member.error for member in members})
    plan = endpoint.planned.plan if endpoint.planned else None
    return MemoryAnswer(
        endpoint=endpoint.name, planned=_planned(plan) if plan else None, members=members, notes=list(notes)
    )


def show_memory(stack: str | None, url: str | None, *, as_json: bool = False) -> None:
    """Print the answer as a table or as JSON."""
    answer = memory_answer(stack, url)
    if as_json:
        print_answer(answer)
        return
    heads = [member.name or "server" for member in answer.members if not member.error]
    columns = [Column(""), *([Column("planned")] if answer.planned else []), *map(Column, heads)]
    show(answer.endpoint, FittedTable(columns, list(_rows(answer))), columns=_COLUMNS)
    for member in answer.members:
        if member.error:
            show(Text(f"{member.name}: no answer: {member.error}", style="red"), columns=_COLUMNS)
    for note in answer.notes:
        show(Text(f"note: {note}", style="dim"), columns=_COLUMNS)


def _member(endpoint: Endpoint, member: Member, notes: dict[str, None]) -> MemberMemory:
    client = endpoint.client(member, timeouts=TIMEOUTS)
    try:
        layout = KvLayout.of(client.metrics())
        served = client.models()
    except Gemma4Error as error:
        return _without_figures(member.name, str(error))
    version = client.version_if_said()
    plan = endpoint.planned.plan if endpoint.planned else None
    longest = next((one.max_model_len for one in served if one.max_model_len), None)
    logged = _logged(endpoint, member, notes)
    if plan and (why_not := _not_comparable(plan, version, {one.name for one in served})):
        notes[f"{f'{member.name}: ' if member.name else ''}{why_not}"] = None
        plan = None
    blocks = layout.blocks if plan and layout.block_size == _smallest_block(plan) else None
    kv_gib = layout.kv_bytes / _GIB if layout.kv_bytes is not None else logged.kv_gib
    requests = replace(plan.capacity, num_blocks=blocks).requests_held(plan.request_tokens) if plan and blocks else None
    return MemberMemory(
        name=member.name,
        error="",
        vllm_version=version,
        max_model_len=longest,
        tokens=layout.tokens,
        tokens_inside=_inside(plan.kv_tokens, layout.tokens) if plan else None,
        blocks=layout.blocks,
        blocks_inside=_inside(_blocks(plan), blocks) if plan else None,
        block_size=layout.block_size,
        group_block_sizes=list(logged.group_block_sizes),
        kv_cache_dtype=layout.dtype,
        requests=requests,
        requests_inside=_inside(plan.requests_held_band, requests) if plan else None,
        requests_of_max_model_len=_rounded(layout.requests_of_max_model_len),
        memory_utilization=layout.memory_utilization,
        prefix_caching=layout.prefix_caching,
        weights_gib=logged.weights_gib,
        weights_inside=_inside(_weights(plan), logged.weights_gib, unit=_GIB) if plan else None,
        kv_gib=_rounded(kv_gib),
        kv_inside=_inside(plan.memory.kv, kv_gib, unit=_GIB) if plan else None,
        graphs_gib=logged.graphs_gib,
    )


def _without_figures(name: str, error: str) -> MemberMemory:
    empty = dict.fromkeys(MemberMemory.model_fields)
    return MemberMemory(
        **empty | {"name": name, "error": error, "vllm_version": "", "kv_cache_dtype": "", "group_block_sizes": []}
    )


def _logged(endpoint: Endpoint, member: Member, notes: dict[str, None]) -> LoggedMemory:
    """Return what the server's log says; nothing of a URL, whose log is not known."""
    if endpoint.planned is None or endpoint.session is None:
        return LoggedMemory()
    place = endpoint.log_place(member)
    make = LogSource.machine if place["kind"] == "machine" else LogSource.service
    source = replace(make(place["name"], place["location"]), matching=LINES)
    try:
        found = logged_memory(last_lines(endpoint.session, source))
    except GoogleError as error:
        notes[f"the log was not read, so weights and graphs are unknown: {error}"] = None
        return LoggedMemory()
    if found.empty:
        notes["the log holds no line of vLLM about its memory, so weights and graphs are unknown"] = None
    return found


def _not_comparable(plan: Plan, version: str, names: set[str]) -> str:
    """Return why a server's figures cannot be held against the plan's; empty where they can."""
    if plan.command.spec_hash not in names:
        return f"it does not serve what the files here plan, so it is not compared: deploy that with pulumi up -s {plan.stack}"
    if version and minor_version(version) != minor_version(plan.server.vllm_version):
        return f"it runs vLLM {version}, and the plan counts as {plan.server.vllm_version} does, so it is not compared"
    return ""


def _planned(plan: Plan) -> PlannedMemory:
    return PlannedMemory(
        tokens=_data(plan.kv_tokens),
        blocks=_data(_blocks(plan)),
        block_size=_smallest_block(plan),
        kv_cache_dtype=plan.server.kv_cache_dtype,
        request_tokens=plan.request_tokens,
        requests=_data(plan.requests_held_band),
        requests_of_max_model_len=_data(plan.concurrency_band),
        max_model_len=plan.server.max_model_len,
        memory_utilization=plan.server.gpu_memory_utilization,
        weights_bytes=_data(_weights(plan)),
        kv_bytes=_data(plan.memory.kv),
    )


def _blocks(plan: Plan) -> Band:
    """Return how many blocks the KV cache has, over the band of its size."""
    left = plan.memory.kv_left
    low, high = (capacity_of(plan.server, size).num_blocks for size in (left.low, left.high))
    return Band(low, plan.capacity.num_blocks, high)


def _smallest_block(plan: Plan) -> int:
    return min(plan.capacity.geometry.full_block, plan.capacity.geometry.sliding_block)


def _weights(plan: Plan) -> Band:
    """Return what vLLM logs as the size of the loaded model: with the drafter and the slots of adapters."""
    return Band.total(
        [plan.memory.weights, Band.exactly(plan.memory.assistant_bytes), Band.exactly(plan.memory.adapter_bytes)]
    )


def _inside(band: Band, value: float | None, *, unit: float = 1) -> bool | None:
    """Return whether a value lies in the band. One that was logged in GiB was rounded to a hundredth."""
    if value is None:
        return None
    rounding = 0.005 * unit if unit > 1 else 0.0
    return band.low - rounding <= value * unit <= band.high + rounding


def _data(band: Band) -> BandData:
    return BandData(**exact_band(band))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _rows(answer: MemoryAnswer) -> Iterator[tuple[str, ...]]:
    planned = answer.planned
    servers = [member for member in answer.members if not member.error]

    def row(name: str, plan: Callable[[PlannedMemory], str], real: Callable[[MemberMemory], str]) -> tuple[str, ...]:
        return (name, *([plan(planned)] if planned else []), *(real(member) for member in servers))

    request = f"requests of {planned.request_tokens:,}" if planned else ""
    yield row("tokens", lambda p: _cell(p.tokens, read_count), lambda m: _said(m.tokens, read_count, m.tokens_inside))
    yield row("blocks", lambda p: _cell(p.blocks, read_count), lambda m: _said(m.blocks, read_count, m.blocks_inside))
    yield row("tokens a block", lambda p: str(p.block_size), _block_sizes)
    yield row("KV type", lambda p: p.kv_cache_dtype, lambda m: m.kv_cache_dtype or _UNKNOWN)
    if planned:
        yield row(
            request, lambda p: _cell(p.requests, read_count), lambda m: _said(m.requests, read_count, m.requests_inside)
        )
    yield row(
        "requests of the most",
        lambda p: _cell(p.requests_of_max_model_len, read_rate),
        lambda m: _said(m.requests_of_max_model_len, read_rate),
    )
    yield row("  which is, tokens", lambda p: read_count(p.max_model_len), lambda m: _said(m.max_model_len, read_count))
    yield row(
        "share of the device",
        lambda p: f"{p.memory_utilization:.2f}",
        lambda m: _said(m.memory_utilization, "{:.2f}".format),
    )
    yield row(
        "KV cache, GiB",
        lambda p: _cell(p.kv_bytes, read_gib),
        lambda m: _said(m.kv_gib, "{:.2f}".format, m.kv_inside),
    )
    yield row(
        "weights, GiB",
        lambda p: _cell(p.weights_bytes, read_gib),
        lambda m: _said(m.weights_gib, "{:.2f}".format, m.weights_inside),
    )
    yield row("CUDA graphs, GiB", lambda _: "", lambda m: _said(m.graphs_gib, "{:.2f}".format))
    yield row("prefix caching", lambda _: "", lambda m: {True: "on", False: "off", None: _UNKNOWN}[m.prefix_caching])
    yield row("vLLM", lambda _: "", lambda m: m.vllm_version or _UNKNOWN)


_UNKNOWN = "unknown"


def _block_sizes(member: MemberMemory) -> str:
    smallest = _said(member.block_size, read_count)
    sizes = ", ".join(str(size) for size in sorted(set(member.group_block_sizes)))
    return f"{smallest} (by group {sizes})" if sizes else smallest


def _cell(band: BandData, read: Callable[[float], str]) -> str:
    return read_predicted(Band(band.low, band.mid, band.high), read)


def _said(value: float | None, read: Callable[[float], str], inside: bool | None = None) -> str:
    """Return a measured value, with whether it lies in the plan's band where that was asked."""
    if value is None:
        return _UNKNOWN
    return read(value) + {True: ", inside", False: ", OUTSIDE", None: ""}[inside]
