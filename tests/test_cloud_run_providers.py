"""The providers behind a Cloud Run stack: what they do to the fake Google Cloud, when they run again, how they fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.google.access import Access
from infra.google.storage import Bucket
from infra.planning.sources import WeightSet
from infra.providers import serving_check, weights_copy
from infra.providers.serving_check import ServingCheckProvider
from infra.providers.weights_copy import MANIFEST, WeightsCopyProvider, check_manifest
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session
from tests.fakes.staging import stage_into
from tests.fakes.vllm import FakeVllm

REPOSITORY, PREFIX, BUCKET = "google/gemma", "google/gemma/main", "weights"
JOB = {"template": {"template": {"containers": [{"image": "img"}]}}}


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGoogle]:
    with FakeGoogle() as fake:
        time = FakeTime()
        for module in (weights_copy, serving_check):
            monkeypatch.setattr(module, "GoogleSession", lambda _access: session(fake, time))
        yield fake


def provider(made: Any) -> Any:
    made.access = Access(project="demo-project")
    return made


class TestWeightsCopy:
    @pytest.fixture
    def props(self, google: FakeGoogle) -> dict[str, Any]:
        own = session(google)
        from infra.google.access import Api

        own.post(Api.STORAGE, "b", {"name": BUCKET, "location": "US-EAST4"}, project="demo-project")
        own.post(Api.CLOUD_RUN, "projects/demo-project/locations/us-east4/jobs", JOB, jobId="stage")
        google.run.executor = stage_into(google, [WeightSet(REPOSITORY, "main", False, 1)])
        arguments = ["--repo", REPOSITORY, "--revision", "main", "--destination", f"gs://{BUCKET}/{PREFIX}"]
        return {
            "project": "demo-project",
            "region": "us-east4",
            "bucket": BUCKET,
            "prefix": PREFIX,
            "repository": REPOSITORY,
            "revision": "main",
            "job": "stage",
            "arguments": arguments,
            "script": "abc",
        }

    def test_runs_the_job_and_knows_what_it_left(self, google: FakeGoogle, props: dict[str, Any]) -> None:
        outs = provider(WeightsCopyProvider()).create(props).outs
        assert (outs["files"], outs["bytes"]) == (2, 9)
        assert len(google.sent("POST", r"jobs/stage:run")) == 1

    def test_a_failed_job_is_one_message_with_its_own_last_lines(
        self, google: FakeGoogle, props: dict[str, Any]
    ) -> None:
        google.run.executor = None
        google.run.set_outcome(succeeds=False, message="exit code 4", log=["Hugging Face does not accept the token"])
        with pytest.raises(Exception, match="were not copied") as caught:
            provider(WeightsCopyProvider()).create(props)
        assert "exit code 4" in str(caught.value)
        assert "    Hugging Face does not accept the token" in str(caught.value)
        assert type(caught.value).__qualname__ == "gemma4"

    def test_without_a_job_it_only_checks(self, google: FakeGoogle, props: dict[str, Any]) -> None:
        with pytest.raises(Exception, match=f"has no {MANIFEST}"):
            provider(WeightsCopyProvider()).create({**props, "job": ""})
        assert google.sent("POST", r":run") == []

    @pytest.mark.parametrize(
        ("change", "again"), [({"revision": "2"}, True), ({"script": "new"}, True), ({"urn": "u"}, False), ({}, False)]
    )
    def test_runs_again_only_for_what_changes_the_folder(
        self, props: dict[str, Any], change: dict[str, Any], again: bool
    ) -> None:
        olds = {**props, "files": 2, "bytes": 9}
        assert WeightsCopyProvider().diff("id", olds, {**props, **change}).changes is again


class TestManifest:
    @pytest.fixture
    def bucket(self, google: FakeGoogle) -> Bucket:
        from infra.google.access import Api

        session(google).post(Api.STORAGE, "b", {"name": BUCKET, "location": "US"}, project="demo-project")
        google.storage.put_text(BUCKET, f"{PREFIX}/model.safetensors", "weights")
        return Bucket(session(google), BUCKET)

    def manifest(self, google: FakeGoogle, **changes: Any) -> None:
        rows = [{"name": "model.safetensors", "size": changes.pop("size", 7)}]
        text = json.dumps({"repo": REPOSITORY, "bytes": 7, "files": rows, **changes})
        google.storage.put_text(BUCKET, f"{PREFIX}/{MANIFEST}", text)

    def test_a_whole_folder_passes(self, google: FakeGoogle, bucket: Bucket) -> None:
        self.manifest(google)
        assert check_manifest(bucket, PREFIX, REPOSITORY)["bytes"] == 7

    def test_a_file_cut_short_is_named(self, google: FakeGoogle, bucket: Bucket) -> None:
        self.manifest(google, size=8)
        with pytest.raises(Exception, match=r"1 of 1 files are missing or cut short, the first is model\.safetensors"):
            check_manifest(bucket, PREFIX, REPOSITORY)

    def test_another_model_is_refused(self, google: FakeGoogle, bucket: Bucket) -> None:
        self.manifest(google, repo="google/other")
        with pytest.raises(Exception, match="holds google/other, not google/gemma"):
            check_manifest(bucket, PREFIX, REPOSITORY)


class TestServingCheck:
    @pytest.fixture
    def server(self) -> Iterator[FakeVllm]:
        with FakeVllm() as fake:
            yield fake

    @pytest.fixture
    def props(self, google: FakeGoogle, server: FakeVllm) -> dict[str, Any]:
        expected = {"model": "gemma", "specHash": "spec-1", "maxModelLen": 4096.0, "promptTokens": 512.0}
        return {
            "url": server.url,
            "path": "",
            "generation": "rev-1",
            "expected": {**expected, "tools": True, "image": True, "audio": False},
            "predictedKvTokens": [28_000.0, 30_000.0, 32_000.0],
            "readyTimeoutS": 600.0,
            "invoker": "invoker@demo-project.iam.gserviceaccount.com",
            "log": {"kind": "service", "name": "gemma4-l4", "location": "us-east4"},
            "skipped": "",
        }

    def test_keeps_what_it_measured_and_no_token(self, google: FakeGoogle, props: dict[str, Any]) -> None:
        outs = provider(ServingCheckProvider()).create(props).outs
        assert outs["result"]["kv_tokens"] == 30_000
        assert set(outs) == {*props, "result"}
        minted = [request.body for request in google.sent("POST", "generateIdToken")]
        assert minted
        assert "eyJ" not in json.dumps(outs), "a JWT begins like this"

    def test_a_failure_carries_the_server_s_last_lines(
        self, google: FakeGoogle, server: FakeVllm, props: dict[str, Any]
    ) -> None:
        server.mode = "cannot generate"
        where = {"service_name": "gemma4-l4", "location": "us-east4"}
        google.logging.add("ValueError: k_scale must be positive", "cloud_run_revision", where)
        with pytest.raises(Exception, match="stage chat") as caught:
            provider(ServingCheckProvider()).create(props)
        assert str(caught.value).endswith("    ValueError: k_scale must be positive")

    def test_a_missing_role_is_said_before_the_server_is_asked(
        self, google: FakeGoogle, server: FakeVllm, props: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        google.iamcredentials.refuse(props["invoker"])
        with pytest.raises(Exception, match="stage identity"):
            provider(ServingCheckProvider()).create(props)
        assert server.requests == []

    def test_a_fresh_grant_is_waited_for(
        self, google: FakeGoogle, props: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        google.fault("POST", "generateIdToken", times=3, status=403, message="not yet")
        assert provider(ServingCheckProvider()).create(props).outs["result"]["kv_tokens"] == 30_000

    def test_internal_ingress_is_skipped_with_its_reason(self, server: FakeVllm, props: dict[str, Any]) -> None:
        outs = provider(ServingCheckProvider()).create({**props, "skipped": "internal"}).outs
        assert outs["result"] == {"skipped": "internal"}
        assert server.requests == []

    @pytest.mark.parametrize(
        ("change", "again"),
        [
            ({"generation": "rev-2"}, True),
            ({"url": "https://other"}, True),
            ({"predictedKvTokens": [1, 2, 3]}, False),
            ({"readyTimeoutS": 1.0}, False),
            ({}, False),
        ],
    )
    def test_runs_again_only_for_another_server(
        self, props: dict[str, Any], change: dict[str, Any], again: bool
    ) -> None:
        assert ServingCheckProvider().diff("id", {**props, "result": {}}, {**props, **change}).changes is again

    def test_reading_it_asks_nobody(self, server: FakeVllm, props: dict[str, Any]) -> None:
        assert provider(ServingCheckProvider()).read("id", props).outs == props
        assert server.requests == []
