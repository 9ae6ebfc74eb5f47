"""A plan as data: fills the models of data_models.py, whose form is that of `gemma4 plan --json`.

Numbers are not rounded for reading, and a refused plan has null for what only a running server would have. Imported only
where data is printed or compared: a plan in words does not pay for the models.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from infra.errors import Fault
from infra.planning.cost.price_lines import LineItem
from infra.planning.performance.speed import Rate
from infra.planning.plan import Plan
from infra.planning.platforms.base import QuotaNeed
from infra.planning.report import data_models as form
from infra.planning.report.resources import ResourceList, ResourceRow
from infra.planning.units import Band, exact

SCHEMA = 1
"""Raised only where a key is renamed or removed, or changes what it means."""


def as_json(plan: Plan, resources: ResourceList | None = None) -> dict[str, Any]:
    """Return the plan as JSON data. `resources` is null where the list was not asked for."""
    return plan_data(plan, resources).model_dump(by_alias=True, exclude_unset=True)


def plan_data(plan: Plan, resources: ResourceList | None = None) -> form.PlanData:
    """Return the plan as the model of its JSON."""
    return form.PlanData(
        schema_=SCHEMA,
        stack=plan.stack,
        verdict=plan.verdict.value,
        deployable=plan.accelerator.deployable and not plan.refused,
        model=form.ModelData(
            id=plan.model.id,
            hub_id=plan.model.hub_id,
            title=plan.model.title,
            maker=plan.model.maker,
            weight_format=plan.model.weight_format,
            weights=[
                form.WeightsData(hub_id=w.hub_id, revision=w.revision, pinned=w.pinned, bytes=w.size_bytes)
                for w in plan.weights
            ],
            adapters=[
                form.AdapterData(name=a.name, source=a.source, revision=a.revision, pinned=a.pinned)
                for a in plan.adapters
            ],
        ),
        accelerator=form.AcceleratorData(
            id=plan.accelerator.id,
            title=plan.accelerator.title,
            platform=plan.accelerator.platform,
            devices=plan.accelerator.devices,
            region=plan.region,
            zone=plan.zone,
        ),
        profile=plan.settings.profile,
        recipes=[
            form.RecipeData(
                id=recipe.id,
                measured_by=recipe.measured_by,
                corrections=list(recipe.corrections),
                overridden=list(plan.overridden(recipe)),
            )
            for recipe in plan.recipes
        ],
        memory=_memory(plan),
        capacity=_capacity(plan),
        speed=_speed(plan),
        startup=_startup(plan),
        probes=_probes(plan),
        **{"slices": None, "machines": None, **plan.deployment.as_json()},
        quotas=[_quota(need) for need in plan.quotas],
        cost=_cost(plan),
        vllm=form.VllmData(
            version=plan.server.image_version,
            counted_as=plan.server.vllm_version,
            image=plan.images["serving"].upstream,
            argv=list(plan.command.argv),
            wrapper=list(plan.command.wrapper),
            cuda_compatibility=plan.settings.serving.cuda_compatibility if plan.command.wrapper else None,
            env=dict(plan.command.env),
            spec_hash=plan.command.spec_hash,
        ),
        access=form.AccessData(
            invokers=list(plan.settings.access.invokers),
            deployers=list(plan.settings.access.deployers),
            ingress=plan.settings.access.ingress,
        ),
        resources=None if resources is None else [_resource(row) for row in resources.rows],
        resources_missing="" if resources is None else resources.missing,
        refusals=[_fault(fault) for fault in plan.refusals],
        warnings=[_fault(fault) for fault in plan.warnings],
        notes=list(plan.notes),
        open_faults=[
            form.OpenFaultData(
                thread=one.thread,
                what=one.what,
                cure=one.cure,
                seen_in=one.seen_in,
                stops_the_server=one.stops_the_server,
                read=one.source.read.isoformat(),
            )
            for one in plan.open_faults
        ],
        origins={path: origin.value for path, origin in plan.origins.items()},
        settings=setting_values(plan.settings),
    )


def setting_values(settings: BaseModel, prefix: str = "") -> dict[str, Any]:
    """Return every setting by its dotted path, as JSON data, defaults included; null where the planner or vLLM chooses."""
    values: dict[str, Any] = {}
    for name, declared in type(settings).model_fields.items():
        path, value = prefix + (declared.alias or name), getattr(settings, name)
        if isinstance(value, BaseModel):
            values |= setting_values(value, f"{path}.")
        else:
            values[path] = list(value) if isinstance(value, tuple) else value
    return values


def _memory(plan: Plan) -> form.MemoryData:
    memory = plan.memory
    peak, programs = memory.construction_peak, memory.programs
    return form.MemoryData(
        device_bytes=round(memory.device_bytes),
        cap_bytes=round(memory.cap_bytes),
        weights_bytes=_whole(memory.weights),
        assistant_bytes=round(memory.assistant_bytes),
        adapter_bytes=round(memory.adapter_bytes),
        offloaded_bytes=round(memory.offloaded_bytes),
        overhead_bytes=_whole(memory.overhead),
        kv_bytes_per_device=_whole(memory.kv),
        construction_peak_bytes=None if peak is None else _whole(peak),
        program_bytes=None if programs is None else _whole(programs),
        host_bytes=_whole(memory.host),
        error_origin=memory.error_origin,
    )


def _capacity(plan: Plan) -> form.CapacityData:
    capacity, refused = plan.capacity, plan.refused
    return form.CapacityData(
        predicted=True,
        tokens=None if refused else capacity.tokens,
        tokens_band=None if refused else _whole(plan.kv_tokens),
        concurrency_at_max_model_len=None if refused else exact(capacity.concurrency),
        concurrency_at_max_model_len_band=None if refused else _band(plan.concurrency_band),
        requests_of_workload=None if refused else plan.requests_held,
        requests_of_workload_band=None if refused else _whole(plan.requests_held_band),
        max_model_len=plan.server.max_model_len,
        largest_max_model_len=capacity.largest_max_model_len,
        largest_max_model_len_band=_whole(plan.largest_max_model_len),
        max_num_seqs=plan.server.max_num_seqs,
        max_num_batched_tokens=plan.server.max_num_batched_tokens,
        kv_cache_dtype=plan.server.kv_cache_dtype,
    )


def _speed(plan: Plan) -> form.SpeedData:
    speed, refused = plan.speed, plan.refused
    return form.SpeedData(
        predicted=True,
        prompt_tokens=speed.prompt_tokens,
        output_tokens=speed.output_tokens,
        alone=None if refused else _rate(speed.alone),
        planned=None if refused else _rate(speed.planned),
        all_servers=None if refused else _rate(plan.speed_of_all),
        ttft_s=None if refused else _band(speed.ttft_s),
        speculation_gain=None if refused else _band(speed.speculation_gain),
        sources=list(speed.sources),
    )


def _rate(rate: Rate) -> form.RateData:
    return form.RateData(
        requests=rate.requests,
        tokens_per_second=_band(rate.total),
        tokens_per_second_each=_band(rate.per_stream),
        with_new_prompts=_band(rate.with_new_prompts),
        bound=rate.bound,
    )


def _startup(plan: Plan) -> form.StartupData:
    startup = plan.startup
    return form.StartupData(
        predicted=True,
        from_zero_s=_band(startup.from_zero),
        first_deploy_s=_band(startup.first_deploy),
        restart_s=_band(startup.restart),
        stages=[
            form.StageData(name=stage.name, seconds=_band(stage.seconds), repeats=stage.repeats)
            for stage in startup.stages
        ],
        ready_timeout_s=plan.ready_timeout_s,
        source=startup.source,
    )


def _probes(plan: Plan) -> form.ProbesData:
    probe = plan.deployment.startup_probe
    if probe is None:
        return form.ProbesData(startup=None)
    return form.ProbesData(
        startup=form.StartupProbeData(
            path=probe.path,
            initial_delay_seconds=probe.initial_delay_s,
            period_seconds=probe.period_s,
            timeout_seconds=probe.timeout_s,
            failure_threshold=probe.failure_threshold,
            window_s=probe.window_s,
        )
    )


def _quota(need: QuotaNeed) -> form.QuotaData:
    return form.QuotaData(
        name=need.quota.id,
        service=need.quota.service,
        place=need.place,
        needed=need.amount,
        unit=need.quota.unit,
        needed_in_quota_units=need.value,
        usual=need.quota.default,
        source=need.quota.source.where,
        read=need.quota.source.read.isoformat(),
    )


def _cost(plan: Plan) -> form.CostData:
    cost, refused = plan.cost, plan.refused
    least, most, hour = plan.deployment.always_running, cost.replicas, cost.usd_per_hour
    idle, busy = plan.usd_per_month
    return form.CostData(
        usd_per_hour=exact(cost.usd_per_hour),
        replicas=cost.replicas,
        usd_per_hour_at_most=exact(cost.usd_per_hour_at_most),
        usd_per_month_idle=exact(cost.usd_per_month_idle),
        usd_per_run=None if cost.usd_per_run is None else exact(cost.usd_per_run),
        usd_staging=exact(cost.usd_staging),
        usd_staging_band=_band(cost.usd_staging_band),
        usd_per_million_output_tokens=form.TokenPriceData(
            predicted=True,
            alone=None if refused else _band(cost.usd_per_million_alone),
            planned=None if refused else _band(cost.usd_per_million_planned),
            planned_with_new_prompts=None if refused else _band(cost.usd_per_million_new_prompts),
            planned_requests=None if refused else cost.planned_requests,
            at_loads=None
            if refused
            else [form.LoadPriceData(requests=one.requests, usd=_band(one.usd_per_million)) for one in cost.at_loads],
        ),
        lines=form.PriceLinesData(
            hour=[_line(item) for item in cost.replica_hour],
            idle_month=[_line(item) for item in cost.idle_month],
            staging=[_line(item) for item in cost.staging],
        ),
        notes=list(cost.notes),
        whole_stack=form.WholeStackData(
            replicas=form.SpanData(least=least, most=most),
            usd_per_hour=form.SpanData(least=exact(hour * least), most=exact(hour * most)),
            usd_per_month=form.SpanData(least=exact(idle), most=exact(busy)),
        ),
    )


def _line(item: LineItem) -> form.PriceLineData:
    return form.PriceLineData(
        label=item.label,
        quantity=exact(item.quantity),
        unit=item.price.unit.value,
        usd_per_unit=item.price.usd,
        usd=exact(item.usd),
        source=item.price.source.where,
        read=item.price.source.read.isoformat(),
    )


def _resource(row: ResourceRow) -> form.ResourceData:
    return form.ResourceData(
        type=row.type, name=row.name, component=row.component, inputs=dict(row.inputs), options=dict(row.options)
    )


def _fault(fault: Fault) -> form.FaultData:
    return form.FaultData(key=fault.key, fact=fault.fact, consequence=fault.consequence, fix=fault.fix)


def _whole(band: Band) -> form.BandData:
    return form.BandData(low=round(band.low), mid=round(band.mid), high=round(band.high))


def _band(band: Band) -> form.BandData:
    return form.BandData(low=exact(band.low), mid=exact(band.mid), high=exact(band.high))
