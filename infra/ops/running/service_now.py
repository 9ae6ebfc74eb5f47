"""A Cloud Run service as it is now: a GPU service, or the gateway before TPU slices. It is never woken."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import RenderableType

from infra.errors import GoogleError
from infra.google.cloud_run import CloudRun, Revision, Service
from infra.google.monitoring import InstanceCount, Monitoring
from infra.google.session import GoogleSession
from infra.google.times import moment, timestamp_s
from infra.ops.answers.status_answers import ServiceRow
from infra.planning.report.tables import labelled
from infra.planning.server.command import HASH_PREFIX
from infra.planning.units import counted, read_duration

_SPEC = re.compile(rf"{HASH_PREFIX}[0-9a-f]{{12}}")


def read_service(session: GoogleSession, name: str, region: str, gaps: list[str]) -> ServiceRow | None:
    """Return the service; None where it does not exist. What else cannot be read is added to `gaps`.

    Raises GoogleError where the service itself cannot be asked.
    """
    run = CloudRun(session, region)
    try:
        service = run.service(name)
    except GoogleError as error:
        if error.status == 404:
            return None
        raise
    revision = None
    try:
        revision = run.revision(name, service.ready_revision) if service.ready_revision else None
    except GoogleError as error:
        gaps.append(f"what revision {service.ready_revision} runs: {error}")
    count = None
    try:
        count = Monitoring(session).instances(name, region)
    except GoogleError as error:
        gaps.append(f"how many instances run: {error}")
    return _row(name, region, service, revision, count)


def service_lines(row: ServiceRow, now: float) -> Iterator[RenderableType]:
    """Yield what there is to say of a service for a terminal. `now`: seconds since 1970."""
    return (labelled([(f"  {name}", text)], 11) for name, text in _labelled_words(row, now))


def _labelled_words(row: ServiceRow, now: float) -> Iterator[tuple[str, str]]:
    ready = f"revision {row.revision} is ready" if row.revision else "no revision is ready"
    shares = ", ".join(f"{name} {percent} %" for name, percent in row.traffic.items() if name != row.revision)
    whole = "" if shares or not row.revision else " and has the traffic"
    yield "service", f"{row.name} in {row.region}: {ready}{whole}"
    if shares:
        yield "traffic", shares
    if row.problem:
        failed = f"{row.failed_revision} failed: " if row.failed_revision else ""
        yield "newest", f"{failed}{row.problem}"
    bounds = (
        f"{row.min_instances} kept, at most {row.max_instances}" if row.max_instances else f"{row.min_instances} kept"
    )
    if row.instances_active is None or row.instances_idle is None:
        yield "instances", f"not known ({bounds})"
    else:
        running = row.instances_active + row.instances_idle
        idle = f", {row.instances_idle} of them idle" if row.instances_idle else ""
        at = timestamp_s(row.counted_at)
        ago = "" if at is None else f", counted {read_duration(max(0.0, now - at))} ago"
        yield "instances", f"{counted(running, 'instance')} running{idle} ({bounds}){ago}"
    if row.machine:
        yield "machine", row.machine


def _row(
    name: str, region: str, service: Service, revision: Revision | None, count: InstanceCount | None
) -> ServiceRow:
    found = _SPEC.search(" ".join(revision.words)) if revision else None
    return ServiceRow(
        name=name,
        region=region,
        revision=service.ready_revision,
        ready=service.ready,
        problem=service.problem,
        failed_revision=service.failed_revision,
        traffic=dict(service.traffic),
        spec=found.group() if found else "",
        machine=_machine(revision) if revision else "",
        accelerator=revision.accelerator if revision else "",
        instances_active=None if count is None else count.active,
        instances_idle=None if count is None else count.idle,
        counted_at="" if count is None or count.at is None else moment(count.at),
        min_instances=service.min_instances,
        max_instances=service.max_instances,
        created=service.created,
        updated=service.updated,
    )


def _machine(revision: Revision) -> str:
    limits = revision.limits
    parts = [revision.accelerator, f"{limits['cpu']} vCPU" if "cpu" in limits else "", limits.get("memory", "")]
    return ", ".join(filter(None, parts))
