"""Cloud Run: instances with a GPU in a region, which come and go with the requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from infra.catalog import Accelerator
from infra.errors import Findings
from infra.planning.gateway.service_limits import check_request_timeout
from infra.planning.names import Names
from infra.planning.performance.startup import (
    IMAGE_BYTES,
    Stage,
    StartupEstimate,
    container_stage,
    engine_stages,
)
from infra.planning.platforms.base import Draft, Place, Platform
from infra.planning.platforms.cloud_run.instance_checks import (
    ill_chosen_concurrency,
    refused_sizes,
    unreadable_weights,
)
from infra.planning.platforms.cloud_run.instances import InstancesPlan, limits_of
from infra.planning.platforms.cloud_run.quota_checks import check_quotas, update_note
from infra.planning.platforms.cloud_run.startup_probe import PERIOD_S, check_probe, choose_probe
from infra.planning.server.hosting import Hosting
from infra.planning.server.server import Server
from infra.planning.settings.declarations import MOST_CONCURRENCY, MOST_SEQS, Settings
from infra.planning.units import Band, parse_duration

IMPORT_RATE = 37e6
"""Bytes/s of Cloud Run's import of an image that it has not seen: 26 to 29 GB in 12.4 min."""


class CloudRunPlatform(Platform[InstancesPlan]):
    """Cloud Run services with GPUs."""

    id = "cloud-run"
    where = "on Cloud Run"
    without_effect: ClassVar[Mapping[str, str]] = {
        "tpu": "there are no slices",
        "gateway": "there is no gateway",
        "machine": "there are no machines of its own",
    }
    start_source = "starts on Cloud Run: 31B fp8 and 26B NVFP4 on RTX PRO 6000, 31B QAT on L4 (2026-06 to 09)"
    waits_for_capacity = False
    scales_to_zero = True
    most_replicas = 16
    components = "infra.components.cloud_run.deploy"
    operations = "infra.ops.cloud_run.service_operations"
    preflight = "infra.preflight.cloud_run.instance_preflight"
    rollback = "infra.ops.cloud_run.earlier_revision"

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        region = settings.region or accelerator.locations[0]
        return Place(region, region)

    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        limits = limits_of(accelerator)
        streamed = settings.weights.access == "stream"
        return Hosting(
            weights_folder=f"gs://{names.bucket}" if streamed else Hosting.weights_folder,
            mounts_bucket=True,
            memory_gib=settings.scaling.memory_gib or limits.default_memory_gib,
            most_memory_gib=limits.memory_gib.max,
            memory_setting="scaling.memoryGib",
        )

    def start_stages(self, settings: Settings, server: Server, weights: Stage) -> Iterator[Stage]:
        import_s = Band.around(IMAGE_BYTES / IMPORT_RATE, 0.5, error_up=1.0)
        yield Stage("image import", import_s, "registry", repeats=False)
        yield container_stage(server)
        yield weights
        yield from engine_stages(server)
        period_s = settings.probes.startup.period_seconds or PERIOD_S
        yield Stage("probe", Band(0.0, period_s / 2, float(period_s)), "probe")

    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> InstancesPlan:
        limits, scaling, probe = limits_of(accelerator), settings.scaling, settings.probes.startup
        return InstancesPlan(
            accelerator=accelerator,
            region=place.region,
            cpu=scaling.cpu or limits.default_cpu,
            memory_gib=scaling.memory_gib or limits.default_memory_gib,
            concurrency=scaling.concurrency or min(MOST_CONCURRENCY, 2 * max_num_seqs),
            min_instances=0 if self.paused(settings) else scaling.min_instances,
            max_instances=scaling.max_instances,
            zonal_redundancy=scaling.zonal_redundancy,
            request_timeout_s=parse_duration(scaling.request_timeout),
            probe=choose_probe(
                startup,
                initial_delay_s=probe.initial_delay_seconds,
                period_s=probe.period_seconds,
                timeout_s=probe.timeout_seconds,
                failure_threshold=probe.failure_threshold,
            ),
        )

    def chosen_settings(self, settings: Settings) -> Iterator[str]:
        if settings.scaling.concurrency is None:
            yield "scaling.concurrency"

    def findings(self, draft: Draft, deployment: InstancesPlan) -> Findings:
        settings, limits = draft.settings, limits_of(draft.accelerator)
        return (
            Findings(
                (*refused_sizes(settings.scaling, limits), *unreadable_weights(settings, draft.server)),
                tuple(ill_chosen_concurrency(settings)),
            )
            + check_probe(deployment.probe, draft.startup)
            + check_request_timeout(deployment.request_timeout_s, longest_answer_s=draft.longest_answer_s)
            + Findings(warnings=tuple(check_quotas(draft.quotas, limits, deployment.max_instances)))
        )

    def notes(self, draft: Draft, deployment: InstancesPlan) -> Iterator[str]:
        return update_note(draft.quotas)

    def image_puller(self, names: Names) -> str:
        return "Cloud Run's service agent (service-NUMBER@serverless-robot-prod.iam.gserviceaccount.com)"

    def most_requests_each(self, replicas: int) -> int:
        return min(MOST_SEQS, MOST_CONCURRENCY)
