"""Whether the machine is offered where the plan wants it."""

from __future__ import annotations

from infra.errors import GoogleError
from infra.google.refusals import RefusalKind
from infra.google.tpu_zone import TpuZone
from infra.planning.platforms.tpu.slices import SlicesPlan, limits_of
from infra.preflight.preflight_check import PreflightResult, failed, not_needed, ok, unknown
from infra.preflight.subject import Subject


def check_machine(subject: Subject) -> PreflightResult:
    """Return whether the machine is offered in the region or the zone: of TPUs the zone says so, of Cloud Run's GPUs only the
    catalog, since no API lists them."""
    slices = subject.plan.deployment
    return _in_zone(subject, slices) if isinstance(slices, SlicesPlan) else _by_catalog(subject)


def check_runtime(subject: Subject) -> PreflightResult:
    """Return whether the zone lists the image of the TPU's machine."""
    slices = subject.plan.deployment
    if not isinstance(slices, SlicesPlan):
        return not_needed("no TPU machine is asked for")
    listed = TpuZone(subject.session, slices.zone).runtime_versions()
    if slices.runtime_version in listed:
        return ok(f"{slices.zone} lists {slices.runtime_version}")
    return failed(
        f"{slices.zone} does not list the runtime {slices.runtime_version}",
        "The TPU API would refuse the request.",
        f"gemma4 zones {subject.plan.stack}, and: {subject.config('tpu.zone', 'ZONE')}",
    )


def _in_zone(subject: Subject, slices: SlicesPlan) -> PreflightResult:
    zone, kind, stack = slices.zone, slices.accelerator_type, subject.plan.stack
    limits = limits_of(subject.plan.accelerator)
    fix = f"gemma4 zones {stack}, and: {subject.config('tpu.zone', 'ZONE')}"
    try:
        offered = TpuZone(subject.session, zone).accelerator_types()
    except GoogleError as error:
        if error.status == 404 or error.reason == RefusalKind.UNSUPPORTED.value:
            return failed(f"{zone} is not a zone that this project may use for TPUs", "No slice could be made.", fix)
        raise
    if kind not in offered:
        others = ", ".join(place for place in slices.known_zones if place != zone)
        return failed(
            f"{zone} does not list {kind}; seen to offer it: {others}",
            "The TPU API would refuse the request after image and weights are in place.",
            fix,
        )
    if slices.provisioning != "flex-start" or zone in limits.flex_start_zones:
        return ok(f"{zone} lists {kind}; whether there is capacity shows only the queue")
    return unknown(
        f"{zone} lists {kind}; it is not known to take flex-start", fix
    )  # where it is known not to, the plan says so


def _by_catalog(subject: Subject) -> PreflightResult:
    machine, region = subject.plan.accelerator, subject.plan.place.location
    if region in machine.invited_locations:
        return unknown(
            f"{region} offers {machine.title} by invitation, which no API shows",
            subject.config("region", machine.locations[0]),
        )
    if region not in machine.locations:
        return failed(
            f"{region} is not known to offer {machine.title}",
            "Cloud Run refuses the service after image and weights are in place.",
            subject.config("region", machine.locations[0]),
        )
    return ok(f"{region} offers {machine.title}, by the catalog of {machine.source.read:%d %B %Y}")
