"""Whether a server fits its devices: refused only where even the favourable end of the known errors is too small.

Between that and the unfavourable end the verdict is tight, with a warning. Each finding comes with the nearest
configurations that do fit. What vLLM or a platform refuses for other reasons than memory is found in `planning/checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from infra.catalog import GIB, catalog
from infra.errors import Fault
from infra.planning.memory.alternatives import (
    Neighbour,
    on_other_accelerators,
    siblings,
    with_other_models,
    with_other_settings,
)
from infra.planning.memory.budget import MemoryBudget, capacity_of, device_budget
from infra.planning.memory.footprint import streamer_bytes
from infra.planning.memory.gpu_overhead import cold_start_bytes
from infra.planning.server.server import Server
from infra.planning.units import Band, read_duration, read_gib, read_minutes, read_predicted

_MOST_ACCELERATORS, _MOST_MODELS = 3, 2


class Verdict(StrEnum):
    """What memory says: fits, whatever the known errors; tight, may fit within them; refused, cannot work."""

    FITS = "fits"
    TIGHT = "tight"
    REFUSED = "refused"


@dataclass(frozen=True)
class Alternative:
    """A change of settings with which it would fit, and what the verdict would be then."""

    settings: Mapping[str, object]
    verdict: Verdict

    def __str__(self) -> str:
        settings = ", ".join(
            f"{key}: {value:g}" if isinstance(value, float) else f"{key}: {value}"
            for key, value in self.settings.items()
        )
        return f"{settings} (perhaps)" if self.verdict is Verdict.TIGHT else settings


@dataclass(frozen=True)
class Judgement:
    """The verdict on a server's memory, with the reasons and what would fit instead."""

    verdict: Verdict
    refusals: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    alternatives: tuple[Alternative, ...] = ()


AsPlanned = Callable[[Mapping[str, object]], Server | None]
"""The server that a stack would get with these settings, its recipe included; None where they cannot be read."""


def judge(
    server: Server, *, start_s: Band | None = None, as_planned: AsPlanned | None = None, advise: bool = True
) -> Judgement:
    """Return whether `server` fits; `start_s` is how long a start runs before memory decides, for the wording only.

    With `as_planned` an alternative is judged as the stack would be planned with it: another machine has another recipe.
    Without `advise` no alternatives are looked for, which takes most of the time where something does not fit.
    Raises SettingsError where the geometry itself is impossible (a tensor parallelism that vLLM refuses).
    """
    after = (
        "" if start_s is None else f", after {read_predicted(start_s, read_duration, ends=read_minutes)} that are paid"
    )
    findings = list(_findings(server, after))
    if not findings:
        return Judgement(Verdict.FITS)
    verdict = _worst(findings)
    needed = advise and any(not found.fault.fix for found in findings)
    alternatives = tuple(_alternatives(server, verdict, as_planned)) if needed else ()
    fix = "Nothing near it in the catalog fits: plan for fewer tokens or a larger machine."
    if alternatives:
        fix = f"What fits: {'; '.join(map(str, alternatives))}."
    faults = [(found.verdict, replace(found.fault, fix=found.fault.fix or fix)) for found in findings]
    return Judgement(
        verdict,
        refusals=tuple(fault for level, fault in faults if level is Verdict.REFUSED),
        warnings=tuple(fault for level, fault in faults if level is Verdict.TIGHT),
        alternatives=alternatives,
    )


@dataclass(frozen=True)
class _Finding:
    verdict: Verdict
    fault: Fault
    """Without a fix where the alternatives are the fix."""


