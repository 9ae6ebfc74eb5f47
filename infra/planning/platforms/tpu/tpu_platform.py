"""Cloud TPU: slices in a zone, asked for as queued resources, behind a gateway in a region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from infra.catalog import Accelerator
from infra.errors import Fault, Findings
from infra.planning.names import Names, region_of
from infra.planning.performance.startup import Stage, StartupEstimate, container_stage, engine_stages, machine_stages
from infra.planning.platforms.base import Draft, Place
from infra.planning.platforms.behind_gateway import GATEWAY, is_paused
from infra.planning.platforms.behind_gateway_platform import BehindGatewayPlatform, without_effect
from infra.planning.platforms.tpu.slice_checks import check_zone
from infra.planning.platforms.tpu.slice_notes import region_note, spot_note, unseen_image_note
from infra.planning.platforms.tpu.slices import SLICES, SlicesPlan, limits_of, plan_slices
from infra.planning.server.hosting import Hosting
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings, TpuSettings


class TpuPlatform(BehindGatewayPlatform[SlicesPlan]):
    """Queued resources of Cloud TPU."""

    id = "tpu"
    where = "on a TPU slice"
    location_setting = "tpu.zone"
    names_setting = SlicesPlan.names_setting
    run_duration_setting = "tpu.maxRunDuration"
    without_effect: ClassVar[Mapping[str, str]] = {
        **without_effect(SlicesPlan.names_setting, "chips"),
        "machine": "it is a TPU slice",
        "scaling.zonalRedundancy": "it lives in one zone",
        "serving.cudaCompatibility": "there is no CUDA",
    }
    start_source = "starts of E2B, E4B and 12B on v6e-1 and of 31B on v6e-8 (2026-07 and 08)"
    start_notes = (
        "Waiting for capacity comes first and takes minutes to hours; the compile cache ends with the slice.",
    )
    without_metrics = ", and the slice's supervisor may restart a server that is only busy"
    part_suffixes = (GATEWAY, SLICES)
    apis = ("dns", "secretmanager", "tpu")
    components = "infra.components.tpu.deploy"
    operations = "infra.ops.tpu.slice_operations"
    preflight = "infra.preflight.tpu.slice_preflight"
    diagnosis = "infra.ops.tpu.slice_look"

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        zone = settings.tpu.zone or accelerator.locations[0]
        return Place(settings.region or region_of(zone), zone, zone)

    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        return replace(super().hosting(settings, accelerator, names), privileged=settings.tpu.privileged)

    def start_stages(self, settings: Settings, server: Server, weights: Stage) -> Iterator[Stage]:
        yield from machine_stages(weights)
        yield container_stage(server)
        yield from engine_stages(server)

    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> SlicesPlan:
        return plan_slices(settings, accelerator, gateway_region=place.region)

    def paused(self, settings: Settings) -> bool:
        return is_paused(settings, settings.tpu.slices)

    def capacity_settings(self, settings: Settings) -> TpuSettings:
        return settings.tpu

    def bad_settings(self, settings: Settings) -> Iterator[Fault]:
        if len(set(settings.tpu.slices)) < len(settings.tpu.slices):
            fact, consequence = "names a slice twice.", "Two slices would share one id."
            yield Fault("tpu.slices", fact, consequence, "Write [blue, green].")

    def offered_places(self, settings: Settings, accelerator: Accelerator) -> tuple[str, ...]:
        flex = settings.tpu.provisioning == "flex-start"
        return limits_of(accelerator).flex_start_zones if flex else accelerator.locations

    def own_findings(self, draft: Draft, deployment: SlicesPlan) -> Findings:
        return check_zone(draft.settings, draft.accelerator, deployment.zone)

    def notes(self, draft: Draft, deployment: SlicesPlan) -> Iterator[str]:
        yield from region_note(draft.settings, draft.place.region)
        yield from spot_note(draft.settings)
        yield from unseen_image_note(draft.settings, draft.images["serving"])
