"""Random plans and what must hold of each: shared by the suite's share (test_plan_fuzz.py) and the long form (make fuzz).

A case is a stack of the repository, or a pair of model and machine, with a few settings laid over it. `broken` plans it
and, where an invariant speaks of two plans, its neighbours: one more replica, the context at the boundary that the plan
itself names, the settings that its messages tell to write.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from infra.catalog import catalog
from infra.errors import CatalogError, Fault, Gemma4Error
from infra.planning.memory.verdict import Verdict
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.report.data import as_json
from infra.planning.report.diff import compare
from infra.planning.report.first_screen import COLUMNS, MOST_LINES, MOST_LINES_REFUSED, first_screen
from infra.planning.report.markdown import as_markdown
from infra.planning.report.rows import command_lines
from infra.planning.report.terminal import WIDTH
from infra.planning.report.text import text
from infra.planning.settings.paths import known_paths, subgroup
from infra.planning.settings.stackfile import read_stack, stack_names
from tests.projects import ROOT

Draw = Callable[[random.Random], Any]


@dataclass(frozen=True)
class DrawnStack:
    """A stack file's section and what is typed over it."""

    base: Mapping[str, Any]
    typed: Mapping[str, Any]

    def plan(self, **typed: Any) -> Plan:
        """The plan with further settings; `__` stands for the dot."""
        return self.planned({path.replace("__", "."): value for path, value in typed.items()})

    def planned(self, typed: Mapping[str, Any]) -> Plan:
        """The plan with further settings, dotted."""
        return make_plan("fuzz", self.base, {**self.typed, **typed})


@dataclass
class Tally:
    """How many cases ended how, and what was broken, by invariant."""

    plans: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    fixes: int = 0
    """Fixes that were written and planned anew."""
    faults: list[tuple[str, str, DrawnStack]] = field(default_factory=list)
    """Invariant, what was seen, and where."""


def run(seed: int, count: int) -> Tally:
    """Judge `count` cases of `seed`."""
    source, tally = random.Random(seed), Tally()
    for _ in range(count):
        judge(case(source), tally)
    return tally


def judge(one: DrawnStack, tally: Tally) -> None:
    """Plan a case and add what is broken to the tally."""
    tally.plans += 1
    try:
        plan = one.plan()
    except CatalogError as error:
        tally.faults.append(("the catalog is whole", str(error), one))
        return
    except Gemma4Error:
        tally.verdicts["bad settings"] = tally.verdicts.get("bad settings", 0) + 1
        return
    except Exception as error:
        tally.faults.append(("no foreign exception", repr(error), one))
        return
    tally.verdicts[plan.verdict.value] = tally.verdicts.get(plan.verdict.value, 0) + 1
    for invariant in INVARIANTS:
        try:
            tally.faults += [(invariant.__name__, seen, one) for seen in invariant(one, plan)]
        except Exception as error:
            tally.faults.append((invariant.__name__, f"raised {error!r}", one))
    try:
        followed, seen = follow_fixes(one, plan)
    except Exception as error:
        followed, seen = 0, [f"raised {error!r}"]
    tally.fixes += followed
    tally.faults += [("follow_fixes", what, one) for what in seen]


# --- cases --------------------------------------------------------------------------------------------------------------


def case(source: random.Random) -> DrawnStack:
    """A stack of the repository or a pair, with up to eight settings."""
    facts = catalog()
    if source.random() < 0.3:
        base = read_stack(ROOT, source.choice(stack_names(ROOT))).settings
    else:
        base = {"model": source.choice(list(facts.models)), "accelerator": source.choice(list(facts.accelerators))}
    paths = source.sample(sorted(POOL), source.randint(0, 8))
    return DrawnStack(base, {path: POOL[path](source) for path in paths})


def _one_of(*values: Any) -> Draw:
    return lambda source: source.choice(values)


def _between(low: int, high: int) -> Draw:
    """A whole number, as often small as large."""
    return lambda source: round(math.exp(source.uniform(math.log(low), math.log(high))))


_REGIONS = ("us-east4", "us-central1", "europe-west4", "asia-southeast1", "europe-north1", "asia-northeast1")
_ZONES = ("us-east5-a", "us-east5-b", "asia-northeast1-b", "europe-west4-a", "us-central1-b", "europe-north1-a")

