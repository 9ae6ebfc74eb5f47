"""Advice of `/compute/<any version>` about capacity: how likely a machine can be had, what spot has cost, and which zones list
a machine type. The form is that of `compute.v1`, revision 20261106. How Google refuses a model that it gives no advice for is
not known: the answer here is in the form of its other refusals of a value."""

from __future__ import annotations

from typing import Any

from tests.fakes.google.compute_machines import ComputeMachines
from tests.fakes.google.product import route
from tests.fakes.google.wire import ErrorAnswer, Request
from tests.fakes.google.world import World


class ComputeAdvice(ComputeMachines):
    """`obtainability` and `spot_usd` are by zone and machine type; of what is not there, Google says nothing."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.obtainability: dict[tuple[str, str], float] = {}
        self.spot_usd: dict[tuple[str, str], list[float]] = {}
        """Of successive days."""
        self.advised_models = ["SPOT"]

    @route("GET", "projects/{project}/aggregated/machineTypes")
    def machine_types(self, request: Request, project: str) -> Any:
        name = request.query["filter"].removeprefix("name=")
        empty = {"warning": {"code": "NO_RESULTS_ON_PAGE"}}
        found = {
            f"zones/{zone}": {"machineTypes": [{"name": name, "zone": zone}]} if name in kinds else empty
            for zone, kinds in self.offers.items()
        }
        return {"kind": "compute#machineTypeAggregatedList", "items": found}

    @route("POST", "projects/{project}/regions/{region}/advice/capacity")
    def capacity(self, request: Request, project: str, region: str) -> Any:
        body = request.json()
        model = body["instanceProperties"]["scheduling"]["provisioningModel"]
        if model not in self.advised_models:
            field = "instance_properties.scheduling.provisioning_model"
            raise ErrorAnswer(400, f"Invalid value for field '{field}': '{model}'.")
        (selection,) = body["instanceFlexibilityPolicy"]["instanceSelections"].values()
        ((kind,), (place,)) = selection["machineTypes"], body["distributionPolicy"]["zones"]
        zone = _zone(place["zone"], region)
        likely = self.obtainability.get((zone, kind))
        if likely is None:
            return {"recommendations": []}
        shard = {"zone": place["zone"], "machineType": kind, "instanceCount": body["size"], "provisioningModel": model}
        scores = {"obtainability": likely, "estimatedUptime": "21600s"}
        return {"recommendations": [{"scores": scores, "shards": [shard]}]}

    @route("POST", "projects/{project}/regions/{region}/advice/capacityHistory")
    def history(self, request: Request, project: str, region: str) -> Any:
        body = request.json()
        kind, place = body["instanceProperties"]["machineType"], body["locationPolicy"]["location"]
        assert (body["types"], body["instanceProperties"]["scheduling"]) == (
            ["PREEMPTION", "PRICE"],
            {"provisioningModel": "SPOT"},
        )
        days = [
            ({"startTime": f"2026-11-{day:02}T00:00:00Z", "endTime": f"2026-11-{day + 1:02}T00:00:00Z"}, usd)
            for day, usd in enumerate(self.spot_usd.get((_zone(place, region), kind), ()), 10)
        ]
        return {
            "machineType": kind,
            "location": place,
            "preemptionHistory": [{"interval": days[n][0], "preemptionRate": 0.1 * (n + 1)} for n in range(len(days))],
            "priceHistory": [
                {
                    "interval": interval,
                    "listPrice": {"currencyCode": "USD", "units": str(int(usd)), "nanos": round(usd % 1 * 1e9)},
                }
                for interval, usd in reversed(days)
            ],
        }


def _zone(place: str, region: str) -> str:
    zone = place.removeprefix("zones/")
    if not zone.startswith(f"{region}-"):
        raise ErrorAnswer(400, f"Invalid value for field 'zone': '{place}'. Not in region {region}.")
    return zone
