"""Makes the Plan: resolves settings, fixes what the engine uses, predicts, prices and judges. Pure: no cloud, no Pulumi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from infra.catalog import Accelerator, Architecture, Assistant, Catalog, Model, Platform, catalog
from infra.errors import Fault, SettingsError
from infra.planning.artifacts import images_of, unpinned, weights_of
from infra.planning.checks.combination import check_combination, check_idle_devices
from infra.planning.checks.ignored import profile_without_effect, without_effect
from infra.planning.checks.notes import (
    access_notes,
    crowding,
    driver_note,
    idle_note,
    kv_dtype_note,
    region_note,
    spot_note,
    template_note,
    unseen_image_note,
    vision_note,
)
from infra.planning.checks.reading_pace import check_pace
from infra.planning.checks.serving_image import check_image, counted_version, image_note
from infra.planning.checks.setting_values import bad_settings
from infra.planning.checks.tpu_slices import check_slices
from infra.planning.cost.estimate import CostEstimate
from infra.planning.cost.of_plan import cost_of, rental_of
from infra.planning.memory.budget import ServerShape, capacity_of, device_budget, largest_max_num_seqs
from infra.planning.memory.kv_cache import tensor_parallel_fault
from infra.planning.memory.verdict import judge
from infra.planning.names import names_of, region_of
from infra.planning.performance.speed import Knee, SpeedEstimate, SpeedModel
from infra.planning.performance.startup import StartupEstimate
from infra.planning.plan import Instance, Plan, QuotaNeed
from infra.planning.platforms.quotas import check_quotas, quota_needs, update_note
from infra.planning.platforms.startup_probe import (
    StartupProbePlan,
    check_probe,
    check_request_timeout,
    choose_probe,
    deploy_timeout_s,
    ready_timeout_s,
)
from infra.planning.platforms.tpu_slices import plan_slices
from infra.planning.server.command import (
    MOUNT,
    TPU_WEIGHTS,
    Engine,
    command_of,
    default_batched_tokens,
    effective_async,
)
from infra.planning.server.shapes import server_shape, speed_model, startup_of
from infra.planning.settings.declarations import MOST_SEQS, Profile, Settings
from infra.planning.settings.messages import Findings
from infra.planning.settings.resolve import Origin, Resolved, resolve
from infra.planning.units import Band, parse_duration

_MOST_CONCURRENCY = 1000


def make_plan(
    stack: str,
    stack_file: Mapping[str, Any],
    command_line: Mapping[str, Any] | None = None,
    *,
    project: str | None = None,
    facts: Catalog | None = None,
) -> Plan:
    """Decide everything about a stack from its settings (nested, `gemma4:` removed) and command-line values (dotted).

    Raises SettingsError for what cannot be read. What cannot work is planned all the same: see `Plan.refusals`.
    """
    facts = facts or catalog()
    resolved = resolve(stack_file, command_line, facts=facts)
    faults = bad_settings(stack, resolved.settings)
    faults += _parallelism_fault(resolved.settings, facts)
    if faults:
        raise SettingsError(faults)
    return _Planner(stack, resolved, project, facts, (stack_file, command_line or {})).plan()


def _parallelism_fault(settings: Settings, facts: Catalog) -> list[Fault]:
    """Why no machine could share the model so; without it the plan has no memory to speak of."""
    parallel = settings.serving.tensor_parallel_size
    devices = facts.accelerator(settings.accelerator).devices
    if parallel is None:
        return []
    fault = tensor_parallel_fault(facts.architecture_of(settings.model), parallel, most=devices)
    return [fault] if fault else []


def own_labels(stack: str, settings: Settings) -> dict[str, str]:
    """The user's labels and ours, ours last: by them a stack finds again what it pays for."""
    return {**settings.labels, "app": "gemma4", "stack": stack, "managed-by": "pulumi"}


