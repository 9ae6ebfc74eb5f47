"""`/monitoring/v3/…/timeSeries`: samples recorded with `record`, found again by filter and interval, aligned where asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from tests.fakes.google.product import Product, page, required, route
from tests.fakes.google.wire import ErrorAnswer, Request
from tests.fakes.google.world import World

LABELS = {
    "cloud_run_revision": ("project_id", "service_name", "revision_name", "location", "configuration_name"),
    "cloud_run_job": ("project_id", "job_name", "location"),
    "tpu_worker": ("project_id", "zone", "node_id", "worker_id"),
}
"""Labels of the monitored resources, as Google documents them."""
KINDS = {
    "run.googleapis.com/container/instance_count": ("GAUGE", "INT64"),
    "run.googleapis.com/container/billable_instance_time": ("DELTA", "DOUBLE"),
    "tpu.googleapis.com/cpu/utilization": ("GAUGE", "DOUBLE"),
}
ALIGNERS = {"ALIGN_SUM": ("GAUGE", "DELTA"), "ALIGN_DELTA": ("DELTA",), "ALIGN_COUNT": ("GAUGE", "DELTA")}


@dataclass(frozen=True)
class Sample:
    """A value of a metric at a moment, in seconds since 1970."""

    metric: str
    resource: str
    resource_labels: dict[str, str]
    metric_labels: dict[str, str]
    value: float
    at: float


class TimeSeries(Product):
    """Every metric of KINDS is known; `forgotten` are those that Cloud Monitoring answers 404 to."""

    prefix: ClassVar[str] = "monitoring"
    controls: ClassVar[tuple[str, ...]] = (*Product.controls, "record")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.samples: list[Sample] = []
        self.forgotten: tuple[str, ...] = ()

    def record(
        self,
        metric: str,
        resource: str,
        resource_labels: dict[str, str],
        value: float,
        *,
        at: float,
        metric_labels: dict[str, str] | None = None,
        every_s: float = 60,
        times: int = 1,
    ) -> None:
        """Write `times` samples of one value, the last one at `at`."""
        for number in range(times):
            moment = at - number * every_s
            self.samples.append(Sample(metric, resource, resource_labels, metric_labels or {}, value, moment))

    @route("GET", "projects/{project}/timeSeries")
    def list_series(self, request: Request, project: str) -> Any:
        terms = [_term(term) for term in required(request.query.get("filter"), "filter").split(" AND ")]
        metric = next((value for path, _, value in terms if path == "metric.type"), "")
        resource = next((value for path, _, value in terms if path == "resource.type"), "")
        if metric not in KINDS or metric in self.forgotten:
            raise ErrorAnswer(404, f"Cannot find metric(s) that match type = {metric!r}.")
        for path, _, _ in terms:
            if path.startswith("resource.labels.") and path.rpartition(".")[2] not in LABELS[resource]:
                raise ErrorAnswer(400, f"Field filter had an invalid value: {path} is not a label of {resource}.")
        start, end = (_seconds(request, name) for name in ("interval.startTime", "interval.endTime"))
        if start >= end and KINDS[metric][0] != "GAUGE":
            raise ErrorAnswer(400, "The start time must be before the end time for a DELTA metric.")
        found = [one for one in self.samples if start < one.at <= end and all(_holds(one, *term) for term in terms)]
        series: dict[str, list[Sample]] = {}
        for one in found:
            series.setdefault(repr((one.resource_labels, one.metric_labels)), []).append(one)
        rows = [self._row(one, metric, request) for one in series.values()]
        return page(rows, request, "timeSeries")

    def leftovers(self) -> list[str]:
        return []

    def _row(self, samples: list[Sample], metric: str, request: Request) -> dict[str, Any]:
        kind, value_type = KINDS[metric]
        newest_first = sorted(samples, key=lambda one: -one.at)
        values = [(one.at, one.value) for one in newest_first]
        if aligner := request.query.get("aggregation.perSeriesAligner"):
            period = float(required(request.query.get("aggregation.alignmentPeriod"), "alignmentPeriod").rstrip("s"))
            if period < 60 or kind not in ALIGNERS.get(aligner, ()):
                raise ErrorAnswer(400, f"{aligner} over {period:.0f} s cannot align a {kind} metric.")
            value_type = "INT64" if aligner == "ALIGN_COUNT" else value_type
            end = _seconds(request, "interval.endTime")
            values = _aligned(values, end, period, count=aligner == "ALIGN_COUNT")
        return {
            "metric": {"type": metric, "labels": samples[0].metric_labels},
            "resource": {"type": samples[0].resource, "labels": samples[0].resource_labels},
            "metricKind": kind,
            "valueType": value_type,
            "points": [
                {"interval": {"endTime": self.world.stamp(at)}, "value": _value(value_type, one)} for at, one in values
            ],
        }


def _aligned(values: list[tuple[float, float]], end: float, period: float, *, count: bool) -> list[tuple[float, float]]:
    """Return a value for each period back from `end` that holds any, newest first."""
    periods: dict[int, float] = {}
    for at, value in values:
        number = int((end - at) // period)
        periods[number] = periods.get(number, 0.0) + (1 if count else value)
    return [(end - number * period, value) for number, value in sorted(periods.items())]


def _value(value_type: str, value: float) -> dict[str, Any]:
    return {"int64Value": str(round(value))} if value_type == "INT64" else {"doubleValue": value}


def _seconds(request: Request, name: str) -> float:
    return datetime.fromisoformat(required(request.query.get(name), name)).timestamp()


def _term(term: str) -> tuple[str, str, str]:
    match = re.fullmatch(r'([\w.]+)\s*=\s*(starts_with\()?"([^"]*)"\)?', term.strip())
    if not match:
        raise ErrorAnswer(400, f"Field filter had an invalid value of {term}")
    return match[1], "starts_with" if match[2] else "=", match[3]


def _holds(sample: Sample, path: str, operator: str, value: str) -> bool:
    own = {"metric.type": sample.metric, "resource.type": sample.resource}
    own |= {f"resource.labels.{name}": text for name, text in sample.resource_labels.items()}
    own |= {f"metric.labels.{name}": text for name, text in sample.metric_labels.items()}
    found = own.get(path, "")
    return found.startswith(value) if operator == "starts_with" else found == value
