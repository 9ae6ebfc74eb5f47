"""Preflight checks of a GPU service: its quotas at the most instances, and whether the region offers the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from infra.google.cloud_run import CloudRun
from infra.planning.plan import Plan
from infra.planning.platforms.base import QuotaNeed
from infra.preflight.granted_quotas import QuotaTerms, quota_checks
from infra.preflight.preflight_check import PreflightCheck, PreflightResult, failed, ok, unknown
from infra.preflight.subject import Subject

_LATE = "Cloud Run refuses the service after image and weights are in place."


def platform_checks(plan: Plan) -> list[PreflightCheck]:
    """Return the checks that only instances need."""
    quotas = quota_checks(plan, QuotaTerms("scaling.maxInstances", _LATE, _fewer, others=_other_services))
    return [*quotas, PreflightCheck("machine", "Machine offered", check_machine, google=False, seconds=0)]


def quick_checks(plan: Plan) -> list[PreflightCheck]:
    """Return those that `pulumi up` asks by itself."""
    return list(quota_checks(plan, QuotaTerms("scaling.maxInstances", _LATE, _fewer)))


def check_machine(subject: Subject) -> PreflightResult:
    """Return whether the catalog says that the region offers the GPU: no API lists the GPUs of Cloud Run."""
    machine, region = subject.plan.accelerator, subject.plan.place.location
    fix = subject.config("region", machine.locations[0])
    if region in machine.invited_locations:
        return unknown(f"{region} offers {machine.title} by invitation, which no API shows", fix)
    if region not in machine.locations:
        return failed(f"{region} is not known to offer {machine.title}", _LATE, fix)
    return ok(f"{region} offers {machine.title}, by the catalog of {machine.source.read:%d %B %Y}")


def _other_services(subject: Subject, need: QuotaNeed) -> int:
    """Return to how many GPUs of the kind the region's other services may grow; 0 for other quotas, of which many services
    state no maximum."""
    machine = subject.plan.accelerator.cloud_run
    if machine is None or need.quota.unit != "GPU":
        return 0
    found = CloudRun(subject.session, need.place).most_gpus(machine.accelerator)
    return sum(gpus for name, gpus in found.items() if name != subject.plan.names.prefix)


def _fewer(subject: Subject, need: QuotaNeed, limit: int, held: int) -> Iterator[str]:
    """Yield how many instances the quota holds, where it holds any."""
    each = need.value // max(1, subject.plan.deployment.replicas)
    if fits := limit // each if each else 0:
        yield subject.config("scaling.maxInstances", fits)