_CHOSEN: Mapping[str, Draw] = {
    "checkpoint": _one_of(
        *(row.hub_id for row in catalog().models.values() if row.third_party), "acme/tuned", "gs://a-b/c"
    ),
    "profile": _one_of("latency", "balanced", "throughput"),
    "region": _one_of(*_REGIONS),
    "serving.maxModelLen": _between(256, 262_144),
    "serving.maxNumSeqs": _between(1, 4096),
    "serving.maxNumBatchedTokens": _between(64, 131_072),
    "serving.gpuMemoryUtilization": lambda source: round(source.uniform(0.06, 0.99), 2),
    "serving.kvCacheDtype": _one_of("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"),
    "serving.quantization": _one_of("none", "fp8"),
    "serving.dtype": _one_of("auto", "bfloat16", "float16"),
    "serving.cpuOffloadGb": lambda source: round(source.uniform(0, 40), 1),
    "serving.enforceEager": _one_of(True, False),
    "serving.tensorParallelSize": _one_of(1, 2, 4, 8),
    "serving.blockSize": _one_of(16, 32, 64, 128, 256),
    "serving.asyncScheduling": _one_of(True, False),
    "serving.prefixCaching": _one_of(True, False),
    "serving.chunkedMultimodalInput": _one_of(True, False),
    "serving.speculation.method": _one_of("none", "ngram", "mtp"),
    "serving.speculation.tokens": _between(1, 16),
    "serving.modalities.image": _one_of(0, 1, 4, 64),
    "serving.modalities.audio": _one_of(0, 1, 16),
    "serving.modalities.video": _one_of(0, 1, 16),
    "serving.tools": _one_of(True, False),
    "serving.reasoning": _one_of(True, False),
    "serving.chatTemplate": _one_of("/templates/tools.jinja"),
    "serving.loadFormat": _one_of("auto", "safetensors", "runai_streamer"),
    "serving.safetensorsLoadStrategy": _one_of("eager", "lazy", "prefetch"),
    "serving.readyTimeout": _one_of("1m", "45m", "4h"),
    "serving.adapters": _one_of({"tone": "my-org/tone@0123abc"}, {"tone": "my-org/tone", "sql": "gs://my-bucket/sql"}),
    "serving.adapterRank": _one_of(1, 8, 16, 64, 512),
    "serving.adapterSlots": _one_of(1, 2, 16),
    "serving.adapterExperts": _one_of(True, False),
    "serving.env": _one_of({"VLLM_LOGGING_LEVEL": "DEBUG"}),
    "vllmArgs": _one_of({"max-log-len": 100}, {"kv-cache-memory-bytes": 10**9}),
    "workload.promptTokens": _between(1, 200_000),
    "workload.outputTokens": _between(1, 131_072),
    "scaling.minInstances": _between(1, 100),
    "scaling.maxInstances": _between(1, 100),
    "scaling.concurrency": _between(1, 1000),
    "scaling.cpu": _one_of(1, 4, 6, 8, 20, 44, 64),
    "scaling.memoryGib": _one_of(1, 16, 32, 80, 176, 512),
    "scaling.zonalRedundancy": _one_of(True, False),
    "scaling.requestTimeout": _one_of("1s", "5m", "60m", "2h"),
    "probes.startup.initialDelaySeconds": _between(1, 2000),
    "probes.startup.periodSeconds": _between(1, 2000),
    "probes.startup.timeoutSeconds": _between(1, 300),
    "probes.startup.failureThreshold": _between(1, 2000),
    "tpu.zone": _one_of(*_ZONES),
    "tpu.slices": _one_of([], ["blue"], ["blue", "green"], ["a", "b", "c", "d", "e", "f", "g", "h"]),
    "tpu.provisioning": _one_of("flex-start", "spot", "on-demand"),
    "tpu.maxRunDuration": _one_of("1m", "10m", "20m", "24h", "7d", "8d"),
    "tpu.validUntilDuration": _one_of("1s", "10m", "4h", "9d"),
    "tpu.waitForCapacity": _one_of("1m", "20m", "5h"),
    "tpu.privileged": _one_of(True, False),
    "machine.names": _one_of([], ["blue", "green"], ["a", "b", "c", "d", "e", "f", "g", "h"]),
    "machine.zones": _one_of(["us-west1-c"], ["europe-west4-a", "europe-west4-b"], ["us-east4-a"]),
    "machine.shapes": _one_of(["g4-standard-384"], ["g4-standard-96", "g4-standard-192"], ["n2-standard-8"]),
    "machine.provisioning": _one_of("flex-start", "spot", "on-demand"),
    "machine.maxRunDuration": _one_of("1m", "10m", "20m", "24h", "7d", "8d"),
    "machine.validUntilDuration": _one_of("1s", "10m", "4h", "9d"),
    "machine.waitForCapacity": _one_of("1m", "20m", "5h"),
    "machine.image": _one_of("cos-125-lts", "projects/my-project/global/images/cos"),
    "machine.diskGb": _one_of(20, 60, 100, 400),
    "machine.diskThroughput": _one_of(140, 600, 2400),
    "weights.source": _one_of("bucket", "existing", "huggingface"),
    "weights.bucket": _one_of("my-project-gemma-weights"),
    "weights.access": _one_of("mount", "stream"),
    "weights.revision": _one_of("0123abc"),
    "weights.protect": _one_of(True, False),
    "access.invokers": _one_of(["group:ml@example.com"]),
    "access.deployers": _one_of(["user:me@example.com"]),
    "access.ingress": _one_of("all", "internal"),
    "access.settleTime": _one_of("0s", "2m", "10m"),
    "images.mode": _one_of("mirror", "build"),
    "images.serving": _one_of("vllm/vllm-openai:v0.20.0", "vllm/vllm-openai:v0.26.0", "vllm/vllm-tpu:v0.33.0"),
    "images.requirePinned": _one_of(True, False),
    "network.subnetCidr": _one_of("10.8.0.0/26", "10.9.0.0/16", "172.17.0.0/24", "192.168.0.0/26"),
    "labels": _one_of({"team": "ml"}),
    "deletionProtection": _one_of(True, False),
    "hfTokenSecret": _one_of("hf-token"),
}
"""What may be drawn for a setting: good values, and some that cannot work."""
NOT_DRAWN = {"model", "accelerator", "hfToken"}
"""Drawn with every case; a secret that is only ever set."""


