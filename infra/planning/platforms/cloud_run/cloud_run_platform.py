"""Cloud Run: instances with a GPU in a region, which come and go with the requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from infra.catalog import Accelerator
from infra.planning.gateway.service_limits import MAX_CONCURRENCY
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.base import Place, Platform
from infra.planning.platforms.cloud_run.instances import InstancesPlan, limits_of
from infra.planning.platforms.cloud_run.startup_probe import choose_probe
from infra.planning.settings.declarations import Settings
from infra.planning.units import parse_duration


class CloudRunPlatform(Platform):
    """Cloud Run services with GPUs."""

    id = "cloud-run"
    where = "on Cloud Run"
    without_effect: ClassVar[Mapping[str, str]] = {"tpu": "there are no slices"}

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        region = settings.region or accelerator.locations[0]
        return Place(region, region)

    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> InstancesPlan:
        limits, scaling, probe = limits_of(accelerator), settings.scaling, settings.probes.startup
        return InstancesPlan(
            accelerator=accelerator,
            region=place.region,
            cpu=scaling.cpu or limits.default_cpu,
            memory_gib=scaling.memory_gib or limits.default_memory_gib,
            concurrency=scaling.concurrency or min(MAX_CONCURRENCY, 2 * max_num_seqs),
            min_instances=scaling.min_instances,
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