def _findings(server: Server, after: str = "") -> Iterator[_Finding]:
    if not server.loads:
        yield _Finding(Verdict.REFUSED, _cannot_load(server))
        return
    budget = device_budget(server)
    peak = budget.construction_peak
    if peak is not None and (verdict := _verdict(peak, budget.device_bytes)) is not Verdict.FITS:
        yield _Finding(verdict, _peak_fault(budget, peak, after))
        if verdict is Verdict.REFUSED:
            return
    needed, outside = capacity_of(server, 0).min_kv_bytes, server.implementation.programs_outside_share
    if needed > budget.kv_limits.low:
        spared = 0.0 if outside or server.compile_cache_warm else cold_start_bytes(server)
        verdict = Verdict.REFUSED if needed > budget.kv_limits.high + spared else Verdict.TIGHT
        yield _Finding(verdict, _kv_fault(server, budget, needed, after, spared))
    if budget.programs is not None:
        verdict = _verdict(budget.programs, budget.outside_bytes)
        if verdict is not Verdict.FITS:
            yield _Finding(verdict, _programs_fault(budget, budget.programs, after))
    if (there := server.hosting.memory_gib) is not None:
        verdict = _verdict(budget.host, there * GIB)
        if verdict is not Verdict.FITS:
            yield _Finding(verdict, _host_fault(server, budget))


def _verdict(needed: Band, available: float) -> Verdict:
    if needed.low > available:
        return Verdict.REFUSED
    return Verdict.TIGHT if needed.high > available else Verdict.FITS


def _worst(findings: list[_Finding]) -> Verdict:
    order = list(Verdict)
    return max((found.verdict for found in findings), key=order.index, default=Verdict.FITS)


def _alternatives(server: Server, current: Verdict, as_planned: AsPlanned | None) -> Iterator[Alternative]:
    """Yield the nearest changes that fit better than `current`: one setting, another machine, another model."""
    for neighbour in with_other_settings(server):
        verdict = _verdict_of(neighbour, as_planned)
        if verdict is Verdict.FITS or (verdict is Verdict.TIGHT and current is Verdict.REFUSED):
            yield Alternative(neighbour[0], verdict)
    yield from _fitting(on_other_accelerators(server), _MOST_ACCELERATORS, as_planned)
    yield from _fitting(with_other_models(server), _MOST_MODELS, as_planned)


def _fitting(candidates: Iterator[Neighbour], most: int, as_planned: AsPlanned | None) -> Iterator[Alternative]:
    for neighbour in candidates:
        if most and _verdict_of(neighbour, as_planned) is Verdict.FITS:
            most -= 1
            yield Alternative(neighbour[0], Verdict.FITS)


def _verdict_of(neighbour: Neighbour, as_planned: AsPlanned | None) -> Verdict:
    settings, server = neighbour
    real = server if as_planned is None else as_planned(settings)
    return Verdict.REFUSED if real is None else _worst(list(_findings(real)))


def _cannot_load(server: Server) -> Fault:
    formats, here = catalog().weight_formats, server.accelerator.device
    sibling = next((row for row in siblings(server.model) if replace(server, model=row).loads), None)
    ways = [f"use {sibling.id}"] if sibling else []
    if replace(server, text_only=True).loads:
        ways.append("serve text only (serving.modalities: {image: 0, audio: 0, video: 0})")
    others = [device.name for device in formats[server.model.weight_format].devices if device is not here]
    ways.append(f"use a {' or '.join(others or ['GPU'])}")
    reason = ""
    if here in server.weight_format.devices:
        reason = " in a mixture of experts" if server.mixture else " together with the model's towers"
    fix = ", or ".join(ways)
    return Fault(
        "model",
        f"{server.model.id} holds {server.weight_format.holds}, which vLLM on {here.name} cannot load{reason}.",
        "It would stop while loading, on a machine that is already paid for.",
        f"{fix[0].upper()}{fix[1:]}.",
    )


def _peak_fault(budget: MemoryBudget, peak: Band, after: str) -> Fault:
    moved = f" and {_gib(budget.offloaded_bytes)} in host memory" if budget.offloaded_bytes else ""
    fact = (
        f"loading takes {_predicted(peak, ' of a device')} for a moment, because the output embedding exists twice until "
        f"it is tied, beside {_predicted(budget.weights, ' of weights')}{moved}; there are {_gib(budget.device_bytes)}."
    )
    consequence = f"vLLM would run out of memory while it builds the model{after}, whatever the utilization."
    if peak.low <= budget.device_bytes:
        consequence = f"If the weights are larger than counted, {consequence}"
    return Fault("serving.cpuOffloadGb", fact, consequence)


