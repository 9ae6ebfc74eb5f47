"""Makes the Plan: resolves settings, fixes what the engine uses, predicts, prices and judges. Pure: no cloud, no Pulumi."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from infra.catalog import Accelerator, Architecture, Assistant, Catalog, Model, Profile, catalog
from infra.errors import Fault, Findings, SettingsError
from infra.planning.artifacts import RepositoryPlan, StagingPlan, images_of, unpinned, weights_of
from infra.planning.checks.combination import check_combination, check_idle_devices
from infra.planning.checks.ignored import profile_without_effect, without_effect
from infra.planning.checks.notes import (
    access_notes,
    crowding,
    idle_note,
    kv_dtype_note,
    template_note,
    vision_note,
)
from infra.planning.checks.reading_pace import check_pace
from infra.planning.checks.serving_image import check_image, counted_version, image_note
from infra.planning.checks.setting_values import bad_settings
from infra.planning.cost.estimate import CostEstimate, Kept, StagingJob, estimate_cost
from infra.planning.memory.budget import capacity_of, device_budget, largest_max_num_seqs
from infra.planning.memory.kv_cache import tensor_parallel_fault
from infra.planning.memory.verdict import judge
from infra.planning.names import names_of
from infra.planning.performance.speed import Knee, SpeedEstimate, SpeedModel
from infra.planning.performance.startup import IMAGE_BYTES, StartupEstimate, estimate_staging
from infra.planning.plan import Plan
from infra.planning.platforms.base import Deployment, Draft
from infra.planning.platforms.registry import platform_of
from infra.planning.server.command import command_of
from infra.planning.server.server import Server, server_of
from infra.planning.settings.declarations import Settings
from infra.planning.settings.resolve import Origin, Resolved, resolve
from infra.planning.units import Band, parse_duration


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
        self.platform = platform_of(self.accelerator)
        self.place = self.platform.place(self.settings, self.accelerator)
        self.region = self.place.region
        self.names = names_of(stack, project, self.settings.weights.bucket)
        self.images = images_of(self.settings, self.accelerator, self.names, self.region, facts, self.platform.images)
        self.weights = weights_of(self.settings, self.model, self.assistant, facts)
        self.staging = StagingPlan() if self.settings.weights.staged else None
        self.origins = dict(resolved.origins)
        self.notes: list[str] = []

    def plan(self) -> Plan:
        """Everything decided, with refusals, warnings and notes gathered on the way."""
        server = self._chosen_server()
        startup = self.platform.startup(self.settings, server, sum(one.size_bytes for one in self.weights))
        model = self._speed_model(server)
        budget = device_budget(server)
        capacity = capacity_of(server, budget.kv_bytes_per_device)
        ends = [capacity_of(server, size) for size in (budget.kv.low, budget.kv.mid, budget.kv.high)]
        held = capacity.requests_held(self._workload_tokens)
        deployment = self._deployment(server, startup)
        speed = model.estimate(max(1, min(server.max_num_seqs, held, deployment.requests_each)))
        judged = judge(server, paid_minutes=startup.from_zero.mid / 60, as_planned=self._server_with)
        quotas = tuple(deployment.quotas(self.facts))
        cost = self._cost(speed, deployment)
        draft = Draft(
            settings=self.settings,
            origins=self.resolved.origins,
            accelerator=self.accelerator,
            place=self.place,
            server=server,
            startup=startup,
            images=self.images,
            quotas=quotas,
            longest_answer_s=self.settings.workload.output_tokens / speed.planned.per_stream.mid,
        )
        findings = (
            self.platform.check_place(self.settings, self.accelerator, self.place)
            + self.platform.findings(draft, deployment)
            + self._combination(server)
            + Findings(judged.refusals, judged.warnings)
            + self._idle(server)
            + Findings(warnings=tuple(check_idle_devices(self.settings, self.accelerator, cost.usd_per_hour)))
        )
        if not findings.refusals:
            findings += self._crowding(server, held, speed)
            findings += Findings(warnings=tuple(check_pace(model, speed.planned, server)))
        self._tell(server, model, self.platform.notes(draft, deployment))
        plain = capacity_of(replace(server, kv_cache_dtype="auto"), budget.kv_bytes_per_device)
        self.notes += kv_dtype_note(server, capacity.tokens, plain.tokens)
        return Plan(
            stack=self.stack,
            settings=self.settings,
            origins=self.origins,
            recipes=self.resolved.recipes,
            model=self.model,
            architecture=self.architecture,
            accelerator=self.accelerator,
            project=self.project,
            platform=self.platform,
            place=self.place,
            deployment=deployment,
            names=self.names,
            labels=own_labels(self.stack, self.settings),
            images=self.images,
            weights=self.weights,
            staging=self.staging,
            repository=RepositoryPlan(),
            server=server,
            command=self._command(server),
            memory=budget,
            capacity=capacity,
            requests_held=held,
            kv_tokens=Band(*(one.tokens for one in ends)),
            largest_max_model_len=Band(*(one.largest_max_model_len for one in ends)),
            speed=speed,
            speed_model=model,
            startup=startup,
            quotas=quotas,
            cost=cost,
            ready_timeout_s=self._ready_timeout_s(startup),
            deploy_timeout_s=deployment.deploy_timeout_s(startup, self._ready_timeout_s(startup)),
            fits=judged.verdict,
            refusals=findings.refusals,
            warnings=findings.warnings,
            notes=(*self.notes, *speed.notes, *startup.notes),
        )

    def _server_with(self, settings: Mapping[str, object]) -> Server | None:
        """The server that this stack would get with further settings; None where they cannot be read."""
        stack_file, command_line = self.written
        try:
            resolved = resolve(stack_file, {**command_line, **settings}, facts=self.facts)
            other = _Planner(self.stack, resolved, self.project, self.facts, self.written)
            return other._chosen_server()
        except SettingsError:
            return None

    def _chosen_server(self) -> Server:
        server = server_of(
            self.settings,
            self.model,
            self.accelerator,
            self.assistant,
            self.platform.hosting(self.settings, self.accelerator, self.names),
            vllm_version=counted_version(self._image_version),
            image_version=self._image_version,
        )
        return self._with_max_num_seqs(server)

    @property
    def _image_version(self) -> str | None:
        return self.images["serving"].vllm_version

    def _with_max_num_seqs(self, server: Server) -> Server:
        """The server with the planner's own maxNumSeqs where nobody set one: the knee of the profile."""
        if self.settings.serving.max_num_seqs is not None:
            return server
        knee = self._knee(server).max_num_seqs
        self.origins["serving.maxNumSeqs"] = Origin.PLANNER
        return replace(server, max_num_seqs=knee)

    def _knee(self, server: Server, profile: Profile | None = None) -> Knee:
        """The best maxNumSeqs of `profile`, or of the stack's own."""
        held = largest_max_num_seqs(server, self._workload_tokens)
        return self._speed_model(server).recommend_max_num_seqs(profile or self.settings.profile, kv_requests=held)

    @property
    def _workload_tokens(self) -> int:
        workload = self.settings.workload
        return min(workload.prompt_tokens + workload.output_tokens, self.settings.serving.max_model_len)

    def _speed_model(self, server: Server) -> SpeedModel:
        return SpeedModel(server, self.settings.workload.prompt_tokens, self.settings.workload.output_tokens)

    def _deployment(self, server: Server, startup: StartupEstimate) -> Deployment:
        self.origins |= dict.fromkeys(self.platform.chosen_settings(self.settings), Origin.PLANNER)
        seqs = server.max_num_seqs
        deployment: Deployment = self.platform.deployment(
            self.settings, self.accelerator, self.place, max_num_seqs=seqs, startup=startup
        )
        return deployment

    def _idle(self, server: Server) -> Findings:
        """Warn of what somebody wrote and nothing follows from."""
        origins = self.resolved.origins
        return Findings(
            warnings=(
                *without_effect(self.settings, self.platform, self.accelerator, origins),
                *profile_without_effect(self.settings, origins, lambda profile: self._knee(server, profile)),
            )
        )

    def _crowding(self, server: Server, held: int, speed: SpeedEstimate) -> Findings:
        if not 0 < held < server.max_num_seqs:
            return Findings()
        most = largest_max_num_seqs(server, self._workload_tokens)
        return Findings(warnings=(crowding(server, held, self._workload_tokens, most, speed),))

    def _combination(self, server: Server) -> Findings:
        further = self.platform.without_metrics
        found = check_combination(self.settings, server, self.assistant, without_metrics=further)
        return found + check_image(self.settings, self.accelerator) + self._pinning()

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

    def _command(self, server: Server) -> Any:
        folder, from_hub = server.hosting.weights_folder, self.settings.weights.from_hub
        paths = [weights.hub_id if from_hub else f"{folder}/{weights.prefix}" for weights in self.weights]
        return command_of(
            self.settings,
            server,
            weights_path=paths[0],
            assistant_path=paths[1] if len(paths) > 1 else None,
            image=self.images["serving"].upstream,
            revision=self.weights[0].revision,
            assistant_revision=self.weights[1].revision if len(paths) > 1 else None,
        )

    def _cost(self, speed: SpeedEstimate, deployment: Deployment) -> CostEstimate:
        """Price what is deployed, and what is kept in the region: bucket, images, token, and the one-time copy."""
        size, job = sum(one.size_bytes for one in self.weights), self.staging
        kept = Kept(
            region=self.region,
            bucket_bytes=size if job else 0,
            image_bytes=IMAGE_BYTES,
            secret_versions=1 if self.settings.hf_token else 0,
        )
        staging = StagingJob(self.region, estimate_staging(size).mid, job.cpu, job.memory_gib) if job else None
        return estimate_cost(
            self.facts, deployment, kept=kept, alone=speed.alone, planned=speed.planned, staging=staging
        )

    def _ready_timeout_s(self, startup: StartupEstimate) -> int:
        chosen = self.settings.serving.ready_timeout
        return parse_duration(chosen) if chosen else startup.ready_timeout_s

    def _tell(self, server: Server, speed: SpeedModel, of_platform: Iterable[str]) -> None:
        if self.settings.serving.max_num_seqs is not None:
            origin = self.origins["serving.maxNumSeqs"]
            self.notes += idle_note(server, self._knee(server).max_num_seqs, speed, origin)
        self.notes += of_platform
        self.notes += image_note(self.settings, self.names, self.platform.image_puller(self.names))
        self.notes += self.accelerator.notes
        self.notes += template_note(self.settings, self.accelerator)
        self.notes += vision_note(self.settings)
        self.notes += access_notes(self.settings, self.model) if self.accelerator.deployable else ()