class _Planner:
    """One planning run: what is fixed by the settings alone, then the decisions in the order they depend on each other."""

    def __init__(
        self,
        stack: str,
        resolved: Resolved,
        project: str | None,
        facts: Catalog,
        written: tuple[Mapping[str, Any], Mapping[str, Any]],
    ) -> None:
        self.stack, self.project, self.facts, self.written = stack, project, facts, written
        self.resolved, self.settings = resolved, resolved.settings
        self.model: Model = facts.model(self.settings.model)
        self.architecture: Architecture = facts.architecture_of(self.model.id)
        self.accelerator: Accelerator = facts.accelerator(self.settings.accelerator)
        self.assistant: Assistant | None = facts.assistant_of(self.model.id)
        self.slices = plan_slices(self.settings, self.accelerator)
        self.on_tpu = self.slices is not None
        self.region = self._region()
        self.names = names_of(stack, project, self.settings.weights.bucket)
        self.images = images_of(self.settings, self.accelerator, self.names, self.region, facts)
        self.weights = weights_of(self.settings, self.model, self.assistant, facts)
        self.origins = dict(resolved.origins)
        self.notes: list[str] = []

    def plan(self) -> Plan:
        """Everything decided, with refusals, warnings and notes gathered on the way."""
        engine = self._chosen_engine()
        startup = startup_of(self.settings, self.architecture, self.accelerator, self.weights)
        probe, probe_findings = self._probe(startup)
        model = self._speed_model(engine)
        shape = self._shape(engine)
        budget = device_budget(shape)
        capacity = capacity_of(shape, budget.kv_bytes_per_device)
        ends = [capacity_of(shape, size) for size in (budget.kv.low, budget.kv.mid, budget.kv.high)]
        held = capacity.requests_held(self._workload_tokens)
        instance = self._instance(engine)
        speed = model.estimate(max(1, min(engine.max_num_seqs, held, self._reaching(instance))))
        judged = judge(shape, paid_minutes=startup.from_zero.mid / 60, as_planned=self._shape_with)
        quotas = self._quotas(instance)
        cost = self._cost(speed, instance)
        findings = (
            self._combination(engine)
            + Findings(judged.refusals, judged.warnings)
            + probe_findings
            + self._platform(startup, engine)
            + self._request_timeout(speed)
            + Findings(warnings=tuple(check_idle_devices(self.settings, self.accelerator, cost.usd_per_hour)))
            + Findings(warnings=tuple(check_quotas(quotas, self.accelerator, instance)))
        )
        if not findings.refusals:
            findings += self._crowding(engine, held, speed)
            findings += Findings(warnings=tuple(check_pace(model, speed.planned, shape)))
        self._tell(engine, model)
        plain = capacity_of(replace(shape, kv_cache_dtype="auto"), budget.kv_bytes_per_device)
        self.notes += kv_dtype_note(engine, capacity.tokens, plain.tokens)
        self.notes += update_note(quotas) if instance else ()
        return Plan(
            stack=self.stack,
            settings=self.settings,
            origins=self.origins,
            recipes=self.resolved.recipes,
            model=self.model,
            architecture=self.architecture,
            accelerator=self.accelerator,
            project=self.project,
            region=self.region,
            slices=self.slices,
            names=self.names,
            labels=own_labels(self.stack, self.settings),
            images=self.images,
            weights=self.weights,
            engine=engine,
            command=self._command(engine),
            memory=budget,
            capacity=capacity,
            requests_held=held,
            kv_tokens=Band(*(one.tokens for one in ends)),
            largest_max_model_len=Band(*(one.largest_max_model_len for one in ends)),
            speed=speed,
            speed_model=model,
            startup=startup,
            probe=probe,
            instance=instance,
            quotas=quotas,
            cost=cost,
            ready_timeout_s=self._ready_timeout_s(startup),
            deploy_timeout_s=deploy_timeout_s(probe, startup) if probe else self._ready_timeout_s(startup),
            fits=judged.verdict,
            refusals=findings.refusals,
            warnings=findings.warnings,
            notes=(*self.notes, *speed.notes, *startup.notes),
        )

    def _region(self) -> str:
        if self.settings.region:
            return self.settings.region
        if self.slices is not None:
            return self.slices.region
        location = self.accelerator.locations[0]
        return region_of(location) if self.accelerator.platform is not Platform.CLOUD_RUN else location

    def _shape_with(self, settings: Mapping[str, object]) -> ServerShape | None:
        """The server that this stack would get with further settings; None where they cannot be read."""
        stack_file, command_line = self.written
        try:
            resolved = resolve(stack_file, {**command_line, **settings}, facts=self.facts)
            other = _Planner(self.stack, resolved, self.project, self.facts, self.written)
            return other._shape(other._chosen_engine())
        except SettingsError:
            return None

    def _chosen_engine(self) -> Engine:
        return self._with_max_num_seqs(self._engine(max_num_seqs=self.settings.serving.max_num_seqs or 1))

    def _engine(self, max_num_seqs: int) -> Engine:
        serving = self.settings.serving
        speculation = serving.speculation
        tokens = {"none": 0, "ngram": 3, "mtp": self.assistant.speculative_tokens if self.assistant else 4}[
            speculation.method
        ]
        return Engine(
            vllm_version=counted_version(self._image_version),
            image_version=self._image_version,
            backend=self.accelerator.backend,
            tensor_parallel=serving.tensor_parallel_size or self.accelerator.devices,
            max_model_len=serving.max_model_len,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=default_batched_tokens(self.settings, self.accelerator),
            async_scheduling=effective_async(self.settings, self.accelerator.backend),
            kv_cache_dtype=serving.kv_cache_dtype,
            speculation=speculation.method,
            speculative_tokens=speculation.tokens or tokens,
        )

    @property
    def _image_version(self) -> str | None:
        return self.images["serving"].vllm_version

    def _with_max_num_seqs(self, engine: Engine) -> Engine:
        """The engine with the planner's own maxNumSeqs where nobody set one: the knee of the profile."""
        if self.settings.serving.max_num_seqs is not None:
            return engine
        knee = self._knee(engine).max_num_seqs
        self.origins["serving.maxNumSeqs"] = Origin.PLANNER
        return replace(engine, max_num_seqs=knee)

    def _knee(self, engine: Engine, profile: Profile | None = None) -> Knee:
        """The best maxNumSeqs of `profile`, or of the stack's own."""
        held = largest_max_num_seqs(self._shape(engine), self._workload_tokens)
        return self._speed_model(engine).recommend_max_num_seqs(profile or self.settings.profile, kv_requests=held)

    def _shape(self, engine: Engine) -> ServerShape:
        return server_shape(self.settings, self.model, self.accelerator, engine)

    @property
    def _workload_tokens(self) -> int:
        workload = self.settings.workload
        return min(workload.prompt_tokens + workload.output_tokens, self.settings.serving.max_model_len)

    def _speed_model(self, engine: Engine) -> SpeedModel:
        return speed_model(self.settings, self.model, self.architecture, self.accelerator, engine)

    def _probe(self, startup: StartupEstimate) -> tuple[StartupProbePlan | None, Findings]:
        if self.accelerator.platform is not Platform.CLOUD_RUN:
            return None, Findings()
        chosen = self.settings.probes.startup
        probe = choose_probe(
            startup,
            initial_delay_s=chosen.initial_delay_seconds,
            period_s=chosen.period_seconds,
            timeout_s=chosen.timeout_seconds,
            failure_threshold=chosen.failure_threshold,
        )
        return probe, check_probe(probe, startup)

    def _platform(self, startup: StartupEstimate, engine: Engine) -> Findings:
        origins = self.resolved.origins
        idle = Findings(
            warnings=(
                *without_effect(self.settings, self.accelerator, origins),
                *profile_without_effect(self.settings, origins, lambda profile: self._knee(engine, profile)),
            )
        )
        if self.slices is None:
            return idle
        return check_slices(self.settings, self.slices, startup, origins, engine.max_num_seqs) + idle

    def _request_timeout(self, speed: SpeedEstimate) -> Findings:
        if self.accelerator.platform is Platform.COMPUTE_ENGINE:
            return Findings()
        longest = self.settings.workload.output_tokens / speed.planned.per_stream.mid
        return check_request_timeout(parse_duration(self.settings.scaling.request_timeout), longest_answer_s=longest)

    def _reaching(self, instance: Instance | None) -> int:
        """Requests that are let through to one server at once."""
        if instance is not None:
            return instance.concurrency
        if self.slices is not None:
            return self.slices.gateway.in_flight_limit // len(self.slices.names)
        return MOST_SEQS

    def _crowding(self, engine: Engine, held: int, speed: SpeedEstimate) -> Findings:
        if not 0 < held < engine.max_num_seqs:
            return Findings()
        most = largest_max_num_seqs(self._shape(engine), self._workload_tokens)
        return Findings(warnings=(crowding(engine, held, self._workload_tokens, most, speed),))

    def _combination(self, engine: Engine) -> Findings:
        found = check_combination(
            self.settings,
            self.model,
            self.architecture,
            self.assistant,
            self.accelerator,
            vllm_version=self._image_version,
            location=self._location,
        )
        return found + check_image(self.settings, self.accelerator) + self._pinning()

    @property
    def _location(self) -> str:
        """Where the devices are: a zone, or a region where the platform chooses the zone."""
        if self.slices is not None:
            return self.slices.zone
        return self.region if self.accelerator.platform is Platform.CLOUD_RUN else self.accelerator.locations[0]

    def _pinning(self) -> Findings:
        what = ", ".join(unpinned(self.images, self.weights))
        if not what:
            return Findings()
        if not self.settings.images.require_pinned:
            self.notes.append(
                f"Not pinned: {what}. The same plan may deploy something else tomorrow; `gemma4 pin` fixes them."
            )
            return Findings()
        fact = f"is set, and these are not pinned: {what}."
        fix = "Run gemma4 pin online and commit the lock file, or take images.requirePinned out."
        return Findings((Fault("images.requirePinned", fact, "What is deployed could change unseen.", fix),))

    def _command(self, engine: Engine) -> Any:
        folder = TPU_WEIGHTS if self.on_tpu else MOUNT
        if self.settings.weights.access == "stream" and not self.on_tpu:
            folder = f"gs://{self.names.bucket}"
        from_hub = self.settings.weights.source == "huggingface"
        paths = [weights.hub_id if from_hub else f"{folder}/{weights.prefix}" for weights in self.weights]
        return command_of(
            self.settings,
            engine,
            self.model,
            self.accelerator,
            weights_path=paths[0],
            assistant_path=paths[1] if len(paths) > 1 else None,
            image=self.images["serving"].upstream,
            revision=self.weights[0].revision,
            assistant_revision=self.weights[1].revision if len(paths) > 1 else None,
        )

    def _instance(self, engine: Engine) -> Instance | None:
        limits, scaling = self.accelerator.cloud_run, self.settings.scaling
        if limits is None:
            return None
        concurrency = scaling.concurrency
        if concurrency is None:
            concurrency = min(_MOST_CONCURRENCY, 2 * engine.max_num_seqs)
            self.origins["scaling.concurrency"] = Origin.PLANNER
        return Instance(
            cpu=scaling.cpu or limits.default_cpu,
            memory_gib=scaling.memory_gib or limits.default_memory_gib,
            concurrency=concurrency,
            min_instances=scaling.min_instances,
            max_instances=scaling.max_instances,
            request_timeout_s=parse_duration(scaling.request_timeout),
        )

    def _quotas(self, instance: Instance | None) -> tuple[QuotaNeed, ...]:
        redundant = self.settings.scaling.zonal_redundancy
        return quota_needs(
            self.facts,
            self.accelerator,
            region=self.region,
            instance=instance,
            slices=self.slices,
            zonal_redundancy=redundant,
        )

    def _cost(self, speed: SpeedEstimate, instance: Instance | None) -> CostEstimate:
        rental = rental_of(
            self.settings,
            self.accelerator,
            region=self.region,
            location=self._location,
            instance=instance,
            slices=self.slices,
        )
        return cost_of(self.facts, self.settings, rental, region=self.region, weights=self.weights, speed=speed)

    def _ready_timeout_s(self, startup: StartupEstimate) -> int:
        chosen = self.settings.serving.ready_timeout
        return parse_duration(chosen) if chosen else ready_timeout_s(startup)

    def _tell(self, engine: Engine, speed: SpeedModel) -> None:
        if self.settings.serving.max_num_seqs is not None:
            origin = self.origins["serving.maxNumSeqs"]
            self.notes += idle_note(engine, self._knee(engine).max_num_seqs, speed, origin)
        if self.slices is not None:
            self.notes += region_note(self.settings, self.region)
            self.notes += spot_note(self.settings)
            self.notes += unseen_image_note(self.settings, self.images["serving"])
        self.notes += image_note(self.settings, self.accelerator, self.names)
        self.notes += driver_note(self.accelerator)
        self.notes += template_note(self.settings, self.accelerator)
        self.notes += vision_note(self.settings)
        self.notes += access_notes(self.settings, self.model) if self.accelerator.deployable else ()