def _kv_fault(server: Server, budget: MemoryBudget, needed: int, after: str, spared: float) -> Fault:
    consequence = f"vLLM would load the weights and then stop{after}."
    if budget.kv_limits.high < needed <= budget.kv_limits.high + spared:
        kept = Band(
            *(max(0.0, end + spared) for end in (budget.kv_limits.low, budget.kv_limits.mid, budget.kv_limits.high))
        )
        fact = (
            f"one request of {server.max_model_len:,} tokens takes {_gib(needed)} of KV cache on each device. With text only, "
            f"a start without vLLM's compile cache sets {_gib(spared)} aside for the time that it compiles and leaves "
            f"{_predicted(_left(budget.kv_limits))}; a start that finds the cache leaves {_predicted(kept)}."
        )
        consequence = (
            f"vLLM would stop at its first start{after}, and may serve from the second on if the cache is kept."
        )
        return Fault("serving.modalities", fact, consequence)
    if budget.kv_limits.high <= 0:
        taken = Band(
            *(budget.cap_bytes - end for end in (budget.kv_limits.high, budget.kv_limits.mid, budget.kv_limits.low))
        )
        fact = (
            f"{_predicted(taken, ' of weights and overhead')} leave "
            f"nothing for the KV cache of the {_gib(budget.cap_bytes)} that vLLM may use on each device."
        )
        return Fault("accelerator", fact, consequence)
    fact = (
        f"one request of {server.max_model_len:,} tokens takes {_gib(needed)} of KV cache on each device; "
        f"{_predicted(_left(budget.kv_limits))} are expected to be free."
    )
    if needed <= budget.kv_limits.high:
        consequence = f"If less is free than expected, {consequence}"
    return Fault("serving.maxModelLen", fact, consequence)


def _left(kv: Band) -> Band:
    return Band(*(max(0.0, end) for end in (kv.low, kv.mid, kv.high)))


def _programs_fault(budget: MemoryBudget, programs: Band, after: str) -> Fault:
    fact = (
        f"leaves {_gib(budget.outside_bytes)} of each chip outside vLLM's share; compiled programs live there and need "
        f"between {_gib(programs.low)} and {_gib(programs.high)}."
    )
    safe = int(100 * (1 - programs.high / budget.device_bytes)) / 100
    may = "would" if programs.low > budget.outside_bytes else "could"
    consequence = f"XLA {may} run out of memory at start{after}, or at the first request of a new shape."
    return Fault("serving.gpuMemoryUtilization", fact, consequence, f"Write {safe:.2f} or less.")


def _host_fault(server: Server, budget: MemoryBudget) -> Fault:
    parts = ["the server's processes"]
    if budget.offloaded_bytes:
        parts.append(f"{_gib(budget.offloaded_bytes * server.tensor_parallel)} of offloaded weights")
    if server.hosting.staged_in_memory:
        parts.append(f"{_gib(server.model.checkpoint_bytes)} of staged weights")
    if server.streamed:
        parts.append(f"{_gib(streamer_bytes(server))} through which the weights are streamed")
    hosting, there = server.hosting, server.hosting.memory_gib or 0.0
    need = f"{_gib(budget.host.low)} to {_gib(budget.host.high)} of host memory"
    *others, last = parts
    fact = f"{', '.join(others)}{' and ' if others else ''}{last} take {need}; there are {there:g} GiB."
    may = "would" if budget.host.low > there * GIB else "could"
    if not hosting.memory_setting:
        return Fault("accelerator", fact, f"The kernel {may} kill the server while it loads.", "Use a larger machine.")
    most = hosting.most_memory_gib or there
    ways = [f"Raise it (at most {most:g})"] if there < most else []
    ways += ["offload less"] if budget.offloaded_bytes else []
    ways += (
        ["write serving.loadFormat: safetensors and weights.access: mount, which starts slowly"]
        if server.streamed
        else []
    )
    fix = f"{', or '.join(ways)}." if ways else "Use a larger machine."
    consequence = f"The container {may} be killed while it loads."
    return Fault(hosting.memory_setting, fact, consequence, fix[0].upper() + fix[1:])


def _predicted(size: Band, what: str = "") -> str:
    return read_predicted(size, read_gib, f" GiB{what}")


def _gib(size: float) -> str:
    return f"{size / GIB:,.1f} GiB"
