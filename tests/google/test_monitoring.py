"""Cloud Monitoring: what runs now, for how long it has run, and what it does not know."""

from __future__ import annotations

import pytest

from infra.errors import GoogleError
from infra.google.monitoring import BILLABLE_TIME, INSTANCE_COUNT, TPU_CPU, InstanceCount, Monitoring
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import START, FakeTime, session

SERVICE, REGION = "gemma4-l4", "us-east4"


@pytest.fixture
def monitoring(fake: FakeGoogle, time: FakeTime) -> Monitoring:
    return Monitoring(session(fake, time))


def instances(
    fake: FakeGoogle, state: str, value: float, *, ago_s: float = 90, revision: str = "r-2", service: str = SERVICE
) -> None:
    labels = {"service_name": service, "location": REGION, "revision_name": revision}
    fake.time_series.record(
        INSTANCE_COUNT, "cloud_run_revision", labels, value, at=START - ago_s, metric_labels={"state": state}, times=3
    )


def billed(fake: FakeGoogle, seconds: float, *, ago_s: float, service: str = SERVICE, revision: str = "r-2") -> None:
    labels = {"service_name": service, "location": REGION, "revision_name": revision}
    fake.time_series.record(BILLABLE_TIME, "cloud_run_revision", labels, seconds, at=START - ago_s)


def ran(fake: FakeGoogle, node: str, minutes: int, *, ago_s: float = 60, worker: str = "0") -> None:
    labels = {"zone": "us-east5-a", "node_id": node, "worker_id": worker}
    fake.time_series.record(TPU_CPU, "tpu_worker", labels, 3.0, at=START - ago_s, times=minutes)


class TestInstances:
    def test_active_and_idle_instances_of_all_revisions_run(self, fake: FakeGoogle, monitoring: Monitoring) -> None:
        instances(fake, "active", 2)
        instances(fake, "idle", 1)
        instances(fake, "idle", 1, revision="r-1")
        instances(fake, "active", 7, service="other")
        found = monitoring.instances(SERVICE, REGION)
        assert (found.active, found.idle, found.running, found.at) == (2, 2, 4, START - 90)
        assert found.by_revision == {"r-2": 3, "r-1": 1}

    def test_only_the_newest_sample_of_each_state_counts(self, fake: FakeGoogle, monitoring: Monitoring) -> None:
        instances(fake, "active", 5, ago_s=300)
        instances(fake, "active", 1, ago_s=100)
        assert monitoring.instances(SERVICE, REGION).running == 1

    def test_a_revision_without_a_sample_beside_the_newest_has_ended(
        self, fake: FakeGoogle, monitoring: Monitoring
    ) -> None:
        instances(fake, "active", 1, ago_s=100)
        instances(fake, "active", 1, ago_s=400, revision="r-1")
        assert monitoring.instances(SERVICE, REGION).by_revision == {"r-2": 1}

    def test_a_service_without_a_recent_sample_has_none(self, fake: FakeGoogle, monitoring: Monitoring) -> None:
        instances(fake, "active", 1, ago_s=3600)
        assert monitoring.instances(SERVICE, REGION) == InstanceCount()

    def test_a_permission_that_is_missing_is_named_with_its_role(
        self, fake: FakeGoogle, monitoring: Monitoring
    ) -> None:
        message = "Permission 'monitoring.timeSeries.list' denied on resource"
        fake.fault("GET", "/timeSeries", status=403, message=message)
        with pytest.raises(GoogleError, match=r"roles/monitoring\.viewer"):
            monitoring.instances(SERVICE, REGION)


class TestRunningTime:
    def test_billable_time_is_summed_over_revisions_within_the_time_asked_for(
        self, fake: FakeGoogle, monitoring: Monitoring
    ) -> None:
        billed(fake, 30.5, ago_s=60)
        billed(fake, 60, ago_s=5000, revision="r-1")
        billed(fake, 999, ago_s=9000)
        billed(fake, 999, ago_s=60, service="other")
        assert monitoring.service_seconds(SERVICE, REGION, since=START - 7200, until=START) == 90.5

    def test_a_service_without_a_record_is_not_known_to_have_run_for_0_seconds(self, monitoring: Monitoring) -> None:
        assert monitoring.service_seconds(SERVICE, REGION, since=START - 7200, until=START) is None

    def test_less_than_a_minute_is_not_asked_for(self, fake: FakeGoogle, monitoring: Monitoring) -> None:
        assert monitoring.service_seconds(SERVICE, REGION, since=START - 30, until=START) is None
        assert fake.requests == []

    def test_a_machine_ran_for_as_many_minutes_as_it_has_samples(
        self, fake: FakeGoogle, monitoring: Monitoring
    ) -> None:
        ran(fake, "gemma4-v6e4-blue", 90)
        ran(fake, "gemma4-v6e4-blue", 90, worker="1")
        ran(fake, "gemma4-v6e4-blue", 10, ago_s=50_000)
        ran(fake, "gemma4-v6e8-blue", 30)
        found = monitoring.node_seconds("gemma4-v6e4-", since=START - 86_400, until=START)
        assert found == {"gemma4-v6e4-blue": 100 * 60}

    def test_a_metric_that_cloud_monitoring_does_not_know_is_no_record(
        self, fake: FakeGoogle, monitoring: Monitoring
    ) -> None:
        fake.time_series.forgotten = (TPU_CPU,)
        assert monitoring.node_seconds("gemma4-v6e4-", since=START - 86_400, until=START) == {}

    def test_all_pages_are_read(self, fake: FakeGoogle, monitoring: Monitoring) -> None:
        billed(fake, 1, ago_s=60)
        fake.fault(
            "GET",
            "/timeSeries",
            status=200,
            body={"timeSeries": [_row(20.0), _row("30", "int64Value")], "nextPageToken": "0"},
        )
        assert monitoring.service_seconds(SERVICE, REGION, since=START - 7200, until=START) == 51.0


def _row(value: float | str, kind: str = "doubleValue") -> dict[str, object]:
    return {"points": [{"interval": {"endTime": "2027-01-15T00:00:00Z"}, "value": {kind: value}}]}
