"""A plan as data: the documented, stable JSON of `gemma4 plan --json` (docs/plan-schema.md), and the rows a diff compares.

Keys are camelCase; sizes end in Bytes or Gib, times in S, money starts with usd. A prediction is {low, mid, high}.
Numbers are not rounded for reading, and a refused plan has null for what only a running server would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from infra.errors import Fault
from infra.planning.cost.estimate import CostEstimate
from infra.planning.cost.price_lines import MONTH_H, LineItem
from infra.planning.performance.speed import Rate
from infra.planning.plan import Plan
from infra.planning.platforms.base import QuotaNeed
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.units import Band

SCHEMA = 1


@dataclass(frozen=True)
class ResourceRow:
    """One resource that the program would create; `component` is the name of the component that owns it."""

    type: str
    name: str
    component: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What the program sets, as JSON data: secrets, values that only the cloud knows, files and very long texts stand as
    marks."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """How Pulumi treats it where that is not the usual way: `protect`, `timeouts`, `ignoreChanges`."""


@dataclass(frozen=True)
class ResourceList:
    """All resources of a run of the real program, the stack and its components included; providers are not counted."""

    rows: tuple[ResourceRow, ...]
    missing: str = ""
    """Why there is no list; empty where there is one."""


def as_json(plan: Plan, resources: ResourceList | None = None) -> dict[str, Any]:
    """The plan as JSON data. `resources` is null where the list was not asked for."""
    return {
        "schema": SCHEMA,
        "stack": plan.stack,
        "verdict": plan.verdict.value,
        "deployable": plan.accelerator.deployable and not plan.refused,
        "model": {
            "id": plan.model.id,
            "hubId": plan.model.hub_id,
            "title": plan.model.title,
            "weightFormat": plan.model.weight_format,
            "weights": [
                {"hubId": w.hub_id, "revision": w.revision, "pinned": w.pinned, "bytes": w.size_bytes}
                for w in plan.weights
            ],
        },
        "accelerator": {
            "id": plan.accelerator.id,
            "title": plan.accelerator.title,
            "platform": plan.accelerator.platform.value,
            "devices": plan.accelerator.devices,
            "region": plan.region,
            "zone": plan.zone,
        },
        "profile": plan.settings.profile,
        "recipes": [
            {
                "id": recipe.id,
                "measuredBy": recipe.measured_by,
                "corrections": list(recipe.corrections),
                "overridden": list(plan.overridden(recipe)),
            }
            for recipe in plan.recipes
        ],
        "memory": _memory(plan),
        "capacity": _capacity(plan),
        "speed": _speed(plan),
        "startup": _startup(plan),
        "probes": _probes(plan),
        "slices": _slices(plan.deployment) if isinstance(plan.deployment, SlicesPlan) else None,
        "quotas": [_quota(need) for need in plan.quotas],
        "cost": {**_cost(plan.cost, plan.refused), "wholeStack": _whole_stack(plan)},
        "vllm": {
            "version": plan.server.image_version,
            "countedAs": plan.server.vllm_version,
            "image": plan.images["serving"].upstream,
            "argv": list(plan.command.argv),
            "wrapper": list(plan.command.wrapper),
            "cudaCompatibility": plan.settings.serving.cuda_compatibility if plan.command.wrapper else None,
            "env": dict(plan.command.env),
            "specHash": plan.command.spec_hash,
        },
        "access": {
            "invokers": list(plan.settings.access.invokers),
            "deployers": list(plan.settings.access.deployers),
            "ingress": plan.settings.access.ingress,
        },
        "resources": None if resources is None else [_resource(row) for row in resources.rows],
        "resourcesMissing": "" if resources is None else resources.missing,
        "refusals": [_fault(fault) for fault in plan.refusals],
        "warnings": [_fault(fault) for fault in plan.warnings],
        "notes": list(plan.notes),
        "origins": {path: origin.value for path, origin in plan.origins.items()},
        "settings": setting_values(plan.settings),
    }


def _memory(plan: Plan) -> dict[str, Any]:
    memory = plan.memory
    peak, programs = memory.construction_peak, memory.programs
    return {
        "deviceBytes": round(memory.device_bytes),
        "capBytes": round(memory.cap_bytes),
        "weightsBytes": _whole(memory.weights),
        "assistantBytes": round(memory.assistant_bytes),
        "offloadedBytes": round(memory.offloaded_bytes),
        "overheadBytes": _whole(memory.overhead),
        "kvBytesPerDevice": _whole(memory.kv),
        "constructionPeakBytes": None if peak is None else _whole(peak),
        "programBytes": None if programs is None else _whole(programs),
        "hostBytes": _whole(memory.host),
        "errorOrigin": memory.error_origin,
    }


def _capacity(plan: Plan) -> dict[str, Any]:
    capacity, refused = plan.capacity, plan.refused
    return {
        "predicted": True,
        "tokens": None if refused else capacity.tokens,
        "tokensBand": None if refused else _whole(plan.kv_tokens),
        "concurrencyAtMaxModelLen": None if refused else exact(capacity.concurrency),
        "requestsOfWorkload": None if refused else plan.requests_held,
        "maxModelLen": plan.server.max_model_len,
        "largestMaxModelLen": capacity.largest_max_model_len,
        "largestMaxModelLenBand": _whole(plan.largest_max_model_len),
        "maxNumSeqs": plan.server.max_num_seqs,
        "maxNumBatchedTokens": plan.server.max_num_batched_tokens,
        "kvCacheDtype": plan.server.kv_cache_dtype,
    }


def _whole(band: Band) -> dict[str, float]:
    return {"low": round(band.low), "mid": round(band.mid), "high": round(band.high)}


def exact_band(band: Band) -> dict[str, float]:
    """The band as data, not rounded for reading."""
    return {"low": exact(band.low), "mid": exact(band.mid), "high": exact(band.high)}


def exact(value: float) -> float:
    """`value` to twelve digits: what is read off it, or a difference made from it, is that of the plan itself."""
    return float(f"{value:.12g}")


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "requests": rate.requests,
        "tokensPerSecond": exact_band(rate.total),
        "tokensPerSecondEach": exact_band(rate.per_stream),
        "withNewPrompts": exact_band(rate.with_new_prompts),
        "bound": rate.bound,
    }


def _speed(plan: Plan) -> dict[str, Any]:
    speed = plan.speed
    return {
        "predicted": True,
        "promptTokens": speed.prompt_tokens,
        "outputTokens": speed.output_tokens,
        "alone": None if plan.refused else _rate(speed.alone),
        "planned": None if plan.refused else _rate(speed.planned),
        "ttftS": None if plan.refused else exact_band(speed.ttft_s),
        "speculationGain": None if plan.refused else exact_band(speed.speculation_gain),
        "sources": list(speed.sources),
    }


def _startup(plan: Plan) -> dict[str, Any]:
    startup = plan.startup
    return {
        "predicted": True,
        "fromZeroS": exact_band(startup.from_zero),
        "firstDeployS": exact_band(startup.first_deploy),
        "restartS": exact_band(startup.restart),
        "stages": [
            {"name": stage.name, "seconds": exact_band(stage.seconds), "repeats": stage.repeats}
            for stage in startup.stages
        ],
        "readyTimeoutS": plan.ready_timeout_s,
        "source": startup.source,
    }


def _probes(plan: Plan) -> dict[str, Any]:
    probe = plan.deployment.startup_probe
    if probe is None:
        return {"startup": None}
    return {
        "startup": {
            "path": probe.path,
            "initialDelaySeconds": probe.initial_delay_s,
            "periodSeconds": probe.period_s,
            "timeoutSeconds": probe.timeout_s,
            "failureThreshold": probe.failure_threshold,
            "windowS": probe.window_s,
        }
    }


def _slices(slices: SlicesPlan) -> dict[str, Any]:
    return {
        "names": list(slices.names),
        "provisioning": slices.provisioning,
        "chips": slices.chips,
        "quota": slices.quota,
        "validUntilDurationS": slices.valid_until_duration_s,
        "maxRunDurationS": slices.max_run_duration_s,
        "waitForCapacityS": slices.wait_for_capacity_s,
        "subnetCidr": slices.subnet_cidr,
        "gatewayInFlightLimit": slices.gateway.in_flight_limit,
    }


def _quota(need: QuotaNeed) -> dict[str, Any]:
    return {
        "name": need.quota.id,
        "service": need.quota.service,
        "place": need.place,
        "needed": need.amount,
        "unit": need.quota.unit,
        "neededInQuotaUnits": need.value,
        "usual": need.quota.default,
        "source": need.quota.source.where,
        "read": need.quota.source.read.isoformat(),
    }


def _cost(cost: CostEstimate, refused: bool) -> dict[str, Any]:
    return {
        "usdPerHour": exact(cost.usd_per_hour),
        "replicas": cost.replicas,
        "usdPerHourAtMost": exact(cost.usd_per_hour_at_most),
        "usdPerMonthIdle": exact(cost.usd_per_month_idle),
        "usdPerRun": None if cost.usd_per_run is None else exact(cost.usd_per_run),
        "usdStaging": exact(cost.usd_staging),
        "usdPerMillionOutputTokens": {
            "predicted": True,
            "alone": None if refused else exact_band(cost.usd_per_million_alone),
            "planned": None if refused else exact_band(cost.usd_per_million_planned),
            "plannedWithNewPrompts": None if refused else exact_band(cost.usd_per_million_new_prompts),
            "plannedRequests": None if refused else cost.planned_requests,
        },
        "lines": {
            "hour": [_line(item) for item in cost.replica_hour],
            "idleMonth": [_line(item) for item in cost.idle_month],
            "staging": [_line(item) for item in cost.staging],
        },
        "notes": list(cost.notes),
    }


def _whole_stack(plan: Plan) -> dict[str, Any]:
    """All replicas together: the fewest and the most that may run, by the hour and for a month of such hours."""
    cost, least, counted = plan.cost, plan.deployment.always_running, plan.deployment.kept_replicas
    hour = cost.usd_per_hour
    return {
        "replicas": {"least": least, "most": cost.replicas},
        "usdPerHour": {count: exact(hour * n) for count, n in (("least", least), ("most", cost.replicas))},
        "usdPerMonth": {
            count: exact(cost.usd_per_month_idle + MONTH_H * hour * (n - counted))
            for count, n in (("least", least), ("most", cost.replicas))
        },
    }


def setting_values(settings: BaseModel, prefix: str = "") -> dict[str, Any]:
    """Every setting by its dotted path, as JSON data, defaults included; null where the planner or vLLM chooses."""
    values: dict[str, Any] = {}
    for name, declared in type(settings).model_fields.items():
        path, value = prefix + (declared.alias or name), getattr(settings, name)
        if isinstance(value, BaseModel):
            values |= setting_values(value, f"{path}.")
        else:
            values[path] = list(value) if isinstance(value, tuple) else value
    return values


def _line(item: LineItem) -> dict[str, Any]:
    return {
        "label": item.label,
        "quantity": exact(item.quantity),
        "unit": item.price.unit.value,
        "usdPerUnit": item.price.usd,
        "usd": exact(item.usd),
        "source": item.price.source.where,
        "read": item.price.source.read.isoformat(),
    }


def _resource(row: ResourceRow) -> dict[str, Any]:
    return {
        "type": row.type,
        "name": row.name,
        "component": row.component,
        "inputs": dict(row.inputs),
        "options": dict(row.options),
    }


def _fault(fault: Fault) -> dict[str, str]:
    return {"key": fault.key, "fact": fault.fact, "consequence": fault.consequence, "fix": fault.fix}
