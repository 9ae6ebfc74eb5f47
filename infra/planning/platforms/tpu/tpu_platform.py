"""Cloud TPU: slices in a zone, asked for as queued resources, behind a gateway in a region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from infra.catalog import Accelerator
from infra.planning.names import region_of
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.base import Place, Platform
from infra.planning.platforms.tpu.slices import SlicesPlan, plan_slices
from infra.planning.settings.declarations import Settings

_NAMED = "tpu.slices says how many there are"
_MACHINE = "the machine belongs to the chips"


class TpuPlatform(Platform):
    """Queued resources of Cloud TPU."""

    id = "tpu"
    where = "on a TPU slice"
    location_setting = "tpu.zone"
    without_effect: ClassVar[Mapping[str, str]] = {
        "scaling.minInstances": _NAMED,
        "scaling.maxInstances": _NAMED,
        "scaling.cpu": _MACHINE,
        "scaling.memoryGib": _MACHINE,
        "scaling.zonalRedundancy": "it lives in one zone",
        "probes": "the supervisor on the machine probes",
        "weights.access": "the weights are copied into memory",
        "serving.cudaCompatibility": "there is no CUDA",
    }

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        zone = settings.tpu.zone or accelerator.locations[0]
        return Place(settings.region or region_of(zone), zone, zone)

    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> SlicesPlan:
        return plan_slices(settings, accelerator, gateway_region=place.region)
