"""The plan in words, one subject a row: shared by the terminal and by the pull request's comment."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator

from infra.planning.memory.verdict import Verdict
from infra.planning.plan import Plan
from infra.planning.platforms.base import QuotaNeed
from infra.planning.report.resources import ResourceList
from infra.planning.settings.resolve import Origin
from infra.planning.units import (
    BAND_CLAIM,
    counted,
    read_count,
    read_duration,
    read_gib,
    read_minutes,
    read_predicted,
    read_seconds,
    read_tokens_per_second,
    read_usd,
)

Row = tuple[str, list[str]]

GOOD, WARNING, BAD = "green", "yellow", "red"
"""The only colours; what is dim is a band or a source."""
VERDICTS = {"fits": GOOD, "tight": WARNING, "refused": BAD}


def title(plan: Plan) -> str:
    """Return what is served, on what, and where."""
    place = plan.zone or plan.region
    named = plan.model.hub_id in plan.model.title
    by = f" by {plan.model.maker}" if plan.model.third_party and not named else ""
    return f"{plan.model.title}{by} on {plan.accelerator.title}, {place}"


def plan_rows(plan: Plan) -> list[Row]:
    """Return subjects with their lines, in reading order. Command, resources and notes are not among them.

    A refused plan has no server, so no capacity, speed or price: only where its memory would go.
    """
    if plan.refused:
        return [("Memory", list(_memory_of_refused(plan))), ("Basis", list(_basis(plan)))]
    return [
        ("Fits", list(_fits(plan))),
        *([("Adapters", [_adapters(plan)])] if plan.adapters else []),
        ("Capacity", list(_capacity(plan))),
        ("Speed", list(_speed(plan))),
        ("Start", list(_start(plan))),
        *plan.deployment.rows(plan.settings, plan.startup),
        *([("Quota", list(_quotas(plan)))] if plan.quotas else []),
        ("Cost", list(_cost(plan))),
        *([("Access", [_access(plan)])] if plan.accelerator.deployable else []),
        *([("Faults", list(_open_faults(plan)))] if plan.open_faults else []),
        ("Basis", list(_basis(plan))),
    ]


_NOT_WRITTEN = {
    Origin.DEFAULT: "stands at its default",
    Origin.RECIPE: "comes from the recipe",
    Origin.PROFILE: "comes from the recipe of the profile",
    Origin.PLANNER: "was chosen by the planner",
}


def who_set(plan: Plan, key: str) -> str:
    """Return a remark on who set what is refused, where it was not the reader."""
    who = _NOT_WRITTEN.get(plan.origins.get(key, Origin.STACK_FILE))
    return f" ({key} {who}.)" if who else ""


def wrapper_lines(plan: Plan) -> list[str]:
    """Return what runs before the command in its container, as a comment of the shell; empty on TPU."""
    if not plan.command.wrapper:
        return []
    choice = plan.settings.serving.cuda_compatibility
    return [f"# in the container behind infra/planning/server/start_on_gpu.sh, serving.cudaCompatibility: {choice}"]


def command_lines(plan: Plan) -> list[str]:
    """Return environment and command line as a shell takes them, one flag on each line."""
    environment = [f"{name}={shlex.quote(value)}" for name, value in plan.command.env.items()]
    words = list(plan.command.argv)
    head, rest = words[:3], words[3:]
    flags: list[list[str]] = []
    for word in rest:
        if word.startswith("--") or not flags:
            flags.append([word])
        else:
            flags[-1].append(word)
    lines = [shlex.join(head), *(f"  {shlex.join(words)}" for words in flags)]
    return [*(f"{line} \\" for line in environment), *(f"{line} \\" for line in lines[:-1]), lines[-1]]


def resource_lines(resources: ResourceList) -> list[str]:
    """Return one line for each component, with its own children."""
    rows = sorted(resources.rows, key=lambda row: row.component)
    lines = []
    for component, members in itertools.groupby(rows, key=lambda row: row.component):
        named = (f"{row.type.rpartition(':')[2]} {row.name.removeprefix(f'{component}-')}" for row in members)
        lines.append(f"{component or 'stack'}: {', '.join(named)}")
    return lines


def _fits(plan: Plan) -> Iterator[str]:
    answer = "yes" if plan.fits is Verdict.FITS else "perhaps"
    yield f"{answer}, {_left(plan)}"
    yield from _spent(plan)


def _memory_of_refused(plan: Plan) -> Iterator[str]:
    if plan.fits is not Verdict.REFUSED:
        yield f"{plan.fits.value}, but refused for another reason: {_left(plan)}"
    elif plan.memory.kv.mid > 0:
        yield f"{read_predicted(plan.memory.kv_left, read_gib, ' GiB')} would be left for KV cache"
    else:
        yield "nothing would be left for KV cache"
    yield from _spent(plan)


def _left(plan: Plan) -> str:
    memory = plan.memory
    devices = " a device" if plan.server.tensor_parallel > 1 else ""
    return f"{read_predicted(memory.kv_left, read_gib, f' GiB for KV cache{devices}')}; {memory.error_origin}"


def _spent(plan: Plan) -> Iterator[str]:
    memory = plan.memory
    parts = [f"weights {read_predicted(memory.weights, read_gib)}"]
    parts += [f"assistant {read_gib(memory.assistant_bytes)}"] if memory.assistant_bytes else []
    parts += [f"adapters {read_gib(memory.adapter_bytes)}"] if memory.adapter_bytes else []
    parts += [f"overhead {read_predicted(memory.overhead, read_gib)}"] if memory.overhead.mid else []
    share = plan.settings.serving.gpu_memory_utilization
    offloaded = f"; {read_gib(memory.offloaded_bytes)} GiB of weights in host memory" if memory.offloaded_bytes else ""
    yield f"{' + '.join(parts)} of {read_gib(memory.cap_bytes)} GiB ({read_gib(memory.device_bytes)} × {share:.2f}){offloaded}"
    if memory.programs is not None:
        outside = f" of the {read_gib(memory.outside_bytes)} GiB outside that share"
        yield f"compiled programs {read_predicted(memory.programs, read_gib, outside)}"
    if memory.construction_peak is not None:
        whole = f" of {read_gib(memory.device_bytes)} GiB"
        yield f"loading peaks at {read_predicted(memory.construction_peak, read_gib, whole)}"


def _adapters(plan: Plan) -> str:
    names, server = ", ".join(one.name for one in plan.adapters), plan.server
    return f"{names}: {counted(server.adapter_slots, 'slot')} on each device, up to rank {server.adapter_rank}"


def _capacity(plan: Plan) -> Iterator[str]:
    capacity, workload, server = plan.capacity, plan.settings.workload, plan.server
    most = server.max_num_seqs
    length = workload.prompt_tokens + workload.output_tokens
    if not capacity.fits:
        yield f"less than one request of {plan.server.max_model_len:,} at the likeliest size: vLLM would not start"
        return
    counting = f"as vLLM {server.vllm_version} counts them"
    if server.image_version != server.vllm_version:
        said = server.image_version or "no version"
        counting = f"as vLLM {server.vllm_version} would count them; the image says {said}"
    yield f"{read_predicted(plan.kv_tokens, read_count, ' tokens')} {counting}"
    running = plan.speed.planned.requests
    runs = f"runs {most:,}" if running == most else f"runs {running:,} of maxNumSeqs {most:,}"
    replicas = plan.deployment.replicas
    where = f" on each of {replicas:,} servers" if replicas > 1 else ""
    admitted = read_predicted(plan.concurrency_band, "{:,.1f}".format, f" requests of {plan.server.max_model_len:,}")
    held = read_predicted(plan.requests_held_band, read_count, f" of {length:,}")
    yield f"{admitted} by what vLLM sets aside, {held} by what they hold; {runs} at once{where}"


def _speed(plan: Plan) -> Iterator[str]:
    speed = plan.speed
    alone, planned = speed.alone, speed.planned
    lone = read_predicted(alone.with_new_prompts, read_tokens_per_second, " alone")
    running = f" with {planned.requests:,} running"
    together = read_predicted(planned.with_new_prompts, read_tokens_per_second, running)
    shape = f"each with a new prompt of {speed.prompt_tokens:,} and an answer of {speed.output_tokens:,}"
    replicas = plan.deployment.replicas
    yield f"{lone}, {together}{' on each server' if replicas > 1 else ''}: {shape}"
    cached = (read_predicted(rate.total, read_tokens_per_second) for rate in (alone, planned))
    yield f"where the prompts are cached, {' and '.join(cached)}"
    if replicas > 1:
        every = plan.speed_of_all
        new = read_predicted(every.with_new_prompts, read_tokens_per_second, f" with {every.requests:,} running")
        yield f"all {replicas:,} servers: {new}; with cached prompts {read_predicted(every.total, read_tokens_per_second)}"
    yield f"first token of a new prompt after {read_predicted(speed.ttft_s, read_seconds)}, without network and images"


def _start(plan: Plan) -> Iterator[str]:
    yield start_sentence(plan)
    if (probe := plan.deployment.startup_probe) is not None:
        yield f"the probe allows {read_duration(probe.window_s)}: GET {probe.path} every {probe.period_s} s"


def start_sentence(plan: Plan) -> str:
    """Return how long a start takes, and what it waits for or how long the first one takes."""
    start = plan.startup
    from_zero = read_predicted(start.from_zero, read_duration, " from zero", ends=read_minutes)
    if plan.platform.waits_for_capacity:
        return f"{from_zero}, once capacity is granted"
    return f"{from_zero}, {read_predicted(start.first_deploy, read_duration, ' the first time', ends=read_minutes)}"


def _quotas(plan: Plan) -> Iterator[str]:
    """Yield the quota of the devices, then the others in one line. A place is named only where it differs from the first."""
    first, *rest = plan.quotas
    yield _quota(first, first.place)
    if rest:
        yield ", ".join(_quota(need, need.place if need.place != first.place else "") for need in rest)


def _quota(need: QuotaNeed, place: str) -> str:
    usual = "" if need.quota.default is None else f" (usual: {need.quota.default:,g})"
    return f"{quota_amount(need)} of {need.quota.id}{usual}" + (f" in {place}" if place else "")


def quota_amount(need: QuotaNeed) -> str:
    """Return how much of a quota a stack needs, with its unit: 1 chip, 4 chips, 80 GiB."""
    unit = "chip" if need.amount == 1 and need.quota.unit == "chips" else need.quota.unit
    return f"{need.amount:,g} {unit}"


def _cost(plan: Plan) -> Iterator[str]:
    cost = plan.cost
    hourly = f"{read_usd(cost.usd_per_hour)}/h while running"
    if cost.together > 1:
        machine = f"{read_usd(cost.usd_per_hour_together)}/h for the {cost.together} on a machine"
        hourly = f"{read_usd(cost.usd_per_hour)}/h a server while running, {machine}"
    if cost.replicas > cost.together:
        hourly += f" (up to {read_usd(cost.usd_per_hour_at_most)}/h with {cost.replicas:,})"
    yield f"{hourly} · {read_usd(cost.usd_per_month_idle)}/month idle"
    new, cached = cost.usd_per_million_new_prompts, cost.usd_per_million_planned
    running = f" per million output tokens with {cost.planned_requests:,} running"
    yield (
        f"{read_predicted(new, read_usd, running)}, each with a new prompt; where the prompts are cached, "
        f"{read_predicted(cached, read_usd)}, {read_predicted(cost.usd_per_million_alone, read_usd, ' alone')}"
    )
    if len(cost.at_loads) > 1:
        prices = (read_predicted(one.usd_per_million, read_usd, f" with {one.requests}") for one in cost.at_loads)
        yield f"{', '.join(prices)} running at a server, all prompts cached"
    if cost.usd_per_run is not None and cost.run_hours is not None:
        whole = f"the whole {read_duration(3600 * cost.run_hours)} of {counted(cost.replicas, 'slice')}"
        yield f"{read_usd(cost.usd_per_run)} for {whole}"
    read = sorted({item.price.source.read for item in cost.replica_hour})
    yield f"list prices read {', '.join(date.isoformat() for date in read)}"
    yield from cost.notes


def _access(plan: Plan) -> str:
    callers = ", ".join(plan.settings.access.invokers) or "the stack's invoker account only"
    where = "private" if plan.settings.access.ingress == "all" else "private, inside the VPC only"
    return f"{where}; run.invoker for {callers}"


def _open_faults(plan: Plan) -> Iterator[str]:
    """Yield each open fault of vLLM that the configuration may meet, with its thread."""
    for one in plan.open_faults:
        yield f"{one.thread} ({one.source.read:%d %B %Y}): {one.what}{f'. {one.cure}' if one.cure else ''}"


def _basis(plan: Plan) -> Iterator[str]:
    if not plan.refused:
        yield f"bands (±, or two ends): {BAND_CLAIM}; gemma4 scorecard compares"
    if not plan.recipes:
        yield "no recipe for this pair: unverified"
    for recipe in plan.recipes:
        yield f"recipe {recipe.id}: {recipe.measured_by or 'unverified'}"
        if plan.refused:
            continue  # what it changes is told of what can run
        yield from (f"· changed: {correction}" for correction in recipe.corrections)
        if recipe.measured_by and (overridden := plan.overridden(recipe)):
            yield f"· not as measured here: {', '.join(overridden)}"
