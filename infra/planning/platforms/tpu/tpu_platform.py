"""Cloud TPU: slices in a zone, asked for as queued resources, behind a gateway in a region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from infra.catalog import Accelerator
from infra.errors import Fault, Findings
from infra.planning.gateway.gateway_checks import check_gateway
from infra.planning.gateway.limits import MOST_IN_FLIGHT
from infra.planning.gateway.service_limits import check_request_timeout
from infra.planning.names import Names, region_of
from infra.planning.performance.startup import Stage, StartupEstimate, container_stage, engine_stages, machine_stages
from infra.planning.platforms.base import Draft, Place, Platform
from infra.planning.platforms.tpu.slice_checks import check_slices, check_zone
from infra.planning.platforms.tpu.slice_notes import region_note, spot_note, unseen_image_note
from infra.planning.platforms.tpu.slices import (
    GATEWAY,
    SLICE_NAMES,
    SLICES,
    SlicesPlan,
    is_paused,
    limits_of,
    plan_slices,
)
from infra.planning.server.hosting import IN_MEMORY, SHUTDOWN_S, VPC_ADDRESS, Hosting
from infra.planning.server.server import Server
from infra.planning.settings.declarations import MOST_CONCURRENCY, Settings

_NAMED = "tpu.slices says how many there are"
_MACHINE = "the machine belongs to the chips"


class TpuPlatform(Platform[SlicesPlan]):
    """Queued resources of Cloud TPU."""

    id = "tpu"
    where = "on a TPU slice"
    location_setting = "tpu.zone"
    names_setting = "tpu.slices"
    run_duration_setting = "tpu.maxRunDuration"
    without_effect: ClassVar[Mapping[str, str]] = {
        "machine": "it is a TPU slice",
        "scaling.minInstances": _NAMED,
        "scaling.maxInstances": _NAMED,
        "scaling.cpu": _MACHINE,
        "scaling.memoryGib": _MACHINE,
        "scaling.zonalRedundancy": "it lives in one zone",
        "probes": "the supervisor on the machine probes",
        "weights.access": "the weights are copied into memory",
        "serving.cudaCompatibility": "there is no CUDA",
    }
    start_source = "starts of E2B, E4B and 12B on v6e-1 and of 31B on v6e-8 (2026-07 and 08)"
    start_notes = (
        "Waiting for capacity comes first and takes minutes to hours; the compile cache ends with the slice.",
    )
    without_metrics = ", and the slice's supervisor may restart a server that is only busy"
    most_replicas = len(SLICE_NAMES)
    images = ("gateway",)
    part_suffixes = (GATEWAY, SLICES)
    apis = ("dns", "secretmanager", "tpu")
    components = "infra.components.tpu.deploy"
    operations = "infra.ops.tpu.slice_operations"
    preflight = "infra.preflight.tpu.slice_preflight"
    diagnosis = "infra.ops.tpu.slice_look"
    rollback = "infra.ops.changing.earlier_spec"

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        zone = settings.tpu.zone or accelerator.locations[0]
        return Place(settings.region or region_of(zone), zone, zone)

    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        return Hosting(
            weights_folder=IN_MEMORY,
            staged_in_memory=True,
            listens_on=VPC_ADDRESS,
            shutdown_s=SHUTDOWN_S,
            memory_gib=accelerator.host_memory_gib,
        )

    def start_stages(self, settings: Settings, server: Server, weights: Stage) -> Iterator[Stage]:
        yield from machine_stages(weights)
        yield container_stage(server)
        yield from engine_stages(server)

    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> SlicesPlan:
        return plan_slices(settings, accelerator, gateway_region=place.region)

    def paused(self, settings: Settings) -> bool:
        return is_paused(settings)

    def bad_settings(self, settings: Settings) -> Iterator[Fault]:
        if len(set(settings.tpu.slices)) < len(settings.tpu.slices):
            fact, consequence = "names a slice twice.", "Two slices would share one id."
            yield Fault("tpu.slices", fact, consequence, "Write [blue, green].")

    def offered_places(self, settings: Settings, accelerator: Accelerator) -> tuple[str, ...]:
        flex = settings.tpu.provisioning == "flex-start"
        return limits_of(accelerator).flex_start_zones if flex else accelerator.locations

    def findings(self, draft: Draft, deployment: SlicesPlan) -> Findings:
        settings = draft.settings
        timeout_s = deployment.gateway.request_timeout_s
        gateway = check_gateway(
            settings,
            draft.origins,
            servers=deployment.replicas,
            requests_each=deployment.requests_each,
            max_num_seqs=draft.server.max_num_seqs,
        )
        return (
            check_zone(settings, draft.accelerator, deployment.zone)
            + check_slices(settings, deployment, draft.startup, draft.origins, draft.server.max_num_seqs)
            + check_request_timeout(timeout_s, longest_answer_s=draft.longest_answer_s)
            + Findings(warnings=tuple(gateway))
        )

    def notes(self, draft: Draft, deployment: SlicesPlan) -> Iterator[str]:
        yield from region_note(draft.settings, draft.place.region)
        yield from spot_note(draft.settings)
        yield from unseen_image_note(draft.settings, draft.images["serving"])

    def most_requests_each(self, replicas: int) -> int:
        return min(MOST_CONCURRENCY, MOST_IN_FLIGHT // replicas)
