"""Cloud Run as the operator's side sees it: executions started once and followed to their end, services read."""

from __future__ import annotations

from typing import Any

import pytest

from infra.errors import GoogleError
from infra.google.cloud_run import CloudRun, Execution, ExecutionState
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session

PARENT = "projects/demo-project/locations/us-east4"


@pytest.fixture
def google(fake: FakeGoogle) -> GoogleSession:
    made = session(fake, FakeTime())
    job = {"template": {"template": {"containers": [{"image": "img"}]}}}
    made.post(Api.CLOUD_RUN, f"{PARENT}/jobs", job, jobId="stage")
    fake.clear()
    return made


@pytest.fixture
def run(google: GoogleSession) -> CloudRun:
    return CloudRun(google, "us-east4")


class TestExecutions:
    def test_overrides_are_sent_only_where_they_are_given(self, fake: FakeGoogle, run: CloudRun) -> None:
        run.start("stage")
        run.start("stage", args=["--only", "x"])
        assert [one.body for one in fake.sent("POST", ":run")] == [
            {},
            {"overrides": {"containerOverrides": [{"args": ["--only", "x"]}]}},
        ]

    def test_one_is_followed_to_its_success(self, fake: FakeGoogle, run: CloudRun) -> None:
        fake.run.set_outcome("stage", polls=3)
        seen: list[Execution] = []
        started = run.start("stage")
        ended = run.wait(started.name, timeout_s=600, progress=seen.append)
        assert (started.state, ended.state) == (ExecutionState.RUNNING, ExecutionState.SUCCEEDED)
        assert [one.done for one in seen] == [False, False, True]
        assert (ended.job, ended.id) == ("stage", ended.name.split("/")[-1])

    def test_a_failure_brings_its_message(self, fake: FakeGoogle, run: CloudRun) -> None:
        fake.run.set_outcome("stage", succeeds=False, message="exit code 3")
        ended = run.wait(run.start("stage").name, timeout_s=60)
        assert (ended.state, ended.message) == (ExecutionState.FAILED, "exit code 3")

    def test_a_cancelled_one_is_told_from_a_failed_one(
        self, fake: FakeGoogle, google: GoogleSession, run: CloudRun
    ) -> None:
        fake.run.set_outcome("stage", polls=99)
        name = run.start("stage").name
        google.post(Api.CLOUD_RUN, f"{name}:cancel", {})
        assert run.wait(name, timeout_s=60).state is ExecutionState.CANCELLED

    def test_waiting_ends_and_the_execution_goes_on(self, fake: FakeGoogle, run: CloudRun) -> None:
        fake.run.set_outcome("stage", polls=99)
        name = run.start("stage").name
        with pytest.raises(GoogleError, match="has not ended within 60 s") as caught:
            run.wait(name, timeout_s=60)
        assert caught.value.reason == "STILL_RUNNING"
        assert not run.execution(name).done

    @pytest.mark.parametrize("fault", [{"drop": "after"}, {"status": 503, "processed": True}])
    def test_a_lost_answer_finds_the_execution_it_started(
        self, fake: FakeGoogle, run: CloudRun, fault: dict[str, Any]
    ) -> None:
        earlier = run.start("stage")
        fake.fault("POST", ":run", **fault)
        ours = run.start("stage")
        assert ours.name != earlier.name
        assert {one.name for one in run.executions("stage")} == {earlier.name, ours.name}

    def test_a_lost_answer_finds_no_execution_of_another_start(self, fake: FakeGoogle, run: CloudRun) -> None:
        """A model's and its assistant's copies are started by the same job at the same time."""
        executions = run.executions
        others: list[Execution] = []

        def meanwhile(job: str) -> tuple[Execution, ...]:
            if fake.sent("POST", ":run") and not others:
                others.append(CloudRun(session(fake), "us-east4").start(job, args=["--repo", "theirs"]))
            return executions(job)

        fake.fault("POST", ":run", drop="after")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "executions", meanwhile)
            ours = run.start("stage", args=["--repo", "ours"])
        assert ours.args == ("--repo", "ours")
        assert ours.name != others[0].name

    @pytest.mark.parametrize("fault", [{"drop": "before"}, {"status": 503}, {"status": 403, "message": "no"}])
    def test_a_start_that_did_not_happen_is_an_error(
        self, fake: FakeGoogle, run: CloudRun, fault: dict[str, Any]
    ) -> None:
        earlier = run.start("stage")
        fake.fault("POST", ":run", **fault)
        with pytest.raises(GoogleError):
            run.start("stage")
        assert [one.name for one in run.executions("stage")] == [earlier.name]

    def test_the_newest_execution_comes_first(self, run: CloudRun) -> None:
        names = [run.start("stage").name for _ in range(3)]
        assert [one.name for one in run.executions("stage")] == names[::-1]

    def test_a_job_that_is_not_there_is_one_sentence(self, run: CloudRun) -> None:
        with pytest.raises(GoogleError, match="nothere") as caught:
            run.start("nothere")
        assert caught.value.status == 404