def leaves() -> set[str]:
    """Every setting that is not a group."""
    return {path for path, row in known_paths() if subgroup(row) is None}


def _pool() -> Iterator[tuple[str, Draw]]:
    for path, row in known_paths():
        if path in _CHOSEN:
            yield path, _CHOSEN[path]
        elif subgroup(row) is None and path not in NOT_DRAWN:
            yield path, _one_of(*row.examples)


POOL: Mapping[str, Draw] = dict(_pool())
"""By setting: what may be drawn; the example of its description where nothing else is chosen above."""


# --- invariants of one plan ---------------------------------------------------------------------------------------------


def refused_means_refusals(one: DrawnStack, plan: Plan) -> Iterator[str]:
    """The verdict, the refusals and the memory's own word agree."""
    if plan.refused != (plan.verdict is Verdict.REFUSED) or plan.refused != bool(plan.refusals):
        yield f"verdict {plan.verdict} with {len(plan.refusals)} refusals"
    if plan.fits is Verdict.REFUSED and not plan.refused:
        yield "memory refuses and the plan does not"
    length = min(plan.server.max_model_len, plan.architecture.max_position)
    if plan.fits is Verdict.FITS and length > plan.largest_max_model_len.low:
        yield f"fits, and the cache may hold no more than {plan.largest_max_model_len.low:g}"


def every_message_says_what_to_do(one: DrawnStack, plan: Plan) -> Iterator[str]:
    """Every refusal and every warning has its fact and its fix."""
    yield from (f"no fix: {fault}" for fault in (*plan.refusals, *plan.warnings) if not (fault.fact and fault.fix))


def no_quote_beyond_what_is_held(one: DrawnStack, plan: Plan) -> Iterator[str]:
    """Speed and price are of requests that may run and that the cache holds; more than that is warned of."""
    planned, held, most = plan.speed.planned.requests, plan.requests_held, plan.server.max_num_seqs
    if planned != plan.cost.planned_requests or planned > max(1, min(held, most)):
        yield f"quoted for {planned} (price: {plan.cost.planned_requests}), held are {held}, may run {most}"
    if planned > max(1, plan.deployment.requests_each):
        yield f"quoted for {planned}, and one server is sent {plan.deployment.requests_each}"
    warned = any(fault.key == "serving.maxNumSeqs" for fault in plan.warnings)
    if not plan.refused and 0 < held < most and not warned:
        yield f"{most} may run, {held} are held, and no warning says so"
    data = as_json(plan)
    shown = [data["speed"]["planned"], data["cost"]["usdPerMillionOutputTokens"]["planned"]]
    if plan.refused and shown != [None, None]:
        yield "a refused plan has a speed or a price"
    if not plan.refused and shown[0]["requests"] != planned:
        yield "the data quote other requests than the plan"


