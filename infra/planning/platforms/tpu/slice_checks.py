"""Zones that are known not to give TPU slices, or not known to."""

from __future__ import annotations

from infra.catalog import Accelerator
from infra.errors import Fault, Findings
from infra.planning.platforms.tpu.slices import limits_of
from infra.planning.settings.declarations import Settings


def check_zone(settings: Settings, accelerator: Accelerator, zone: str) -> Findings:
    """Refuse a zone where Google was seen to refuse flex-start, and warn where nobody is known to have asked for it: the
    answer costs nothing."""
    limits = limits_of(accelerator)
    if settings.tpu.provisioning != "flex-start" or zone not in accelerator.locations:
        return Findings()
    seen = ", ".join(limits.flex_start_zones)
    if zone in limits.flex_start_refused_zones:
        fact = f"Google was seen to refuse flex-start requests for TPU v6e in {zone}."
        fix = f"Write one of: {seen}, or another tpu.provisioning."
        return Findings((Fault("tpu.zone", fact, "The TPU API would refuse this one too.", fix),))
    if zone in limits.flex_start_zones:
        return Findings()
    fact = f"it is not known whether {zone} takes flex-start requests: no report of one was found."
    consequence = "If it does not, the TPU API says so within seconds, and no slice is paid for."
    return Findings(warnings=(Fault("tpu.zone", fact, consequence, f"Seen to take them: {seen}."),))
