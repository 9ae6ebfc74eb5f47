"""Cloud Monitoring: how many instances of a Cloud Run service run now, and for how long what is paid for has run.

The metrics are documented (cloud.google.com/monitoring/api/metrics_gcp, /run/docs/monitoring, /tpu/docs/troubleshooting
/tpu-vm-monitoring); nobody here has seen them for a GPU service or a v6e slice. So an answer without a series is None, never
0: nothing may have run, or Cloud Monitoring may not keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession
from infra.google.times import moment, timestamp_s

INSTANCE_COUNT = "run.googleapis.com/container/instance_count"
"""Gauge: instances that exist, by revision and by `state`, active or idle. Sampled every minute."""
BILLABLE_TIME = "run.googleapis.com/container/billable_instance_time"
"""Delta in seconds: billable time of all instances."""
TPU_CPU = "tpu.googleapis.com/cpu/utilization"
"""Gauge of a TPU machine, sampled every minute while it runs: its samples are counted, not read."""
SERVICE, JOB, TPU_WORKER = "cloud_run_revision", "cloud_run_job", "tpu_worker"

_SAMPLE_S = 60
_RECENT_S = 600
"""How far back the newest sample of a gauge is looked for: samples may be read up to three minutes after they were taken."""
_TOGETHER_S = 150
"""Samples that are older than the newest one by more are of an instance that has ended."""


@dataclass(frozen=True)
class Series:
    """One time series: labels of its resource and of its metric by name, and its values, each with the end of its time in
    seconds since 1970."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def total(self) -> float:
        """The sum of the values."""
        return sum(value for _, value in self.points)


@dataclass(frozen=True)
class InstanceCount:
    """Instances of a service at the last sample: those that answer requests, and those that are kept or wait to end."""

    active: int = 0
    idle: int = 0
    at: float | None = None
    """When they were counted, in seconds since 1970. None without a recent sample, as of a service that is at zero."""
    by_revision: Mapping[str, int] | None = None

    @property
    def running(self) -> int:
        """Active and idle ones: an idle instance of a GPU service is paid for as well."""
        return self.active + self.idle


class Monitoring:
    """Reads time series of the session's project. Needs roles/monitoring.viewer."""

    def __init__(self, session: GoogleSession) -> None:
        self._session = session

    def instances(self, service: str, region: str) -> InstanceCount:
        """Return how many instances of a Cloud Run service run now, some minutes late. Raises GoogleError."""
        now = self._session.clock()
        where = {"service_name": service, "location": region}
        found = self.series(INSTANCE_COUNT, SERVICE, where, since=now - _RECENT_S, until=now)
        newest = [(one, *max(one.points)) for one in found if one.points]
        if not newest:
            return InstanceCount()
        last = max(at for _, at, _ in newest)
        states: dict[str, float] = {}
        revisions: dict[str, float] = {}
        for one, at, value in newest:
            if last - at <= _TOGETHER_S:
                state, revision = one.labels.get("state", ""), one.labels.get("revision_name", "")
                states[state] = states.get(state, 0) + value
                revisions[revision] = revisions.get(revision, 0) + value
        idle = round(states.pop("idle", 0))
        counted = {name: round(value) for name, value in revisions.items() if name and round(value)}
        return InstanceCount(round(sum(states.values())), idle, last, counted)

    def service_seconds(self, service: str, region: str, *, since: float, until: float) -> float | None:
        """Return the billable seconds of all instances of a Cloud Run service; None without a record. Raises GoogleError."""
        return self._billable(SERVICE, {"service_name": service, "location": region}, since, until)

    def job_seconds(self, job: str, region: str, *, since: float, until: float) -> float | None:
        """Return the billable seconds of all executions of a Cloud Run job; None without a record. Raises GoogleError."""
        return self._billable(JOB, {"job_name": job, "location": region}, since, until)

    def node_seconds(self, prefix: str, *, since: float, until: float) -> Mapping[str, float]:
        """Return for how many seconds TPU machines ran whose names begin with `prefix`, by name, deleted ones included.

        A machine has one sample a minute; generations under one name are added up. Raises GoogleError.
        """
        found = self.series(
            TPU_CPU, TPU_WORKER, {}, prefixes={"node_id": prefix}, since=since, until=until, aligner="ALIGN_COUNT"
        )
        seconds: dict[str, float] = {}
        for one in found:  # a machine of several hosts has a series for each worker
            name = one.labels.get("node_id", "")
            seconds[name] = max(seconds.get(name, 0.0), one.total * _SAMPLE_S)
        return seconds

    def series(
        self,
        metric: str,
        resource: str,
        labels: Mapping[str, str],
        *,
        since: float,
        until: float,
        aligner: str = "",
        prefixes: Mapping[str, str] | None = None,
    ) -> tuple[Series, ...]:
        """Return the time series of a metric between two moments, in seconds since 1970, by labels of the resource.

        With an `aligner`, such as ALIGN_SUM, each series has one value for the whole time. Raises GoogleError.
        """
        terms = [f'metric.type="{metric}"', f'resource.type="{resource}"']
        terms += [f'resource.labels.{name}="{value}"' for name, value in labels.items()]
        terms += [f'resource.labels.{name}=starts_with("{value}")' for name, value in (prefixes or {}).items()]
        asked = {
            "filter": " AND ".join(terms),
            "interval.startTime": moment(since),
            "interval.endTime": moment(until),
        }
        if aligner:
            # No shorter than the API takes, and no longer than the time that is asked for.
            asked["aggregation.alignmentPeriod"] = f"{max(_SAMPLE_S, int(until - since))}s"
            asked["aggregation.perSeriesAligner"] = aligner
        try:
            pages = list(
                self._session.pages(Api.MONITORING, f"v3/projects/{self._session.project}/timeSeries", **asked)
            )
        except GoogleError as error:
            if error.status == 404:  # a metric that no machine of the project has written yet
                return ()
            raise
        return tuple(_series(raw) for page in pages for raw in page.get("timeSeries", ()))

    def _billable(self, resource: str, labels: Mapping[str, str], since: float, until: float) -> float | None:
        if until - since < _SAMPLE_S:
            return None
        found = self.series(BILLABLE_TIME, resource, labels, since=since, until=until, aligner="ALIGN_SUM")
        return _total(found)


def _total(found: Sequence[Series]) -> float | None:
    return sum(one.total for one in found) if found else None


def _series(raw: Mapping[str, Any]) -> Series:
    labels = {**raw.get("resource", {}).get("labels", {}), **raw.get("metric", {}).get("labels", {})}
    return Series(labels, tuple(_points(raw.get("points", ()))))


def _points(points: Iterable[Mapping[str, Any]]) -> Iterable[tuple[float, float]]:
    """Yield each point with its end. A value that is not a number, such as a distribution, is left out."""
    for point in points:
        value = point.get("value", {})
        number = value.get("doubleValue", value.get("int64Value"))  # which the API writes as text
        at = timestamp_s(str(point.get("interval", {}).get("endTime", "")))
        if number is not None and at is not None:
            yield at, float(number)
