"""Makes the Plan: resolves settings, fixes what the engine uses, predicts, prices and judges. Pure: no cloud, no Pulumi."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from infra.catalog import Accelerator, Assistant, Catalog, Model, Profile, catalog
from infra.catalog.checkpoint_lock import Checkpoints
from infra.errors import Fault, Findings, SettingsError
from infra.planning.artifacts import RepositoryPlan, StagingPlan, adapters_of, images_of, unpinned, weights_of
from infra.planning.checkpoint import check_format, check_towers, checkpoint_notes, served_checkpoint
from infra.planning.checks.adapter_checks import adapter_notes, check_adapters
from infra.planning.checks.combination import check_combination, check_idle_devices
from infra.planning.checks.ignored import profile_without_effect, without_effect
from infra.planning.checks.notes import (
    access_notes,
    cold_start_note,
    crowding,
    decoder_note,
    evaluation_note,
    idle_note,
    kv_dtype_note,
    paused_note,
    template_note,
    vision_note,
)
from infra.planning.checks.open_faults import met_by, open_faults_note, stopping_faults
from infra.planning.checks.pins import check_pins, pins_note
from infra.planning.checks.reading_pace import check_pace
from infra.planning.checks.serving_image import check_image, counted_version, image_note
from infra.planning.checks.setting_values import bad_settings
from infra.planning.cost.estimate import LOADS, CostEstimate, Kept, StagingJob, estimate_cost
from infra.planning.memory.budget import MemoryBudget, capacity_of, device_budget, largest_max_num_seqs
from infra.planning.memory.kv_cache import KvCapacity, tensor_parallel_fault
from infra.planning.memory.verdict import judge
from infra.planning.names import names_of
from infra.planning.performance.speed import Knee, Rate, SpeedEstimate, SpeedModel
from infra.planning.performance.startup import IMAGE_BYTES, estimate_staging
from infra.planning.plan import Plan
from infra.planning.platforms.base import Deployment, Draft
from infra.planning.platforms.registry import platform_of
from infra.planning.server.command import Command, command_of
from infra.planning.server.server import Server, server_of
from infra.planning.settings.declarations import Settings
from infra.planning.settings.resolve import Origin, Resolved, resolve, without_quantizing
from infra.planning.units import Band, parse_duration


def make_plan(
    stack: str,
    stack_file: Mapping[str, Any],
    command_line: Mapping[str, Any] | None = None,
    *,
    project: str | None = None,
    facts: Catalog | None = None,
    checkpoints: Checkpoints | None = None,
    advise: bool = True,
) -> Plan:
    """Decide everything about a stack from its settings (nested, `gemma4:` removed) and command-line values (dotted).

    `checkpoints` are those that were pinned beside the stack files. Without `advise` a refusal does not say what would fit
    instead: who searches over many plans has no use for it.
    Raises SettingsError for what cannot be read. What cannot work is planned all the same: see `Plan.refusals`.
    """
    facts = facts or catalog()
    resolved = resolve(stack_file, command_line, facts=facts)
    settings, parallel = resolved.settings, resolved.settings.serving.tensor_parallel_size
    faults = bad_settings(stack, settings)
    if parallel is not None:  # without a way to share the model, the plan would have no memory to speak of
        devices = facts.accelerator(settings.accelerator).devices
        fault = tensor_parallel_fault(facts.architecture_of(settings.model), parallel, most=devices)
        faults += [fault] if fault else []
    if faults:
        raise SettingsError(faults)
    run = _PlanningRun(stack, resolved, project, facts, checkpoints or {}, (stack_file, command_line or {}))
    return run.plan(advise=advise)


def own_labels(stack: str, settings: Settings) -> dict[str, str]:
    """Return the user's labels and those by which commands find a stack's resources; the latter win."""
    return {**settings.labels, "app": "gemma4", "stack": stack, "managed-by": "pulumi"}


class _PlanningRun:
    """What the settings alone fix, then the decisions in the order in which they depend on each other."""

    def __init__(
        self,
        stack: str,
        resolved: Resolved,
        project: str | None,
        facts: Catalog,
        checkpoints: Checkpoints,
        written: tuple[Mapping[str, Any], Mapping[str, Any]],
    ) -> None:
        self.stack, self.project, self.facts, self.written = stack, project, facts, written
        self.checkpoints, self.checkpoint = checkpoints, served_checkpoint(resolved.settings, facts, checkpoints)
        self.model: Model = self.checkpoint.model
        self.resolved = without_quantizing(resolved) if self._quantized else resolved
        self.settings = self.resolved.settings
        self.accelerator: Accelerator = facts.accelerator(self.settings.accelerator)
        self.assistant: Assistant | None = facts.assistant_of(self.model.id)
        self.platform = platform_of(self.accelerator)
        self.place = self.platform.place(self.settings, self.accelerator)
        self.names = names_of(stack, project, self.settings.weights.bucket)
        self.images = images_of(
            self.settings, self.accelerator, self.names, self.place.region, facts, self.platform.images
        )
        self.weights = weights_of(self.settings, self.checkpoint, self.assistant, facts)
        self.adapters = adapters_of(self.settings)
        self.staging = StagingPlan() if self.settings.weights.staged else None
        workload = self.settings.workload
        self.workload_tokens = min(workload.prompt_tokens + workload.output_tokens, self.settings.serving.max_model_len)

    def plan(self, *, advise: bool) -> Plan:
        """Return everything decided, with refusals, warnings and notes."""
        settings, server = self.settings, self.server()
        model = self._speed_model(server)
        startup = self.platform.startup(settings, server, self._weight_bytes)
        memory = device_budget(server)
        ends = [capacity_of(server, size) for size in (memory.kv.low, memory.kv.mid, memory.kv.high)]
        capacity, limits = ends[1], memory.kv_limits
        longest = Band(
            *(capacity_of(server, end).largest_max_model_len for end in (limits.low, limits.mid, limits.high))
        )
        held = capacity.requests_held(self.workload_tokens)
        deployment: Deployment = self.platform.deployment(
            settings, self.accelerator, self.place, max_num_seqs=server.max_num_seqs, startup=startup
        )
        speed = model.estimate(max(1, min(server.max_num_seqs, held, deployment.requests_each)))
        loads = [model.tokens_per_second_at(number) for number in LOADS if number <= speed.planned.requests]
        cost = self._cost(speed, deployment, loads)
        quotas = tuple(deployment.quotas(self.facts))
        draft = Draft(
            settings=settings,
            origins=self.resolved.origins,
            accelerator=self.accelerator,
            place=self.place,
            server=server,
            startup=startup,
            images=self.images,
            quotas=quotas,
            longest_answer_s=speed.planned.per_stream.dividing(settings.workload.output_tokens),
        )
        judged = judge(server, start_s=startup.from_zero, as_planned=self._server_with, advise=advise)
        findings = self._findings(draft, deployment, cost) + Findings(
            tuple(map(self._of_checkpoint, judged.refusals)), judged.warnings
        )
        if not findings.refusals:  # else nothing of it would be created
            findings += self._slow_or_crowded(server, model, speed, held)
        ready_timeout = settings.serving.ready_timeout
        ready_timeout_s = parse_duration(ready_timeout) if ready_timeout else startup.ready_timeout_s
        return Plan(
            stack=self.stack,
            settings=settings,
            origins=self._origins(),
            recipes=self.resolved.recipes,
            model=self.model,
            architecture=server.architecture,
            accelerator=self.accelerator,
            project=self.project,
            platform=self.platform,
            place=self.place,
            deployment=deployment,
            names=self.names,
            labels=own_labels(self.stack, settings),
            images=self.images,
            weights=self.weights,
            adapters=self.adapters,
            staging=self.staging,
            repository=RepositoryPlan(),
            server=server,
            open_faults=met_by(settings, server, self.facts),
            command=self._command(server),
            memory=memory,
            capacity=capacity,
            requests_held=held,
            kv_tokens=Band(*(one.tokens for one in ends)),
            requests_held_band=Band(*(one.requests_held(self.workload_tokens) for one in ends)),
            concurrency_band=Band(*(one.concurrency for one in ends)),
            largest_max_model_len=longest,
            speed=speed,
            speed_model=model,
            startup=startup,
            quotas=quotas,
            cost=cost,
            ready_timeout_s=ready_timeout_s,
            deploy_timeout_s=deployment.deploy_timeout_s(startup, ready_timeout_s),
            fits=judged.verdict,
            refusals=findings.refusals,
            warnings=findings.warnings,
            notes=(*self._notes(draft, deployment, model, memory, capacity), *speed.notes, *startup.notes),
        )

    def server(self) -> Server:
        """Return the server, with the knee of the profile for a maxNumSeqs that nobody set."""
        version = self.images["serving"].vllm_version
        server = server_of(
            self.settings,
            self.model,
            self.accelerator,
            self.assistant,
            self.platform.hosting(self.settings, self.accelerator, self.names),
            vllm_version=counted_version(version),
            image_version=version,
        )
        if self.settings.serving.max_num_seqs is not None:
            return server
        return replace(server, max_num_seqs=self._knee(server).max_num_seqs)

    def _server_with(self, settings: Mapping[str, object]) -> Server | None:
        """Return the server that this stack would get with further settings; None where they cannot be read."""
        stack_file, command_line = self.written
        try:
            resolved = resolve(stack_file, {**command_line, **settings}, facts=self.facts)
            other = _PlanningRun(self.stack, resolved, self.project, self.facts, self.checkpoints, self.written)
            return None if other.checkpoint.faults else other.server()
        except SettingsError:
            return None

    def _origins(self) -> Mapping[str, Origin]:
        """Return where every value of the settings comes from, those included that were chosen here."""
        chosen = [*self.platform.chosen_settings(self.settings)]
        if self.settings.serving.max_num_seqs is None:
            chosen.append("serving.maxNumSeqs")
        return {**self.resolved.origins, **dict.fromkeys(chosen, Origin.PLANNER)}

    def _knee(self, server: Server, profile: Profile | None = None) -> Knee:
        """Return the best maxNumSeqs of `profile`, or of the stack's own."""
        held = largest_max_num_seqs(server, self.workload_tokens)
        return self._speed_model(server).recommend_max_num_seqs(profile or self.settings.profile, kv_requests=held)

    def _speed_model(self, server: Server) -> SpeedModel:
        return SpeedModel(server, self.settings.workload.prompt_tokens, self.settings.workload.output_tokens)

    def _of_checkpoint(self, fault: Fault) -> Fault:
        """Return what is wrong with the model as a fault of the checkpoint, where another one than the model's is served."""
        if fault.key != "model" or self.settings.checkpoint is None:
            return fault
        return replace(fault, key="checkpoint", fix=f"Take it out, or replace it. {fault.fix}")

    @property
    def _quantized(self) -> bool:
        return self.facts.weight_formats[self.model.weight_format].quantized

    @property
    def _weight_bytes(self) -> int:
        return sum(one.size_bytes for one in self.weights)

    def _command(self, server: Server) -> Command:
        folder, from_hub = server.hosting.weights_folder, self.settings.weights.from_hub
        adapters = {one.name: one.source if from_hub else f"{folder}/{one.prefix}" for one in self.adapters}
        paths = [weights.hub_id if from_hub else f"{folder}/{weights.prefix}" for weights in self.weights]
        return command_of(
            self.settings,
            server,
            weights_path=paths[0],
            assistant_path=paths[1] if len(paths) > 1 else None,
            image=self.images["serving"].upstream,
            revision=self.weights[0].revision,
            assistant_revision=self.weights[1].revision if len(paths) > 1 else None,
            adapter_paths=adapters,
        )

    def _cost(self, speed: SpeedEstimate, deployment: Deployment, loads: Iterable[Rate]) -> CostEstimate:
        """Price what is deployed, and what is kept in the region: bucket, images, token, and the one-time copy."""
        region, job, seconds = self.place.region, self.staging, estimate_staging(self._weight_bytes)
        kept = Kept(
            region=region,
            bucket_bytes=self._weight_bytes if job else 0,
            image_bytes=IMAGE_BYTES,
            secret_versions=1 if self.settings.hf_token else 0,
        )
        staging = StagingJob(region, seconds, job.cpu, job.memory_gib) if job else None
        return estimate_cost(
            self.facts, deployment, kept=kept, alone=speed.alone, planned=speed.planned, loads=loads, staging=staging
        )

    def _findings(self, draft: Draft, deployment: Deployment, cost: CostEstimate) -> Findings:
        """Return what is wrong with place, deployment, combination and image, and what does nothing or costs in vain."""
        settings, server = self.settings, draft.server
        met = met_by(settings, server, self.facts)
        in_vain = (
            *without_effect(settings, self.platform, self.accelerator, draft.origins),
            *profile_without_effect(settings, draft.origins, lambda profile: self._knee(server, profile)),
            *(() if self.platform.fills_machine else check_idle_devices(settings, self.accelerator, cost.usd_per_hour)),
        )
        return (
            self.platform.check_place(settings, self.accelerator, self.place)
            + self.platform.findings(draft, deployment)
            + check_combination(settings, server, self.assistant, without_metrics=self.platform.without_metrics)
            + check_adapters(settings, server, self.adapters)
            + Findings(
                (
                    *self.checkpoint.faults,
                    *check_format(self.model, self.accelerator, self.facts),
                    *check_towers(settings, self.model, server.architecture),
                )
            )
            + check_image(settings, self.accelerator)
            + check_pins(settings, unpinned(self.images, self.weights, self.adapters))
            + Findings(warnings=(*stopping_faults(met), *in_vain))
        )

    def _slow_or_crowded(self, server: Server, model: SpeedModel, speed: SpeedEstimate, held: int) -> Findings:
        """Return warnings of a server that runs more requests than it holds, or streams slower than people read."""
        warnings = list(check_pace(model, speed.planned, server))
        if 0 < held < server.max_num_seqs:
            most = largest_max_num_seqs(server, self.workload_tokens)
            warnings.insert(0, crowding(server, held, self.workload_tokens, most, speed))
        return Findings(warnings=tuple(warnings))

    def _notes(
        self, draft: Draft, deployment: Deployment, model: SpeedModel, memory: MemoryBudget, capacity: KvCapacity
    ) -> Iterator[str]:
        """Yield what a reader should know beside the numbers."""
        settings, server = self.settings, draft.server
        yield from pins_note(settings, unpinned(self.images, self.weights, self.adapters))
        if settings.serving.max_num_seqs is not None:
            origin = draft.origins["serving.maxNumSeqs"]
            yield from idle_note(server, self._knee(server).max_num_seqs, model, origin)
        yield from self.platform.notes(draft, deployment)
        yield from image_note(settings, self.names, self.platform.image_puller(self.names))
        yield from self.accelerator.notes
        yield from template_note(settings, self.accelerator)
        yield from vision_note(settings)
        yield from adapter_notes(settings, server)
        drafter = self.assistant if settings.serving.speculation.method == "mtp" else None
        yield from checkpoint_notes(self.model, self.accelerator, drafter, self.facts)
        yield from open_faults_note(met_by(settings, server, self.facts))
        yield from paused_note(self.stack, paused=self.platform.paused(settings))
        yield from evaluation_note(settings, server)
        yield from access_notes(settings, self.model) if self.accelerator.deployable else ()
        plain = capacity_of(replace(server, kv_cache_dtype="auto"), memory.kv_bytes_per_device)
        yield from cold_start_note(server, memory.kv.mid)
        yield from decoder_note(server)
        yield from kv_dtype_note(server, capacity.tokens, plain.tokens)
