"""What is known not to work, or to be wasted, with TPU slices: zones, durations, addresses, and what their gateway lets in."""

from __future__ import annotations

from collections.abc import Mapping

from infra.catalog import Accelerator, catalog
from infra.errors import Fault, Findings
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.behind_gateway import Backends, check_behind_gateway
from infra.planning.platforms.flex_start import QueuedCapacity
from infra.planning.platforms.tpu.slices import SlicesPlan, limits_of
from infra.planning.settings.declarations import Settings
from infra.planning.settings.resolve import Origin


def check_slices(
    settings: Settings,
    slices: SlicesPlan,
    startup: StartupEstimate,
    origins: Mapping[str, Origin],
    max_num_seqs: int,
) -> Findings:
    """Return all faults of the slices. Of the model, only the time that it takes to start matters here."""
    tpu = settings.tpu
    asked = QueuedCapacity(
        group="tpu",
        what="slice",
        api="The TPU API",
        provisioning=tpu.provisioning,
        lasting="flex-start",
        run=None if slices.max_run_duration_s is None else tpu.max_run_duration,
        valid=tpu.valid_until_duration,
        wait=tpu.wait_for_capacity,
        unattended_s=slices.unattended_s,
        usd_per_hour=sum(line.usd for line in slices.hour(catalog())),
    )
    return Findings((*asked.refusals(startup),), (*asked.warnings(startup, origins),)) + check_behind_gateway(
        settings,
        Backends("slice", len(slices.names), slices.requests_each, slices.region, slices.subnet_cidr),
        max_num_seqs=max_num_seqs,
    )


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
