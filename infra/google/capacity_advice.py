"""Google's advice about machines of Compute Engine: which zones list a type, how likely one is to be had now, and what spot
has cost and how often it was taken back. Asking costs nothing and takes no quota.

The advice was generally available in `compute.v1` at revision 20261106. For which provisioning models it is given is not
documented; it was seen used for SPOT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession
from infra.google.times import duration_s
from infra.planning.names import region_of

MODELS: Mapping[str, str] = {"on-demand": "STANDARD", "spot": "SPOT", "flex-start": "FLEX_START"}
"""Provisioning as settings spell it, and as Compute Engine does."""


@dataclass(frozen=True)
class CapacityAdvice:
    """How likely a machine can be had now. None where Google does not say, which is not 0."""

    obtainability: float | None
    """0 to 1."""
    uptime_s: float | None
    """How long it would run before it is taken back."""


@dataclass(frozen=True)
class SpotHistory:
    """The past of spot machines. None where Google does not say."""

    usd_per_hour: float | None
    """The newest list price, of the whole machine."""
    since: str
    """Moment from which it holds, RFC 3339; empty where that is not known."""
    preempted: float | None
    """Mean share, 0 to 1, of the spot machines that were taken back among those that stopped."""


def zones_with(session: GoogleSession, machine_type: str) -> tuple[str, ...]:
    """Return the zones that list a machine type for this project; whether there is stock, a listing does not say.

    Raises GoogleError.
    """
    path = f"projects/{session.project}/aggregated/machineTypes"
    found: set[str] = set()
    for page in session.pages(Api.COMPUTE, path, filter=f"name={machine_type}"):
        found |= {place for place, held in page.get("items", {}).items() if held.get("machineTypes")}
    return tuple(sorted(place.removeprefix("zones/") for place in found))


def capacity_advice(session: GoogleSession, zone: str, machine_type: str, model: str) -> CapacityAdvice:
    """Return how likely one machine can be had in a zone. One type and one zone a question: Google gives one score for all that
    a question names. Raises GoogleError."""
    body = {
        "size": 1,
        "instanceProperties": {"scheduling": {"provisioningModel": model}},
        "instanceFlexibilityPolicy": {"instanceSelections": {"only": {"machineTypes": [machine_type]}}},
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": f"zones/{zone}"}]},
    }
    said = session.post(Api.COMPUTE, f"{_advice(session, zone)}/capacity", body, repeatable=True)
    scores = next((one.get("scores") or {} for one in said.get("recommendations") or ()), {})
    return CapacityAdvice(_number(scores.get("obtainability")), duration_s(str(scores.get("estimatedUptime") or "")))


def spot_history(session: GoogleSession, zone: str, machine_type: str) -> SpotHistory:
    """Return what spot machines of a type have cost in a zone, and how often they were taken back. Raises GoogleError."""
    body = {
        "types": ["PREEMPTION", "PRICE"],
        "instanceProperties": {"machineType": machine_type, "scheduling": {"provisioningModel": "SPOT"}},
        "locationPolicy": {"location": f"zones/{zone}"},
    }
    said = session.post(Api.COMPUTE, f"{_advice(session, zone)}/capacityHistory", body, repeatable=True)
    rates = [
        rate for one in said.get("preemptionHistory") or () if (rate := _number(one.get("preemptionRate"))) is not None
    ]
    newest: Mapping[str, Any] = max(said.get("priceHistory") or (), key=_begins, default={})  # Google promises no order
    price: Mapping[str, Any] = newest.get("listPrice") or {}
    return SpotHistory(
        int(price.get("units") or 0) + int(price.get("nanos") or 0) / 1e9 if price else None,
        _begins(newest),
        sum(rates) / len(rates) if rates else None,
    )


def _advice(session: GoogleSession, zone: str) -> str:
    return f"projects/{session.project}/regions/{region_of(zone)}/advice"


def _begins(record: Mapping[str, Any]) -> str:
    return str((record.get("interval") or {}).get("startTime") or "")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
