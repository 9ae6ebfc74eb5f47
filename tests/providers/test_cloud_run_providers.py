"""The providers behind a Cloud Run stack: what they do to the fake Google Cloud, when they run again, how they fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from containers.weights.gemma4_stage import model_copy
from containers.weights.gemma4_stage.exit_codes import ExitCode
from infra.google.cloud_run import CloudRun
from infra.google.gcp_settings import Api, GcpSettings
from infra.google.storage import Bucket
from infra.google.weights_manifest import check_manifest
from infra.planning.artifacts import MANIFEST, WeightSet
from infra.providers import serving_check, weights_copy
from infra.providers.serving_check import ServingCheckProvider
from infra.providers.weights_copy import NEWER, WeightsCopyProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session
from tests.fakes.staging import stage_into
from tests.fakes.vllm import FakeVllm

REPOSITORY, PREFIX, BUCKET = "google/gemma", "google/gemma/main", "weights"
JOB = {"template": {"template": {"containers": [{"image": "img"}]}}}


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch, time: FakeTime) -> Iterator[FakeGoogle]:
    with FakeGoogle() as fake:
        for module in (weights_copy, serving_check):
            monkeypatch.setattr(module, "GoogleSession", lambda _access: session(fake, time))
        yield fake


def provider(made: Any) -> Any:
    made.gcp = GcpSettings(project="demo-project")
    return made


class TestWeightsCopy:
    @pytest.fixture
    def props(self, google: FakeGoogle) -> dict[str, Any]:
        own = session(google)
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
            "program_hash": "abc",
        }

    def test_runs_the_job_and_knows_what_it_left(self, google: FakeGoogle, props: dict[str, Any]) -> None:
        outs = provider(WeightsCopyProvider()).create(props).outs
        assert (outs["files"], outs["bytes"]) == (2, 9)
        assert len(google.sent("POST", r"jobs/stage:run")) == 1

    def test_a_failed_job_is_one_message_with_its_own_last_lines(
        self, google: FakeGoogle, props: dict[str, Any]
    ) -> None:
        google.run.executor = None
        google.run.set_outcome(succeeds=False, exit_code=4, log=["Hugging Face does not accept the token"])
        with pytest.raises(Exception, match="were not copied") as caught:
            provider(WeightsCopyProvider()).create(props)
        assert "exit code 4" in str(caught.value)
        assert "    Hugging Face does not accept the token" in str(caught.value)
        assert type(caught.value).__qualname__ == "gemma4"

    @pytest.mark.parametrize("code", [4, 5, 6, 8, 9])
    def test_what_another_run_cannot_mend_is_not_run_again(
        self, google: FakeGoogle, props: dict[str, Any], code: int
    ) -> None:
        google.run.executor = None
        google.run.set_outcome(succeeds=False, exit_code=code)
        with pytest.raises(Exception, match=f"were not copied.*exit code {code}"):
            provider(WeightsCopyProvider()).create(props)
        assert len(google.run.executions) == 1

    @pytest.mark.parametrize("code", [None, 2, 7])
    def test_a_start_before_its_grants_count_is_tried_again(
        self,
        google: FakeGoogle,
        time: FakeTime,
        props: dict[str, Any],
        code: int | None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        stage, began, sleep = google.run.executor, time.now, time.sleep

        def sleeping(seconds: float) -> None:
            sleep(seconds)
            google.run.executor = stage if time.now - began >= 540 else None

        monkeypatch.setattr(time, "sleep", sleeping)
        google.run.executor = None
        google.run.set_outcome(succeeds=False, exit_code=code)
        assert provider(WeightsCopyProvider()).create(props).outs["files"] == 2

    def test_patience_with_grants_ends_after_ten_minutes(
        self, google: FakeGoogle, time: FakeTime, props: dict[str, Any]
    ) -> None:
        google.run.executor, began = None, time.now
        google.run.set_outcome(succeeds=False, exit_code=7)
        with pytest.raises(Exception, match="were not copied"):
            provider(WeightsCopyProvider()).create(props)
        assert 600 <= time.now - began < 640

    def test_a_run_that_gave_up_gets_three_more(self, google: FakeGoogle, props: dict[str, Any]) -> None:
        google.run.executor = None
        google.run.set_outcome(succeeds=False, exit_code=1)
        with pytest.raises(Exception, match="were not copied"):
            provider(WeightsCopyProvider()).create(props)
        assert len(google.run.executions) == 4

    def test_a_run_that_somebody_cancelled_is_not_started_again(
        self, google: FakeGoogle, props: dict[str, Any]
    ) -> None:
        google.run.executor = None
        google.run.set_outcome(polls=99)

        def cancel(seconds: float) -> None:
            for name in google.run.executions:
                session(google).post(Api.CLOUD_RUN, f"{name}:cancel", {})

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FakeTime, "sleep", lambda _self, seconds: cancel(seconds))
            with pytest.raises(Exception, match="the staging job cancelled"):
                provider(WeightsCopyProvider()).create(props)
        assert len(google.run.executions) == 1

    def test_a_running_execution_of_an_interrupted_up_is_joined(
        self, google: FakeGoogle, props: dict[str, Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        left = CloudRun(session(google), "us-east4").start("stage", args=props["arguments"])
        assert provider(WeightsCopyProvider()).create(props).outs["files"] == 2
        assert list(google.run.executions) == [left.name]
        assert f"execution {left.id} of an earlier `pulumi up`" in capsys.readouterr().out

    def test_an_execution_for_another_folder_is_not_joined(self, google: FakeGoogle, props: dict[str, Any]) -> None:
        google.run.executor, stage = None, google.run.executor
        google.run.set_outcome(polls=99)
        CloudRun(session(google), "us-east4").start("stage", args=["--repo", "google/other"])
        google.run.executor = stage
        provider(WeightsCopyProvider()).create(props)
        assert len(google.run.executions) == 2

    def test_after_a_joined_execution_that_failed_it_starts_its_own(
        self, google: FakeGoogle, props: dict[str, Any]
    ) -> None:
        google.run.executor, stage = None, google.run.executor
        google.run.set_outcome(succeeds=False, exit_code=4, polls=2)  # perhaps with the token that was wrong before
        CloudRun(session(google), "us-east4").start("stage", args=props["arguments"])
        google.run.executor = stage
        assert provider(WeightsCopyProvider()).create(props).outs["files"] == 2

    def test_a_branch_that_has_moved_is_a_warning(
        self, google: FakeGoogle, props: dict[str, Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        stage = google.run.executor
        assert stage is not None
        note = f"Nothing to do. main has a {NEWER} {'b' * 40}, which is left alone."
        google.run.executor = lambda job, given: replace(stage(job, given), log=[note])
        assert provider(WeightsCopyProvider()).create(props).outs["commit"] == "0" * 40
        assert note in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("adapter", "words"),
        [
            ({"rank": 32}, "serving.adapterRank"),
            (None, "not filled as a LoRA adapter"),
            ({"rank": "16"}, "not filled as a LoRA adapter"),
            ({"rank": 16}, ""),
        ],
    )
    def test_a_filled_folder_holds_an_adapter_of_the_rank_that_has_room(
        self, google: FakeGoogle, props: dict[str, Any], adapter: dict[str, int] | None, words: str
    ) -> None:
        manifest = {"repo": "gs://weights/mine/tone", "bytes": 1, "files": [{"name": "adapter_config.json", "size": 1}]}
        bucket = props["bucket"]
        place = f"gs://{bucket}/mine/tone"
        text = json.dumps({**manifest, **({"adapter": adapter} if adapter else {})})
        google.storage.put_text(bucket, f"mine/tone/{MANIFEST}", text)
        google.storage.put_text(bucket, "mine/tone/adapter_config.json", "1")
        asked = ["--repo", place, "--destination", place, "--adapter-rank", "16"]
        existing = {**props, "job": "", "prefix": "mine/tone", "repository": place, "arguments": asked}
        if words:
            with pytest.raises(Exception, match=words):
                provider(WeightsCopyProvider()).create(existing)
        else:
            assert provider(WeightsCopyProvider()).create(existing).outs["files"] == 1

    def test_the_copy_says_newer_commit_and_ends_with_these_codes(self) -> None:
        """The two programs share no code: what one says, the other reads."""
        assert model_copy.NEWER == NEWER
        names = {
            "TOKEN": 4,
            "GATED": 5,
            "NOT_FOUND": 6,
            "MANIFEST": 8,
            "DISTRUST": 9,
            "USAGE": 2,
            "BUCKET": 7,
            "ADAPTER": 10,
        }
        assert {name: ExitCode[name] for name in names} == names
        assert {4, 5, 6, 8, 9, 10} == weights_copy._PERMANENT
        assert {None, 2, 7} == weights_copy._UNSETTLED

    def test_without_a_job_it_only_checks(self, google: FakeGoogle, props: dict[str, Any]) -> None:
        with pytest.raises(Exception, match=f"has no {MANIFEST}"):
            provider(WeightsCopyProvider()).create({**props, "job": ""})
        assert google.sent("POST", r":run") == []

    @pytest.mark.parametrize(
        ("change", "again"),
        [({"revision": "2"}, True), ({"program_hash": "new"}, True), ({"urn": "u"}, False), ({}, False)],
    )
    def test_runs_again_only_for_what_changes_the_folder(
        self, props: dict[str, Any], change: dict[str, Any], again: bool
    ) -> None:
        olds = {**props, "files": 2, "bytes": 9}
        assert WeightsCopyProvider().diff("id", olds, {**props, **change}).changes is again


class TestManifest:
    @pytest.fixture
    def bucket(self, google: FakeGoogle) -> Bucket:
        session(google).post(Api.STORAGE, "b", {"name": BUCKET, "location": "US"}, project="demo-project")
        google.storage.put_text(BUCKET, f"{PREFIX}/model.safetensors", "weights")
        return Bucket(session(google), BUCKET)

    def manifest(self, google: FakeGoogle, **changes: Any) -> None:
        rows = [{"name": "model.safetensors", "size": changes.pop("size", 7)}]
        text = json.dumps({"repo": REPOSITORY, "bytes": 7, "files": rows, **changes})
        google.storage.put_text(BUCKET, f"{PREFIX}/{MANIFEST}", text)

    def test_a_whole_folder_passes(self, google: FakeGoogle, bucket: Bucket) -> None:
        self.manifest(google)
        assert check_manifest(bucket, PREFIX, REPOSITORY, "main")["bytes"] == 7

    def test_a_file_cut_short_is_named(self, google: FakeGoogle, bucket: Bucket) -> None:
        self.manifest(google, size=8)
        with pytest.raises(Exception, match=r"1 of 1 files are missing or cut short, the first is model\.safetensors"):
            check_manifest(bucket, PREFIX, REPOSITORY, "main")

    def test_another_model_is_refused(self, google: FakeGoogle, bucket: Bucket) -> None:
        self.manifest(google, repo="google/other")
        with pytest.raises(Exception, match="holds google/other, not google/gemma"):
            check_manifest(bucket, PREFIX, REPOSITORY, "main")

    def test_another_commit_than_was_counted_is_refused(self, google: FakeGoogle, bucket: Bucket) -> None:
        counted, there = "a" * 40, "b" * 40
        self.manifest(google, revision=there)
        with pytest.raises(Exception, match=f"at {there}, not at {counted}.*gemma4 pin"):
            check_manifest(bucket, PREFIX, REPOSITORY, counted)
        self.manifest(google, revision=counted)
        assert check_manifest(bucket, PREFIX, REPOSITORY, counted)["revision"] == counted


class TestServingCheck:
    @pytest.fixture
    def server(self) -> Iterator[FakeVllm]:
        with FakeVllm() as fake:
            yield fake

    @pytest.fixture
    def props(self, google: FakeGoogle, server: FakeVllm) -> dict[str, Any]:
        expected = {"model": "gemma", "spec_hash": "spec-1", "max_model_len": 4096.0, "prompt_tokens": 512.0}
        return {
            "url": server.url,
            "path": "",
            "generation": "rev-1",
            "expected": {**expected, "tools": True, "image": True, "audio": False},
            "predicted_kv_tokens": [28_000.0, 30_000.0, 32_000.0],
            "ready_timeout_s": 600.0,
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

    @pytest.fixture
    def service(self, google: FakeGoogle, server: FakeVllm, props: dict[str, Any]) -> dict[str, Any]:
        """A service that serves another specification than the check waits for, which gives up at once."""
        google.run.serve_at(server.url)
        body = {"template": {"containers": [{"image": "img"}]}}
        own = session(google)
        own.post(Api.CLOUD_RUN, "projects/demo-project/locations/us-east4/services", body, serviceId="gemma4-l4")
        server.spec_hash = "spec-0"
        props["ready_timeout_s"] = 1.0
        return google.run.resources["projects/demo-project/locations/us-east4/services/gemma4-l4"]

    def test_names_the_revision_that_failed_and_why_and_guesses_no_other_cause(
        self, google: FakeGoogle, props: dict[str, Any], service: dict[str, Any]
    ) -> None:
        google.run.fail_next_revision()
        session(google).patch(Api.CLOUD_RUN, service["name"], {"template": {"containers": [{"image": "bad"}]}})
        with pytest.raises(Exception, match="another specification is still served") as caught:
            provider(ServingCheckProvider()).create(props)
        first = str(caught.value).splitlines()[0]
        assert "Cloud Run has given up on the newest revision: Revision 'gemma4-l4-00002-" in first
        assert first.endswith("The next `pulumi up` tries again with a new one.")
        assert "Likely" not in first

    def test_names_traffic_that_an_up_does_not_touch(
        self, props: dict[str, Any], service: dict[str, Any], google: FakeGoogle
    ) -> None:
        target = {"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "revision": "gemma4-l4-00001-abc", "percent": 100}
        google.run.resources[service["name"]]["traffic"] = [target]
        with pytest.raises(Exception, match="another specification") as caught:
            provider(ServingCheckProvider()).create(props)
        assert "update-traffic gemma4-l4 --to-latest --region us-east4" in str(caught.value)

    def test_advises_no_second_up_where_cloud_run_sees_nothing_wrong(
        self, props: dict[str, Any], service: dict[str, Any]
    ) -> None:
        with pytest.raises(Exception, match="change what it names, then run `pulumi up`"):
            provider(ServingCheckProvider()).create(props)

    def test_asks_cloud_run_nothing_about_a_slice(
        self, google: FakeGoogle, props: dict[str, Any], service: dict[str, Any]
    ) -> None:
        google.clear()
        with pytest.raises(Exception, match="another specification"):
            provider(ServingCheckProvider()).create({**props, "log": {**props["log"], "kind": "machine"}})
        assert google.sent("GET", "/services/") == []

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
            ({"predicted_kv_tokens": [1, 2, 3]}, False),
            ({"ready_timeout_s": 1.0}, False),
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
