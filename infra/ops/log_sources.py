"""Where the parts of a stack write their logs: its service or gateway, its TPU slices, and the job that copies its weights."""

from __future__ import annotations

from infra.errors import SettingsError
from infra.google.logs import LogSource
from infra.planning.plan import Plan
from infra.planning.platforms.behind_gateway import BehindGateway
from infra.suggestions import did_you_mean

WEIGHTS = "weights"


def log_sources(plan: Plan, *, slice_name: str | None = None, revision: str | None = None) -> dict[str, LogSource]:
    """Return the sources of a stack's log by their names: of each machine its own, else `service`, `gateway` or `weights`.

    `slice_name` leaves that slice or machine alone, or that of a server of this name; `revision` that revision of the service
    or the gateway. Raises SettingsError where there is no such slice, and where both are given.
    """
    if slice_name is not None:
        return _of_slice(plan, slice_name, revision)
    services = {
        what: LogSource.service(name, region, revision or "")
        for what, (name, region) in plan.deployment.services(plan.names).items()
    }
    if revision:
        return services
    weights = {WEIGHTS: LogSource.job(plan.names.stager, plan.region)} if plan.staging else {}
    of_machines = {host: one for name in plan.deployment.member_paths() for host, one in _machines(plan, name).items()}
    return services | of_machines | weights


def _machines(plan: Plan, member: str) -> dict[str, LogSource]:
    """Return the source of each machine that a server of that name may be on, by the machine's host."""
    places = {host: plan.deployment.log_place(plan.names, host) for host in plan.deployment.hosts(member)}
    return {
        host: LogSource.machine(place["name"], place["location"])
        for host, place in places.items()
        if place.get("kind") == "machine"
    }


def _of_slice(plan: Plan, name: str, revision: str | None) -> dict[str, LogSource]:
    nothing = "There is no log to show."
    machines = plan.deployment.names if isinstance(plan.deployment, BehindGateway) else ()
    named = (*machines, *plan.deployment.member_paths())  # a machine, or a server on it
    slices = {name: sources for name in named if (sources := _machines(plan, name))}
    if not slices:
        title = plan.accelerator.title
        raise SettingsError.of("--slice", f"{plan.stack} serves on {title}, without slices.", nothing, "Leave it out.")
    if revision:
        raise SettingsError.of(
            "--revision", "is of the gateway, and --slice of a machine.", nothing, "Give one of them."
        )
    if name not in slices:
        known = did_you_mean(name, slices) or f"Name one of: {', '.join(slices)}."
        noun = plan.deployment.machine_noun if isinstance(plan.deployment, BehindGateway) else "slice"
        raise SettingsError.of("--slice", f"{plan.stack} has no {noun} {name!r}.", nothing, known)
    return slices[name]
