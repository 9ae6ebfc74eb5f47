"""Preflight checks of TPU slices: chips that the quotas leave, what the zone offers, and whose the slices' names are."""

from __future__ import annotations

from collections.abc import Iterator

from infra.errors import GoogleError
from infra.google.refusals import RefusalKind
from infra.google.slice_records import is_owned
from infra.google.tpu_chips import family_of, held_chips
from infra.google.tpu_zone import TpuZone, zones
from infra.planning.gateway.members import TURNS
from infra.planning.names import region_of
from infra.planning.plan import Plan
from infra.planning.platforms.base import QuotaNeed
from infra.planning.platforms.tpu.slices import SlicesPlan, limits_of
from infra.preflight.granted_quotas import QuotaTerms, quota_checks, renewal_check
from infra.preflight.preflight_check import PreflightCheck, PreflightResult, failed, ok, unknown
from infra.preflight.subject import Subject

_KEY = "tpu.zone"
_LATE = "The request for the slice is refused after image and weights are in place."
_QUEUED = "pulumi-python:dynamic/gemma4:TpuQueuedResource"


def platform_checks(plan: Plan) -> list[PreflightCheck]:
    """Return the checks that only slices need."""
    return [
        *quota_checks(plan, QuotaTerms(_KEY, _LATE, _elsewhere, held=_held)),
        *renewal_check(plan, QuotaTerms(_KEY, _LATE, _elsewhere)),
        PreflightCheck("machine", "Machine offered", check_machine, key=_KEY),
        PreflightCheck("runtime", "TPU runtime", check_runtime, key=_KEY),
        PreflightCheck("slice-names", "Slices' names", check_slice_names),
    ]


def quick_checks(plan: Plan) -> list[PreflightCheck]:
    """Return those that `pulumi up` asks by itself: the limits alone, whatever is held of them."""
    return list(quota_checks(plan, QuotaTerms(_KEY, _LATE, _elsewhere)))


def check_machine(subject: Subject) -> PreflightResult:
    """Return whether the zone lists the accelerator type, and is known to sell it on the terms of the plan."""
    slices = _slices(subject.plan)
    zone, kind, limits = slices.zone, slices.accelerator_type, limits_of(subject.plan.accelerator)
    try:
        offered = TpuZone(subject.session, zone).accelerator_types()
    except GoogleError as error:
        if error.status != 404 and error.reason != RefusalKind.UNSUPPORTED.value:
            raise
        fact = f"{zone} is not a zone that this project may use for TPUs"
        return failed(fact, "No slice could be made.", _another_zone(subject))
    if kind not in offered:
        others = ", ".join(place for place in slices.known_zones if place != zone)
        return failed(f"{zone} does not list {kind}; seen to offer it: {others}", _LATE, _another_zone(subject))
    if slices.provisioning != "flex-start" or zone in limits.flex_start_zones:
        return ok(f"{zone} lists {kind}; whether there is capacity shows only the queue")
    # Of a zone that was seen to refuse flex-start the plan says so.
    return unknown(f"{zone} lists {kind}; it is not known to take flex-start", _another_zone(subject))


def check_runtime(subject: Subject) -> PreflightResult:
    """Return whether the zone lists the image of the TPU's machine."""
    slices = _slices(subject.plan)
    if slices.runtime_version in TpuZone(subject.session, slices.zone).runtime_versions():
        return ok(f"{slices.zone} lists {slices.runtime_version}")
    fact = f"{slices.zone} does not list the runtime {slices.runtime_version}"
    return failed(fact, "The TPU API would refuse the request.", _another_zone(subject))


def check_slice_names(subject: Subject) -> PreflightResult:
    """Return whether no queued resource of somebody else's has the name of a slice; the stack's own are adopted."""
    rows = [row for row in subject.resources if row.type == _QUEUED]
    for row in rows:
        zone = str(row.inputs["zone"])
        for name in (f"{row.inputs['queued_id']}-{turn}" for turn in TURNS):
            found = TpuZone(subject.session, zone).get(name)
            if found is not None and not is_owned(found, row.inputs["labels"]):
                delete = f"gcloud alpha compute tpus queued-resources delete {name} --zone {zone} --project {subject.project}"
                fact = f"a queued resource {name} is in {zone} and is not this stack's"
                return failed(fact, "The slice could not be asked for.", delete)
    return ok(f"{', '.join(str(row.inputs['queued_id']) for row in rows)}: free or the stack's own")


def _another_zone(subject: Subject) -> str:
    return f"gemma4 zones {subject.plan.stack}, and: {subject.config(_KEY, 'ZONE')}"


def _elsewhere(subject: Subject, need: QuotaNeed, limit: int, held: int) -> Iterator[str]:
    """Yield what makes room: giving back what ended requests hold, another zone."""
    if held:
        yield f"gemma4 tpu ended {subject.plan.stack} --delete"
    yield _another_zone(subject)


def _held(subject: Subject, need: QuotaNeed) -> int | None:
    """Return the chips that others hold in the quota's zone or region, None where a zone does not say."""
    slices, session = _slices(subject.plan), subject.session
    own = {subject.plan.names.member(host) for name in slices.names for host in slices.hosts(name)}
    family, on_demand = family_of(slices.accelerator_type), slices.provisioning == "on-demand"
    places = [need.place]
    if need.place == slices.region:
        places = [zone for zone in zones(session) if region_of(zone) == need.place]
    total = 0
    for zone in places:
        chips = held_chips(session, zone, family, on_demand=on_demand, without=own)
        if chips is None:
            return None
        total += chips
    return total


def _slices(plan: Plan) -> SlicesPlan:
    slices = plan.deployment
    if not isinstance(slices, SlicesPlan):
        raise TypeError(f"{plan.stack} has no slices, and only their platform names this module")
    return slices
