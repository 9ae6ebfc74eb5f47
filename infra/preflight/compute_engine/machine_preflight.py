"""Preflight checks of machines on Compute Engine: GPUs that the quotas leave, what the zones offer, the system's image, and
whose the machines' names are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from infra.errors import GoogleError
from infra.google.compute_zone import ComputeZone
from infra.google.gcp_settings import Api
from infra.planning.plan import Plan
from infra.planning.platforms.base import QuotaNeed
from infra.planning.platforms.compute_engine.machines import MachinesPlan
from infra.preflight.granted_quotas import QuotaTerms, quota_checks
from infra.preflight.preflight_check import PreflightCheck, PreflightResult, failed, ok
from infra.preflight.subject import Subject

_KEY = "machine.zones"
_LATE = "The group makes no machine, after image and weights are in place."


def platform_checks(plan: Plan) -> list[PreflightCheck]:
    """Return the checks that only machines need."""
    zones = _machines(plan).zones
    return [
        *quick_checks(plan),
        PreflightCheck("machine", "Machine offered", check_machine, seconds=0.3 * len(zones), key=_KEY),
        PreflightCheck("system-image", "System image", check_image, key="machine.image"),
        PreflightCheck("machine-names", "Machines' names", check_machine_names, seconds=0.3 * len(zones)),
    ]


def quick_checks(plan: Plan) -> list[PreflightCheck]:
    """Return those that `pulumi up` asks by itself: the limits alone, whatever is held of them."""
    return list(quota_checks(plan, QuotaTerms("machine.names", _LATE, _elsewhere)))


def check_machine(subject: Subject) -> PreflightResult:
    """Return whether each zone lists a machine type of the plan. A listed one may lack stock."""
    machines = _machines(subject.plan)
    listed = {
        zone: [kind for kind in machines.shapes if _exists(_kind(subject, zone, kind))] for zone in machines.zones
    }
    without = [zone for zone, kinds in listed.items() if not kinds]
    if without:
        fact = f"{' and '.join(without)} does not list {' or '.join(machines.shapes)}"
        return failed(fact, _LATE, _another_zone(subject))
    said = "; ".join(f"{zone} lists {' and '.join(kinds)}" for zone, kinds in listed.items())
    return ok(f"{said}; whether there is stock shows only the request")


def check_image(subject: Subject) -> PreflightResult:
    """Return whether the image of the machines' system exists, or one is in its family."""
    image = _machines(subject.plan).image
    if _exists(partial(subject.session.get, Api.COMPUTE, image)):
        return ok(f"{image} exists")
    known = "gcloud compute images list --project cos-cloud --no-standard-images"
    fix = f"{known}, and: {subject.config('machine.image', 'NAME')}"
    return failed(f"there is no image {image}", "The template of the machines would be refused.", fix)


def check_machine_names(subject: Subject) -> PreflightResult:
    """Return whether no machine of somebody else's has the name of one of the stack's; its own are kept."""
    plan, machines = subject.plan, _machines(subject.plan)
    names = [plan.names.member(name) for name in machines.names]
    for zone in machines.zones:
        for name in names:
            found = ComputeZone(subject.session, zone).instance(name)
            if found is not None and any(found.labels.get(key) != plan.labels[key] for key in ("app", "stack")):
                delete = f"gcloud compute instances delete {name} --zone {zone} --project {subject.project}"
                fact = f"a machine {name} is in {zone} and is not this stack's"
                return failed(fact, "The group could not make the machine.", delete)
    return ok(f"{', '.join(names)}: free or the stack's own" if names else "the stack is paused")


def _kind(subject: Subject, zone: str, kind: str) -> Callable[[], object]:
    path = f"projects/{subject.project}/zones/{zone}/machineTypes/{kind}"
    return partial(subject.session.get, Api.COMPUTE, path)


def _exists(ask: Callable[[], object]) -> bool:
    """Return whether Google knows what is asked for. Raises GoogleError for any answer but found and not found."""
    try:
        ask()
    except GoogleError as error:
        if error.status == 404:
            return False
        raise
    return True


def _another_zone(subject: Subject) -> str:
    return f"gemma4 zones {subject.plan.stack}, and: {subject.config(_KEY, '[ZONE]')}"


def _elsewhere(subject: Subject, need: QuotaNeed, limit: int, held: int) -> Iterator[str]:
    """Yield what makes room: another region, unless the quota counts the whole project."""
    if need.place == _machines(subject.plan).region:
        yield _another_zone(subject)


def _machines(plan: Plan) -> MachinesPlan:
    machines = plan.deployment
    if not isinstance(machines, MachinesPlan):
        raise TypeError(f"{plan.stack} has no machines, and only their platform names this module")
    return machines
