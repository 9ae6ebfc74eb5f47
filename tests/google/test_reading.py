"""What is only read: small objects of a bucket, the last log lines."""

from __future__ import annotations

import pytest

from infra.errors import GoogleError
from infra.google.logs import LogSource, last_lines
from infra.google.storage import Bucket
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session


class TestBucket:
    @pytest.fixture
    def bucket(self, fake: FakeGoogle) -> Bucket:
        fake.storage.put_text("weights", "model/manifest.json", '{"files": 2}')
        return Bucket(session(fake), "weights")

    def test_a_manifest_is_read(self, bucket: Bucket) -> None:
        assert bucket.read_json("model/manifest.json") == {"files": 2}

    def test_what_is_not_there_is_none_and_no_error(self, fake: FakeGoogle, bucket: Bucket) -> None:
        assert bucket.read_json("model/other.json") is None
        assert Bucket(session(fake), "no-bucket").find("a") is None

    def test_a_refusal_is_no_absence(self, fake: FakeGoogle, bucket: Bucket) -> None:
        fake.fault(
            "GET", "/o/", status=403, message="x lacks storage.objects.get: Permission 'storage.objects.get' denied"
        )
        with pytest.raises(GoogleError, match=r"roles/storage\.objectViewer"):
            bucket.read("model/manifest.json")

    def test_what_is_not_json_is_one_sentence(self, fake: FakeGoogle, bucket: Bucket) -> None:
        fake.storage.put_text("weights", "broken", "{")
        with pytest.raises(GoogleError, match="gs://weights/broken is not JSON"):
            bucket.read_json("broken")

    def test_a_big_object_is_never_taken_into_memory(self, fake: FakeGoogle, bucket: Bucket) -> None:
        fake.storage.put_text("weights", "model.safetensors", "x" * (4 * 1024 * 1024 + 1))
        with pytest.raises(GoogleError, match="was not read"):
            bucket.read("model.safetensors")
        assert not [one for one in fake.requests if one.query.get("alt") == "media"]

    def test_of_a_huge_object_a_range_is_read_alone(self, fake: FakeGoogle, bucket: Bucket) -> None:
        fake.storage.put_text("weights", "model.safetensors", "0123456789")
        found = bucket.find("model.safetensors")
        assert found is not None
        assert bucket.read_range(found, 2, 3) == b"234"
        assert bucket.read_range(found, 8, 9) == b"89"

    def test_a_listing_gives_names_and_sizes_below_a_prefix(self, fake: FakeGoogle, bucket: Bucket) -> None:
        fake.storage.put_text("weights", "other/x", "abc")
        assert [(one.name, one.size_bytes) for one in bucket.objects("model/")] == [("model/manifest.json", 12)]
        assert len(list(bucket.objects())) == 2


class TestLogs:
    def test_the_last_lines_come_oldest_first(self, fake: FakeGoogle) -> None:
        for number in range(5):
            fake.logging.add(f"line {number}", "cloud_run_revision", {"service_name": "gemma", "location": "us-east4"})
        source = LogSource.service("gemma", "us-east4")
        assert last_lines(session(fake), source, limit=2) == ("line 3", "line 4")

    @pytest.mark.parametrize(
        ("source", "resource", "labels", "own"),
        [
            (
                LogSource.service("gemma", "us-east4", "gemma-00002"),
                "cloud_run_revision",
                {"service_name": "gemma", "location": "us-east4", "revision_name": "gemma-00002"},
                {},
            ),
            (
                LogSource.job("stage", "us-east4", "stage-abc"),
                "cloud_run_job",
                {"job_name": "stage", "location": "us-east4"},
                {"run.googleapis.com/execution_name": "stage-abc"},
            ),
            (
                LogSource.machine("gemma4-a", "us-east5-a"),
                "generic_node",
                {"namespace": "gemma4", "node_id": "gemma4-a", "location": "us-east5-a"},
                {},
            ),
        ],
        ids=["service", "job", "tpu"],
    )
    def test_each_source_sees_its_own_entries_only(
        self, fake: FakeGoogle, source: LogSource, resource: str, labels: dict[str, str], own: dict[str, str]
    ) -> None:
        fake.logging.add("mine", resource, labels, own)
        changed = {key: f"{value}-other" for key, value in labels.items()}
        fake.logging.add("of another", resource, changed, own)
        fake.logging.add("of another kind", "gce_instance", labels, own)
        assert last_lines(session(fake), source) == ("mine",)

    def test_structured_and_system_entries_are_text_too(self, fake: FakeGoogle) -> None:
        labels = {"service_name": "gemma", "location": "us-east4"}
        fake.logging.add("", "cloud_run_revision", labels, jsonPayload={"message": "from json"})
        fake.logging.add("", "cloud_run_revision", labels, jsonPayload={"a": 1})
        fake.logging.add("", "cloud_run_revision", labels, protoPayload={"status": {"message": "probe failed"}})
        fake.logging.add("", "cloud_run_revision", labels, httpRequest={})
        lines = last_lines(session(fake), LogSource.service("gemma", "us-east4"))
        assert lines == ("from json", '{"a": 1}', "probe failed")

    def test_entries_before_a_moment_are_left_out(self, fake: FakeGoogle) -> None:
        labels = {"service_name": "gemma", "location": "us-east4"}
        fake.logging.add("old", "cloud_run_revision", labels, timestamp="2026-01-01T00:00:00Z")
        fake.logging.add("new", "cloud_run_revision", labels, timestamp="2026-03-01T00:00:00Z")
        source = LogSource.service("gemma", "us-east4")
        assert last_lines(session(fake), source, since="2026-02-01T00:00:00Z") == ("new",)

    def test_a_token_that_somebody_logged_is_blotted_out(self, fake: FakeGoogle) -> None:
        labels = {"service_name": "gemma", "location": "us-east4"}
        fake.logging.add("HF_TOKEN=hf_abcdefghijklmnop wrong", "cloud_run_revision", labels)
        assert last_lines(session(fake), LogSource.service("gemma", "us-east4")) == ("HF_TOKEN=[secret] wrong",)

    def test_a_name_cannot_break_out_of_the_query(self) -> None:
        assert r'service_name="a\" OR \"b"' in LogSource.service('a" OR "b', "r").query()