class TestServices:
    def test_a_ready_service_shows_its_address_and_revision(
        self, fake: FakeGoogle, google: GoogleSession, run: CloudRun
    ) -> None:
        body = {"template": {"containers": [{"image": "img"}]}}
        google.post(Api.CLOUD_RUN, f"{PARENT}/services", body, serviceId="gemma")
        service = run.service("gemma")
        assert (service.ready, service.problem, service.ready_revision) == (True, "", service.created_revision)
        assert service.uri.startswith("https://gemma-")

    def test_a_failed_revision_shows_why_beside_the_one_that_serves(
        self, fake: FakeGoogle, google: GoogleSession, run: CloudRun
    ) -> None:
        body = {"template": {"containers": [{"image": "img"}]}}
        google.post(Api.CLOUD_RUN, f"{PARENT}/services", body, serviceId="gemma")
        fake.run.fail_next_revision("The startup probe failed.")
        google.patch(Api.CLOUD_RUN, f"{PARENT}/services/gemma", {"template": {"containers": [{"image": "bad"}]}})
        service = run.service("gemma")
        assert (service.ready, service.ready_revision != service.created_revision) == (False, True)
        assert "startup probe failed" in service.problem

    def test_a_failure_counts_only_while_nothing_newer_is_under_way(
        self, fake: FakeGoogle, google: GoogleSession, run: CloudRun
    ) -> None:
        fake.run.fail_next_revision()
        body = {"template": {"containers": [{"image": "img"}]}}
        google.post(Api.CLOUD_RUN, f"{PARENT}/services", body, serviceId="gemma")
        failed = run.service("gemma")
        assert failed.failed_revision == failed.created_revision
        raw = fake.run.resources[f"{PARENT}/services/gemma"]
        assert "observedGeneration" not in raw, "Google leaves it where it was"
        raw["reconciling"] = True
        assert run.service("gemma").failed_revision == ""

    def test_google_s_reason_comes_on_one_line_without_its_links(
        self, fake: FakeGoogle, google: GoogleSession, run: CloudRun
    ) -> None:
        fake.run.fail_next_revision()
        body = {"template": {"containers": [{"image": "img"}]}}
        google.post(Api.CLOUD_RUN, f"{PARENT}/services", body, serviceId="gemma")
        service = run.service("gemma")
        revision = run.revision("gemma", service.created_revision)
        assert (revision.failed, revision.ready, revision.succeeded("ContainerReady")) == (True, False, True)
        assert revision.problem.endswith("Logs for this revision might contain more information.")
        assert service.problem.startswith(
            f"Revision '{service.created_revision}' is not ready and cannot serve traffic. "
        )
        assert "http" not in service.problem + revision.problem

    @pytest.mark.parametrize(
        ("traffic", "pinned"),
        [
            ([{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", "percent": 100}], ()),
            ([{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "revision": "g-1", "percent": 100}], ("g-1",)),
            ([{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "revision": "g-1", "tag": "old"}], ()),
        ],
    )
    def test_traffic_taken_from_the_newest_revision_shows(
        self,
        fake: FakeGoogle,
        google: GoogleSession,
        run: CloudRun,
        traffic: list[dict[str, Any]],
        pinned: tuple[str, ...],
    ) -> None:
        body = {"template": {"containers": [{"image": "img"}]}}
        google.post(Api.CLOUD_RUN, f"{PARENT}/services", body, serviceId="gemma")
        fake.run.resources[f"{PARENT}/services/gemma"]["traffic"] = traffic
        assert run.service("gemma").pinned_to == pinned

    def test_a_service_says_who_has_the_traffic_and_how_many_instances_it_keeps(
        self, fake: FakeGoogle, google: GoogleSession, run: CloudRun
    ) -> None:
        scaling = {"minInstanceCount": 1, "maxInstanceCount": 3}
        body = {"template": {"containers": [{"image": "img"}], "scaling": scaling}}
        google.post(Api.CLOUD_RUN, f"{PARENT}/services", body, serviceId="gemma")
        raw = fake.run.resources[f"{PARENT}/services/gemma"]
        raw["traffic"] = [
            {"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", "percent": 70},
            {"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "revision": "old-1", "percent": 30},
            {"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "revision": "old-2", "tag": "look"},
        ]
        service = run.service("gemma")
        assert service.traffic == {service.ready_revision: 70, "old-1": 30}
        assert (service.min_instances, service.max_instances) == (1, 3)
        raw["scaling"] = {"minInstanceCount": 2}
        assert run.service("gemma").min_instances == 2

    def test_a_revision_says_what_it_runs_and_on_what(
        self, fake: FakeGoogle, google: GoogleSession, run: CloudRun
    ) -> None:
        limits = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}
        container = {"image": "img", "command": ["bash"], "args": ["serve", "m"], "resources": {"limits": limits}}
        fake.run.resources[f"{PARENT}/services/gemma"] = {"name": f"{PARENT}/services/gemma"}
        name = f"{PARENT}/services/gemma/revisions/gemma-1"
        node = {"accelerator": "nvidia-l4"}
        fake.run.revisions[f"{PARENT}/services/gemma"] = [
            {"name": name, "containers": [container], "nodeSelector": node}
        ]
        revision = run.revision("gemma", "gemma-1")
        assert (revision.words, revision.accelerator) == (("bash", "serve", "m"), "nvidia-l4")
        assert revision.limits == limits


class TestTraffic:
    @pytest.fixture
    def service(self, google: GoogleSession, run: CloudRun) -> CloudRun:
        for image in ("one", "two"):
            body = {"template": {"containers": [{"image": image, "command": ["vllm"], "args": ["serve", image]}]}}
            if image == "one":
                google.post(Api.CLOUD_RUN, f"{PARENT}/services", body, serviceId="s")
            else:
                google.patch(Api.CLOUD_RUN, f"{PARENT}/services/s", body)
        return run

    def test_revisions_come_newest_first_with_what_they_run(self, service: CloudRun) -> None:
        assert [one.words for one in service.revisions("s")] == [("vllm", "serve", "two"), ("vllm", "serve", "one")]
        assert all(one.ready for one in service.revisions("s"))

    def test_goes_to_one_revision_and_back_to_the_newest_without_a_new_one(
        self, fake: FakeGoogle, service: CloudRun
    ) -> None:
        newest, older = service.revisions("s")
        service.send_traffic("s", older.name)
        assert service.service("s").pinned_to == (older.name,)
        assert service.service("s").traffic == {older.name: 100}
        service.send_traffic("s", None)
        assert (service.service("s").pinned_to, service.service("s").traffic) == ((), {newest.name: 100})
        assert len(service.revisions("s")) == 2
        assert {tuple(one.body) for one in fake.sent("PATCH", "/services/s") if one.query} == {("traffic",)}