def numbers_are_numbers(one: DrawnStack, plan: Plan) -> Iterator[str]:
    """JSON without NaN, infinity or loss; bands rise; amounts of money are not negative."""
    data = as_json(plan)
    if json.loads(json.dumps(data, allow_nan=False)) != data:
        yield "JSON loses something"
    yield from _fallen(data, "")
    for key in ("usdPerHour", "usdPerHourAtMost", "usdPerMonthIdle", "usdStaging"):
        if data["cost"][key] < 0:
            yield f"{key} is {data['cost'][key]}"


def _fallen(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        if {"low", "mid", "high"} == set(value) and not value["low"] <= value["mid"] <= value["high"]:
            yield f"{path} falls: {value}"
        for key, inner in value.items():
            yield from _fallen(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _fallen(inner, path)


def words_are_words(one: DrawnStack, plan: Plan) -> Iterator[str]:
    """Text and comment render, in their width, without empty brackets, NaN or a negative size; no plan differs from itself."""
    lines = text(plan).splitlines()
    pasted = {f"  {line}" for line in command_lines(plan)}
    if longest := max((line for line in lines if line not in pasted and len(line) > WIDTH), key=len, default=""):
        yield f"a line of {len(longest)} columns: {longest}"
    screen = [line for part in first_screen(plan, COLUMNS) for line in part.plain.split("\n")]
    if len(screen) > (MOST_LINES_REFUSED if plan.refused else MOST_LINES):
        yield f"a first screen of {len(screen)} lines"
    for shown in ("\n".join(lines), as_markdown(plan, None)):
        # What people wrote is shown as they wrote it: only our own rows are searched for signs of bad arithmetic.
        if found := re.search(r"≈ 0 tokens|\(\)|\bnan\b|\binf\b|[-−]\d+\.\d GiB|Traceback", shown):
            yield f"says {found[0]!r}"
    data = as_json(plan)
    if compare(data, json.loads(json.dumps(data))).changes:
        yield "differs from itself"


# --- invariants of a plan and its neighbours ----------------------------------------------------------------------------


def more_never_costs_less(one: DrawnStack, plan: Plan) -> Iterator[str]:
    """Instances, kept instances, slices, the next larger machine of a family: the price never falls."""
    cost, scaling = plan.cost, plan.settings.scaling
    steps: list[dict[str, Any]]
    if plan.accelerator.cloud_run is not None:
        kept = min(100, scaling.min_instances + 1)
        steps = [{"scaling.maxInstances": min(100, scaling.max_instances + 1)}]
        steps += [{"scaling.minInstances": kept, "scaling.maxInstances": max(kept, scaling.max_instances)}]
    elif isinstance(plan.deployment, SlicesPlan):
        steps = [{"tpu.slices": [*plan.deployment.names[:7], "more"]}]
    elif isinstance(plan.deployment, MachinesPlan):
        steps = [{"machine.names": [*plan.deployment.names[:7], "more"]}]
    else:
        steps = []
    figures = [(step, name) for step in steps for name in ("usd_per_hour_at_most", "usd_per_month_idle")]
    if (larger := _LARGER.get(plan.accelerator.id)) is not None:
        figures.append(({"accelerator": larger}, "usd_per_hour_together"))  # another recipe may keep other weights
    for step, name in figures:
        before, after = getattr(cost, name), getattr(one.planned(step).cost, name)
        if after < before - 1e-9:
            yield f"{step}: {name} falls from {before} to {after}"


_LARGER = {"v6e-1": "v6e-4", "v6e-4": "v6e-8", "g4-1": "g4-2", "g4-2": "g4-4", "g4-4": "g4-8"}


def the_boundary_is_where_the_plan_says(one: DrawnStack, plan: Plan) -> Iterator[str]:
    """At the low end of the longest context the cache is no reason, at the high end no refusal, one token above it is."""
    band = plan.largest_max_model_len
    fixed = {
        "serving.maxNumSeqs": plan.server.max_num_seqs,
        "serving.maxNumBatchedTokens": plan.server.max_num_batched_tokens,
    }
    if _hides_the_cache(plan) or not 64 <= plan.server.max_num_batched_tokens <= 131_072:
        return

    def cache_faults(length: float) -> tuple[bool, bool] | None:
        if not 256 <= length <= plan.architecture.max_position:
            return None
        there = one.planned({**fixed, "serving.maxModelLen": int(length)})
        return _of_the_cache(there.refusals), _of_the_cache(there.warnings)

    for length, allowed in (
        (band.low, [(False, False)]),
        (plan.capacity.largest_max_model_len, [(False, False), (False, True)]),
        (band.high, [(False, False), (False, True)]),
        (band.low + 1, [(False, True), (True, False)]),
        # a server of text alone that only a warm start would hold is told so under another key
        (band.high + 1, [(True, False), *([(False, False)] if plan.server.text_only else [])]),
    ):
        seen = cache_faults(length)
        if seen is not None and seen not in allowed:
            yield f"at {length:g} of {band}: refused {seen[0]}, warned {seen[1]}"


def _of_the_cache(faults: Sequence[Fault]) -> bool:
    return any("KV cache" in fault.fact and fault.key in ("serving.maxModelLen", "accelerator") for fault in faults)


def _hides_the_cache(plan: Plan) -> bool:
    """Whether the memory is refused for something that is looked at before the cache."""
    hidden = ("loading takes", "cannot load")
    return any(said in fault.fact for fault in plan.refusals for said in hidden)


INVARIANTS = (
    refused_means_refusals,
    every_message_says_what_to_do,
    no_quote_beyond_what_is_held,
    numbers_are_numbers,
    words_are_words,
    more_never_costs_less,
    the_boundary_is_where_the_plan_says,
)


# --- what the messages tell to write ------------------------------------------------------------------------------------


def follow_fixes(one: DrawnStack, plan: Plan) -> tuple[int, list[str]]:
    """Write what each message tells to write: whatever else is then said, not the same again. Returns how many were."""
    followed, seen = 0, []
    for fault, refused in [(f, True) for f in plan.refusals] + [(f, False) for f in plan.warnings]:
        for step in told(fault):
            followed += 1
            try:
                then = one.planned(step)
            except Gemma4Error as error:
                seen.append(f"{fault} | {step} cannot be read: {error}")
                continue
            # A start that is shortened may still be too long for a warning: the remedy says by how much, not that it is all.
            shortened = fault.key == "probes.startup"
            said = then.refusals if refused or shortened else (*then.refusals, *then.warnings)
            if again := [other for other in said if _reason(other) == _reason(fault)]:
                seen.append(f"{fault} | after {step}: {again[0]}")
    return followed, seen


_LEAVES = leaves()
_PAIR = re.compile(r"([a-z][A-Za-z]*(?:\.[A-Za-z]+)*): ((?:[\w./-]+|\[[^\]]*\]|\{[^}]*\})+)")
_LISTED = re.compile(r"What (?:fits|is faster): (.*)\.$")
_ONE = re.compile(r"(?:Write|Use|Raise it) \(?(?:at least |at most |about |one of: |for example )?([\w./-]+)")
_OUT = re.compile(r"(?:Leave|Take) it out")
_PROBE = [path for path in sorted(_LEAVES) if path.startswith("probes.startup.")]


def told(fault: Fault) -> Iterator[dict[str, Any]]:
    """The settings that a fix tells to write: each alternative of a list, else its pairs, else one value for the key."""
    fix = fault.fix
    if listed := _LISTED.search(fix):
        yield from filter(None, map(_pairs, listed[1].split("; ")))
        return
    if fault.key == "probes.startup":
        yield (dict.fromkeys(_PROBE) if fix.startswith("Leave probes.startup out") else {}) | _pairs(fix)
        return
    first = re.split(r"(?<=[a-z0-9\]])\. |, or |; or ", fix.rstrip("."))[0]
    if first.startswith("Write ") and (pairs := _pairs(first)):
        yield pairs
    elif fault.key in _LEAVES and (match := _ONE.match(first)):
        yield {fault.key: yaml.safe_load(match[1])}
    elif fault.key in _LEAVES and _OUT.match(fix):
        yield {fault.key: None}


def _pairs(said: str) -> dict[str, Any]:
    return {path: yaml.safe_load(value.rstrip(".")) for path, value in _PAIR.findall(said) if path in _LEAVES}


def _reason(fault: Fault) -> tuple[str, str]:
    """A message without its numbers and names."""
    return fault.key, re.sub(r"[\d.,]+( \w?iB)?", "#", fault.fact)[:40]
