"""Whether the project's quotas hold the whole stack: one check for each quota that the plan counts against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.quota_limits import quota_limits
from infra.planning.plan import Plan
from infra.planning.platforms.base import QUOTAS_PAGE, QuotaNeed
from infra.planning.report.rows import quota_amount
from infra.preflight.preflight_check import PreflightCheck, PreflightResult, failed, not_needed, ok, unknown
from infra.preflight.subject import Subject

_NETWORK = "gcp:compute/network:Network"
EVERYWHERE = "global"
"""The place of a quota that counts the whole project."""
_SHORT = {"GPU": "gpu", "GiB": "memory", "vCPU": "cpu", "chips": "chips"}


@dataclass(frozen=True)
class QuotaTerms:
    """What a platform says of its quotas."""

    key: str
    """The setting that decides how much is needed, or where."""
    late: str
    """What happens where a quota is too small."""
    remedies: Callable[[Subject, QuotaNeed, int, int], Iterator[str]]
    """Commands that help, beside asking for more; from the limit, in the quota's own units, and what is held of it, in ours."""
    held: Callable[[Subject, QuotaNeed], int | None] | None = None
    """What others hold of a quota, in our units; None where that does not count, or returned where it is not known."""
    others: Callable[[Subject, QuotaNeed], int] | None = None
    """What others may come to hold, in our units. It is not certain that this counts."""


def quota_checks(plan: Plan, terms: QuotaTerms) -> Iterator[PreflightCheck]:
    """Yield a check for each quota of the plan."""
    for need in plan.quotas:

        def ask(subject: Subject, need: QuotaNeed = need) -> PreflightResult:
            return _check(subject, need, terms)

        name = _name(need, plan.quotas)
        yield PreflightCheck(f"quota-{name}", f"Quota: {name}", ask, seconds=1 if terms.held else 0.3, key=terms.key)


def renewal_check(plan: Plan, terms: QuotaTerms) -> Iterator[PreflightCheck]:
    """Yield the check for the quota that a renewal needs beside the stack's own, where machines end."""
    if plan.deployment.renewal(plan.startup) is not None:
        yield PreflightCheck(
            "quota-renewal", "Quota to renew", _check_renewal, seconds=0.6, key=terms.key, advisory=True
        )


def _check_renewal(subject: Subject) -> PreflightResult:
    """Return whether the limits hold one machine more than the stack has, whatever is held of them."""
    plan, short = subject.plan, list[str]()
    needs = [need.with_one_more(plan.deployment.machines) for need in plan.quotas]
    for need in needs:
        limit = (quota_limits(subject.session, need.quota.service, need.quota.id) or {}).get(need.place)
        if limit is not None and 0 <= limit < need.value:
            short.append(f"{quota_amount(need)} in {need.place}, which has {limit / need.quota.per_unit:,g}")
    if not short:
        return ok(
            f"{', '.join(f'{quota_amount(need)} in {need.place}' for need in needs)} at once, while one is renewed"
        )
    fact = f"gemma4 renew asks for the next machine while the old one serves: that takes {', and '.join(short)}"
    return unknown(fact, f"ask for more at {_page(subject, needs[0].quota.service)}; or let the machine end first")


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
    more = f"ask for more at {_page(subject, 'compute.googleapis.com')}"
    return failed(
        f"{used} of {limit} networks are used, and the stack makes {len(rows)}",
        "Compute Engine refuses the network, and nothing after it is made.",
        f"gcloud compute networks list --project {subject.project}, and delete one; or {more}",
    )


def _check(subject: Subject, need: QuotaNeed, terms: QuotaTerms) -> PreflightResult:
    quota, page = need.quota, _page(subject, need.quota.service)
    try:
        limits = quota_limits(subject.session, quota.service, quota.id, quota.dimensions)
    except GoogleError as error:
        if error.reason != "PERMISSION_DENIED":
            raise
        return unknown(str(error), f"look at {page}")
    limit = None if limits is None else limits.get(need.place)
    if limit is None:
        return unknown(f"{quota.id} is not listed for {need.place}", f"look at {page}")
    wanted = quota_amount(need)
    if limit < 0:
        return ok(f"{wanted} needed, no limit in {need.place}")
    if limit == 0 and quota.comes_with_first_deployment and not need.beyond_default():
        return unknown(
            f"{quota.id} reads as 0 in {need.place}; Google gives {quota.default:g} with the first deployment in a region, "
            "but not to every new billing account",
            f"go on, or ask first at {page}",
        )
    held = terms.held(subject, need) if terms.held else 0
    room = f"{limit / quota.per_unit:,g} {quota.unit} in {need.place}"
    if held is None:
        return unknown(f"{wanted} needed, {room}; a zone did not say what is held of them", "ask again later")
    room += f", {held:,} of them held" if held else ""
    if held * quota.per_unit + need.value <= limit:
        return _shared(subject, need, terms, limit, f"{wanted} needed, {room}")
    fixes = [*terms.remedies(subject, need, limit, held), f"ask for {need.value:,} at {page}"]
    return failed(f"{quota.id}: {wanted} needed, {room}", terms.late, "; or ".join(fixes))


def _shared(subject: Subject, need: QuotaNeed, terms: QuotaTerms, limit: int, said: str) -> PreflightResult:
    """Return the result for a quota that holds the stack, but perhaps not beside what others may come to hold."""
    others = terms.others(subject, need) if terms.others else 0
    if others * need.quota.per_unit + need.value <= limit:
        return ok(said)
    return unknown(
        f"{said}, and other services there may grow to {others:,}: whether Google counts them is not documented",
        f"lower their maximum; or ask for more at {_page(subject, need.quota.service)}",
    )


def _name(need: QuotaNeed, needs: Sequence[QuotaNeed]) -> str:
    """Return a short name: gpu, memory, cpu; where two quotas have one unit, with the kind of place."""
    short = _SHORT[need.quota.unit]
    if sum(one.quota.unit == need.quota.unit for one in needs) == 1:
        return short
    if need.place == EVERYWHERE:
        return f"{short}-project"
    return f"{short}-{'zone' if 'PerZone' in need.quota.id else 'region'}"


def _page(subject: Subject, service: str) -> str:
    return f"{QUOTAS_PAGE}?project={subject.project}&service={service}"
