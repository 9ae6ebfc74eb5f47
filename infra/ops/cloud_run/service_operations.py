"""What runs of a GPU service on Cloud Run now, whether it serves as planned, and for how long it has run."""

from __future__ import annotations

from collections.abc import Iterator, Set

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.ops.answers.status_answers import ServiceRow
from infra.ops.running.platform_operations import PlatformOperations
from infra.ops.running.running_now import RunningNow
from infra.ops.running.service_now import read_service, service_lines
from infra.ops.running.usage import Usage, copy_usage, service_usage
from infra.planning.plan import Plan
from infra.planning.platforms.cloud_run.instances import InstancesPlan, limits_of
from infra.planning.units import counted


class ServiceOperations(PlatformOperations):
    """Questions about one GPU service."""

    def look(self, session: GoogleSession, plan: Plan, tickets: Set[str] | None = None) -> RunningNow:
        gaps: list[str] = []
        try:
            row = read_service(session, plan.names.prefix, plan.region, gaps)
        except GoogleError as error:
            return RunningNow(None, "is not known to serve: Cloud Run cannot be asked", gaps=(str(error),))
        if row is None:
            return RunningNow(False, "is not deployed", f"pulumi up -s {plan.stack}", gaps=tuple(gaps))
        fault = _fault(row, plan, session)
        lines = tuple(service_lines(row, session.clock()))
        serving = not fault
        summary, then = fault or (_doing(row), "")
        return RunningNow(serving, summary, then, row.spec, row, lines=lines, gaps=tuple(gaps))

    def usage(self, session: GoogleSession, plan: Plan, *, since: float, until: float) -> Iterator[Usage]:
        yield service_usage(session, plan, since=since, until=until)
        if copy := copy_usage(session, plan, since=since, until=until):
            yield copy


OPERATIONS = ServiceOperations()


def _fault(row: ServiceRow, plan: Plan, session: GoogleSession) -> tuple[str, str] | None:
    """Return why the service does not serve as planned, and what to type; None where it does. The first fault decides."""
    up = f"pulumi up -s {plan.stack}"
    if row.failed_revision:
        goes_on = f", and {row.revision} goes on serving" if row.revision else ""
        return f"does not serve as planned: its newest revision failed{goes_on}", f"gemma4 diagnose {plan.stack}"
    if not row.ready:
        return "does not serve as planned: its newest revision is not ready", f"gemma4 status {plan.stack}"
    if set(row.traffic) - {row.revision}:
        others = ", ".join(name for name in row.traffic if name != row.revision)
        place = f"--region {row.region} --project {session.project}"
        fix = f"gcloud run services update-traffic {row.name} --to-latest {place}"
        return f"does not serve as planned: {others} has the traffic or a part of it", fix
    if row.spec and row.spec != plan.command.spec_hash:
        return f"serves {row.spec}, and the files here plan {plan.command.spec_hash}", up
    return (
        (f"is not deployed as the files here plan it: {'; '.join(changes)}", up)
        if (changes := _changes(row, plan))
        else None
    )


def _changes(row: ServiceRow, plan: Plan) -> list[str]:
    """Return what differs beside the specification: the hash does not hold the machine and the scaling."""
    instances = plan.deployment
    assert isinstance(instances, InstancesPlan)  # noqa: S101 this platform's own
    pairs = (
        ("instances kept", row.min_instances, instances.min_instances),
        ("instances at most", row.max_instances or instances.max_instances, instances.max_instances),
        ("GPU", row.accelerator, limits_of(plan.accelerator).accelerator if row.accelerator else ""),
    )
    return [f"{what} {there}, planned {here}" for what, there, here in pairs if there != here]


def _doing(row: ServiceRow) -> str:
    if row.instances_active is None or row.instances_idle is None:
        return "serves as planned, by its condition"
    running = row.instances_active + row.instances_idle
    if running:
        return f"serves as planned with {counted(running, 'instance')}"
    if row.min_instances:
        return f"serves as planned, by its condition; none of {row.min_instances} kept instances is counted yet"
    return "serves as planned: it has scaled to zero, and the next request starts it"
