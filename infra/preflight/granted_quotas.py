"""Whether the project's quotas hold the whole stack: one check for each quota that the plan counts against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.quota_limits import quota_limits
from infra.google.tpu_chips import family_of, held_chips
from infra.google.tpu_zone import zones
from infra.planning.names import region_of
from infra.planning.plan import Plan
from infra.planning.platforms.base import QUOTAS_PAGE, QuotaNeed
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.report.rows import quota_amount
from infra.preflight.preflight_check import PreflightCheck, PreflightResult, failed, not_needed, ok, unknown
from infra.preflight.subject import Subject

_NETWORK = "gcp:compute/network:Network"


def quota_checks(plan: Plan, *, held: bool = True) -> Iterator[PreflightCheck]:
    """Yield a check for each quota of the plan. Without `held` only the limits are compared, with one request each."""
    slices = plan.deployment if isinstance(plan.deployment, SlicesPlan) else None
    key = "tpu.zone" if slices else "scaling.maxInstances"
    for need in plan.quotas:
        name = _name(need, plan.quotas)

        def ask(subject: Subject, need: QuotaNeed = need) -> PreflightResult:
            return _check(subject, need, slices if held else None)

        yield PreflightCheck(f"quota-{name}", f"Quota: {name}", ask, seconds=1.0 if slices and held else 0.3, key=key)


def check_networks(subject: Subject) -> PreflightResult:
    """Return whether one more network fits the project's quota; one that the stack has already needs none."""
    rows = [row for row in subject.resources if row.type == _NETWORK]
    present = subject.pulumi.resources or frozenset()
    if not rows or all((row.type, str(row.inputs.get("name", ""))) in present for row in rows):
        return not_needed("the stack makes no new network")
    project = subject.session.get(Api.COMPUTE, f"projects/{subject.project}", fields="quotas")
    row = next((one for one in project.get("quotas", ()) if one.get("metric") == "NETWORKS"), None)
    if row is None:
        return unknown("Compute Engine does not say how many networks the project may have")
    limit, used = int(row.get("limit", 0)), int(row.get("usage", 0))
    if used + len(rows) <= limit:
        return ok(f"{used} of {limit} networks are used")
    return failed(
        f"{used} of {limit} networks are used, and the stack makes {len(rows)}",
        "Compute Engine refuses the network, and nothing after it is made.",
        f"gcloud compute networks list --project {subject.project}; delete one, or ask for more at {_page(subject, 'compute')}",
    )


def _check(subject: Subject, need: QuotaNeed, slices: SlicesPlan | None) -> PreflightResult:
    quota = need.quota
    try:
        limits = quota_limits(subject.session, quota.service, quota.id)
    except GoogleError as error:
        if error.status == 403 and error.reason == "PERMISSION_DENIED":
            return unknown(str(error), f"look at {_page(subject, quota.service)}")
        raise
    limit = None if limits is None else limits.get(need.place)
    if limit is None:
        return unknown(f"{quota.id} is not listed for {need.place}", f"look at {_page(subject, quota.service)}")
    wanted = quota_amount(need)
    if limit < 0:
        return ok(f"{wanted} of {quota.id}: no limit in {need.place}")
    granted = f"{limit / quota.per_unit:,g}"
    if limit == 0 and quota.comes_with_first_deployment and not need.beyond_default():
        return unknown(
            f"{quota.id} reads as 0 in {need.place}; Google gives {quota.default:g} with the first deployment in a region, "
            "new billing accounts excepted",
            f"go on, or ask first: {_page(subject, quota.service)}",
        )
    held, where = (0, "") if slices is None else _held(subject, need, slices)
    if held is None:
        return unknown(
            f"{granted} {quota.unit} in {need.place}, but {where} did not say what is held", "try again later"
        )
    room = f"{granted} {quota.unit} in {need.place}" + (f", {held:,} of them held" if held else "")
    if held * quota.per_unit + need.value <= limit:
        return ok(f"{wanted} needed, {room}")
    late = (
        "The queued request is refused, or waits for nothing."
        if slices
        else ("Cloud Run refuses the service after image and weights are in place.")
    )
    return failed(
        f"{quota.id}: {wanted} needed, {room}", late, "; or ".join(_remedies(subject, need, slices, limit, held))
    )


def _remedies(subject: Subject, need: QuotaNeed, slices: SlicesPlan | None, limit: int, held: int) -> Iterator[str]:
    """Yield what helps: less, somewhere else, what is held given back, more quota."""
    stack = subject.plan.stack
    if slices is not None:
        if held:
            yield f"gemma4 tpu ended {stack} --delete"
        yield f"gemma4 zones {stack}, and: {subject.config('tpu.zone', 'ZONE')}"
    else:
        each = need.value // max(1, subject.plan.deployment.replicas)
        if fits := limit // each if each else 0:
            yield subject.config("scaling.maxInstances", fits)
    yield f"ask for {need.value:,} at {_page(subject, need.quota.service)}"


def _held(subject: Subject, need: QuotaNeed, slices: SlicesPlan) -> tuple[int | None, str]:
    """Return the chips in the quota's place that others hold, None where a zone does not say, and that zone."""
    session, own = subject.session, {subject.plan.names.member(name) for name in slices.names}
    family, on_demand = family_of(slices.accelerator_type), slices.provisioning == "on-demand"
    places = [need.place]
    if need.place == slices.region:
        places = [zone for zone in zones(session) if region_of(zone) == need.place]
    total = 0
    for zone in places:
        chips = held_chips(session, zone, family, on_demand=on_demand, without=own)
        if chips is None:
            return None, zone
        total += chips
    return total, ""


def _name(need: QuotaNeed, needs: Sequence[QuotaNeed]) -> str:
    """Return a short name: gpu, memory, cpu; where two quotas have one unit, with the kind of place."""
    short: Mapping[str, str] = {"GPU": "gpu", "GiB": "memory", "vCPU": "cpu", "chips": "chips"}
    if sum(one.quota.unit == need.quota.unit for one in needs) == 1:
        return short[need.quota.unit]
    return f"{short[need.quota.unit]}-{'zone' if 'PerZone' in need.quota.id else 'region'}"


def _page(subject: Subject, service: str) -> str:
    return f"{QUOTAS_PAGE}?project={subject.project}&service={service}"
