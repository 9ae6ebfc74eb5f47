"""A revision that fails is tried again by the next `up`, and a new one is seen to start: what both resources around a
Cloud Run service do, under a small engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.google.cloud_run import CloudRun
from infra.google.gcp_settings import Api, GcpSettings
from infra.google.session import Retry
from infra.providers import revision_retry
from infra.providers.revision_retry import RevisionRetryProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.service_stack import NAME, SERVICE, ServiceStack, Up
from tests.fakes.slice_stack import Clock

LOADING = [
    "(EngineCore pid=284) Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.72s/it]",
    "(EngineCore pid=284) INFO 09-18 21:36:10 [gpu_model_runner.py:3120] Model loading took 18.21 GiB memory and 190 s",
    "Capturing CUDA graphs (decode, FULL):  40%|████ | 2/5 [00:00<00:00, 37.88it/s]",
]
TOO_BIG = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fake(clock: Clock) -> Iterator[FakeGoogle]:
    with FakeGoogle(clock=clock.clock) as running:
        yield running


@pytest.fixture
def stack(fake: FakeGoogle, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> ServiceStack:
    return ServiceStack(fake, clock, monkeypatch)


def quiet(up: Up) -> bool:
    """Whether nothing was done, said or refused."""
    return up == Up()


class TestAnotherAttempt:
    def test_follows_a_first_creation_that_failed_though_nothing_has_changed(
        self, fake: FakeGoogle, stack: ServiceStack
    ) -> None:
        fake.run.fail_next_revision()
        assert stack.up().errors
        again = stack.up()
        assert again.errors == []
        assert again.steps == ["update retry", "update service", "create watch"]
        assert (len(stack.revisions), stack.serving) == (2, "2")

    def test_follows_an_update_that_failed_while_the_old_revision_goes_on(
        self, fake: FakeGoogle, stack: ServiceStack
    ) -> None:
        stack.up()
        stack.template = {"containers": [{"image": "img", "args": ["serve", "--new"]}]}
        fake.run.fail_next_revision()
        failed = stack.up()
        assert failed.steps == ["update service", "update watch"]
        assert stack.serving == "1"
        assert f"{stack.revisions[0]['name'].rsplit('/', 1)[-1]} goes on serving." in "\n".join(failed.errors)
        assert stack.up().errors == []
        assert (len(stack.revisions), stack.serving) == (3, "3")

    def test_follows_every_failure_and_is_another_one_each_time(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        for _ in range(3):
            fake.run.fail_next_revision()
            assert stack.up().errors
        assert stack.up().errors == []
        assert len({one["annotations"]["gemma4-revision"] for one in stack.revisions}) == len(stack.revisions) == 4

    def test_is_not_made_where_the_last_one_came_up(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        stack.up()
        assert quiet(stack.up())
        fake.run.fail_next_revision()
        stack.template = {"containers": [{"image": "bad"}]}
        stack.up()
        stack.up()
        assert quiet(stack.up())
        assert quiet(stack.up())
        assert len(stack.revisions) == 3

    def test_is_made_by_the_user_s_own_change_and_then_only_once(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.fail_next_revision()
        stack.up()
        stack.template = {"containers": [{"image": "mended"}]}
        assert stack.up().errors == []
        assert quiet(stack.up())
        assert len(stack.revisions) == 2

    def test_is_not_made_while_the_revision_is_on_its_way(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.start_next_revision(LOADING * 100)
        stack.up(killed=True)
        assert CloudRun(stack.session, "us-east4").service(NAME).failed_revision == ""
        assert not stack.retry.diff("id", {**stack.state["retry"].outputs}, stack.state["retry"].outputs).changes

    def test_waits_for_a_service_whose_request_was_refused(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        """The failure is remembered, it has not been tried again yet: it is the service that still differs."""
        fake.run.fail_next_revision()
        stack.up()
        fake.fault("PATCH", "/services/", status=400, message="Quota violated: X requested: 2 allowed: 1")
        assert stack.up().errors
        again = stack.up()
        assert again.steps[0] == "update service"
        assert (again.errors, len(stack.revisions)) == ([], 2)

    def test_counts_a_creation_that_failed_before_any_revision(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.fail_next_revision()
        stack.up()
        del fake.run.resources[SERVICE]["latestCreatedRevision"]
        found = CloudRun(stack.session, "us-east4").service(NAME).failed_revision
        assert found == "generation-1"

    def test_is_remembered_where_the_service_cannot_be_seen_or_has_none(
        self, fake: FakeGoogle, stack: ServiceStack
    ) -> None:
        olds = {
            "project": "demo-project",
            "region": "us-east4",
            "service": "elsewhere",
            "failed_revision": "l4-00001-abc",
        }
        outs = stack.retry.update("id", olds, {**olds, "region": "us-central1"}).outs
        assert outs is not None
        assert outs["failed_revision"] == "l4-00001-abc", "or its template would change once more"

    @pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
    def test_is_not_made_where_google_does_not_say(self, fake: FakeGoogle, stack: ServiceStack, status: int) -> None:
        fake.run.fail_next_revision()
        stack.up()
        fake.fault("GET", f"/services/{NAME}", status=status, times=20)
        kept = stack.state["retry"].outputs
        assert not stack.retry.diff("id", kept, kept).changes

    @pytest.mark.parametrize(
        "gcp",
        [
            GcpSettings(),
            GcpSettings(project="p", credentials="/nowhere.json"),
            GcpSettings(project="p", access_token="t"),
        ],
    )
    def test_is_not_made_and_nothing_is_raised_without_project_credentials_or_network(
        self, gcp: GcpSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(revision_retry, "ONCE_MORE", Retry(attempts=2, first_s=0))
        provider = RevisionRetryProvider()
        provider.gcp = GcpSettings(
            gcp.project,
            gcp.access_token,
            gcp.credentials,
            endpoints=dict.fromkeys(Api, "http://127.0.0.1:9/v2/"),
        )
        place = {"project": "p", "region": "us-east4", "service": "s"}
        assert not provider.diff("s", {**place, "failed_revision": ""}, place).changes

    def test_is_looked_for_without_patience(self) -> None:
        """A network that swallows packets must not hold a preview up for minutes."""
        provider = RevisionRetryProvider()
        provider.gcp = GcpSettings(project="p")
        assert provider.session().timeouts.silence_s is not None


class TestTheRow:
    def test_shows_in_order_what_the_start_is_busy_with(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.start_next_revision([line for line in LOADING for _ in range(4)])
        up = stack.up()
        assert up.errors == []
        (name,) = (one["name"].rsplit("/", 1)[-1] for one in stack.revisions)
        stages = [row.removeprefix(f"{name}: ").partition(" (")[0] for row in up.rows]
        assert list(dict.fromkeys(stages)) == [
            "importing the image",
            "image imported, starting an instance",
            "container started, waiting for its first healthy answer",
            "loading weights, 50 %",
            "weights loaded, compiling",
            "capturing CUDA graphs, 40 %",
            f"{name} is ready",
        ]
        assert up.rows[0].endswith("(0 s of at most 45 min)")

    def test_follows_the_revision_of_this_up_and_no_older_one(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        stack.up()
        stack.template = {"containers": [{"image": "new"}]}
        stack.asks_after_s = 20
        up = stack.up()
        assert up.rows[0].startswith("waiting for Cloud Run to take the request")
        assert up.rows[-1] == f"{stack.revisions[1]['name'].rsplit('/', 1)[-1]} is ready"

    @pytest.mark.parametrize("recovers", [True, False])
    def test_calls_nothing_failed_that_cloud_run_is_still_at(
        self, fake: FakeGoogle, clock: Clock, stack: ServiceStack, recovers: bool
    ) -> None:
        stack.up()
        (revision,) = stack.revisions
        good = revision["conditions"]
        revision["conditions"] = [{"type": "Ready", "state": "CONDITION_FAILED", "message": "No instance came up."}]
        fake.run.resources[SERVICE]["reconciling"] = True
        if recovers:
            clock.at(10, lambda: revision.update(conditions=good))
            outs = stack.watch.update("id", {}, stack.state["watch"].outputs).outs
            assert outs is not None
            assert outs["revision"]
        else:
            with pytest.raises(Exception, match="No instance came up"):
                stack.watch.update("id", {}, stack.state["watch"].outputs)

    def test_takes_no_older_revision_for_the_awaited_one(
        self, fake: FakeGoogle, clock: Clock, stack: ServiceStack
    ) -> None:
        stack.up()
        stack.template = {"containers": [{"image": "new"}]}
        stack.up()
        old, new = (one["name"] for one in stack.revisions)
        service = fake.run.resources[SERVICE]
        service["latestCreatedRevision"] = old  # the request is taken, its revision not made yet
        clock.at(10, lambda: service.update(latestCreatedRevision=new))
        outs = stack.watch.create(stack.state["watch"].outputs).outs
        assert outs is not None
        assert outs["revision"] == new.rsplit("/", 1)[-1]

    def test_ends_soon_where_the_request_was_refused_and_looks_again_next_time(
        self, fake: FakeGoogle, clock: Clock, stack: ServiceStack
    ) -> None:
        fake.fault("POST", "/services", status=400, message="Quota violated: GPUs requested: 2 allowed: 1")
        began = clock.now
        up = stack.up()
        assert [error.partition(":")[0] for error in up.errors] == ["service"], (
            "the refusal is said once, by the service"
        )
        assert clock.now - began <= 120
        assert up.rows[-1].endswith("see the service's own row")
        assert stack.up().steps == ["create service", "update watch"]
        assert quiet(stack.up())

    def test_ends_where_the_service_never_gets_ready_within_pulumi_s_patience(
        self, fake: FakeGoogle, clock: Clock, stack: ServiceStack
    ) -> None:
        stack.up()
        stack.state["watch"].outputs["revision"] = ""
        fake.run.resources[SERVICE]["reconciling"] = True
        stack.revisions[0]["conditions"] = []
        began = clock.now
        up = stack.up()
        assert up.errors == []
        assert 2700 <= clock.now - began < 2760
        assert up.rows[-1].endswith("is not ready yet; the next `pulumi up` follows it again")
        assert stack.state["watch"].outputs["revision"] == ""

    def test_asks_little(self, fake: FakeGoogle, clock: Clock, stack: ServiceStack) -> None:
        fake.run.start_next_revision([LOADING[0]] * 117)
        fake.clear()
        began = clock.now
        stack.up()
        minutes = (clock.now - began) / 60
        assert minutes > 9
        assert len(fake.sent("GET", "/revisions/")) <= 13 * minutes
        assert len(fake.sent("POST", "entries:list")) <= 5 * minutes

    def test_asks_nobody_on_a_refresh(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        stack.up()
        fake.clear()
        stack.refresh()
        assert fake.requests == []

    def test_may_not_read_the_log_and_says_so_and_no_more(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.start_next_revision(LOADING)
        fake.fault("POST", "entries:list", status=403, message="Permission 'logging.logEntries.list' denied", times=99)
        up = stack.up()
        assert up.errors == []
        assert any("its log cannot be read" in row for row in up.rows)

    @pytest.mark.parametrize("path", ["/services/gemma4-l4$", "/revisions/"])
    def test_may_not_look_and_the_up_is_good_all_the_same(
        self, fake: FakeGoogle, clock: Clock, stack: ServiceStack, path: str
    ) -> None:
        fake.fault("GET", path, status=403, message="Permission 'run.services.get' denied", times=99)
        began = clock.now
        up = stack.up()
        assert up.errors == []
        assert clock.now - began < 120
        assert up.rows[-1].startswith("cannot be followed, which does not change the service")

    def test_outlasts_a_refusal_that_passes(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        """An API that was enabled a minute ago, or trouble of Google's own."""
        fake.fault("GET", "/services/gemma4-l4$", status=403, message="not yet", times=5)
        up = stack.up()
        assert up.rows[0].startswith("no answer yet: ")
        assert up.rows[-1].endswith(" is ready")


class TestAFailure:
    def test_says_why_likely_why_and_the_last_lines_once(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.fail_next_revision(log=[LOADING[0], f"(EngineCore pid=1) {TOO_BIG}", "Container called exit(1)."])
        errors = [error for error in stack.up().errors if error.startswith("watch")]
        assert len(errors) == 1
        first, *lines = errors[0].splitlines()
        (name,) = (one["name"].rsplit("/", 1)[-1] for one in stack.revisions)
        assert first == (
            f"watch: revision {name} did not come up: The user-provided container failed the configured startup probe "
            "checks. Logs for this revision might contain more information. Likely: weights and activations leave too "
            "little device memory for the KV cache. Lower serving.maxModelLen or serving.maxNumBatchedTokens, or raise "
            "serving.gpuMemoryUtilization. The next `pulumi up` tries again with a new revision, whether anything else "
            "has changed or not."
        )
        assert lines[0] == "The server's last log lines:"
        assert lines[-1] == "    Container called exit(1)."
        assert errors[0].count(TOO_BIG) == 1
        assert "condition status changed" not in errors[0], "Google's reason stands in the first line"

    def test_shows_the_error_that_a_long_traceback_only_refers_to(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        below = [f'(APIServer pid=1)   File "/vllm/x.py", line {number}, in serve' for number in range(40)]
        end = "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above."
        fake.run.fail_next_revision(log=[*[f"(EngineCore pid=9) {TOO_BIG}"] * 2, *below, end])
        (error,) = (error for error in stack.up().errors if error.startswith("watch"))
        assert error.count(TOO_BIG) == 1
        assert "Likely: weights and activations" in error
        assert error.endswith(end)

    def test_of_a_driver_shows_what_was_found_at_the_start(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        found = "start_on_gpu: driver 535, compatibility library 580"
        error = "(EngineCore pid=9) RuntimeError: Error 803: system has unsupported display driver / cuda driver"
        fake.run.fail_next_revision(log=[found, *["loading"] * 40, error])
        (said,) = (error for error in stack.up().errors if error.startswith("watch"))
        assert f"lines:\n    {found}\n" in said
        assert "Write serving.cudaCompatibility" in said

    def test_of_a_server_that_was_still_loading_names_the_window(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.start_next_revision(LOADING[:1] * 9, failure="The startup probe failed.")
        (error,) = (error for error in stack.up().errors if error.startswith("watch"))
        assert "not ready within the startup probe's window; the last thing it did: loading weights, 50 %" in error

    def test_guesses_nothing_from_a_log_that_cannot_be_read(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.start_next_revision(LOADING, failure="The startup probe failed.")
        fake.fault("POST", "entries:list", status=403, message="Permission 'logging.logEntries.list' denied", times=99)
        (error,) = (error for error in stack.up().errors if error.startswith("watch"))
        assert "Likely" not in error
        assert "(its log cannot be read" in error

    def test_for_want_of_quota_says_where_to_look(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.fail_next_revision("Quota exceeded for total allowable count of GPUs per project per region.")
        (error,) = (error for error in stack.up().errors if error.startswith("watch"))
        assert "Likely: other services, or revisions of this one that serve no longer, hold the region's GPUs" in error
        assert "Quota row" in error

    def test_shows_no_hugging_face_token(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        fake.run.fail_next_revision(log=["401 for hf_0123456789abcdef"])
        assert "hf_0123456789" not in "\n".join(stack.up().errors)

    def test_before_any_revision_is_the_service_s_own_reason(self, fake: FakeGoogle, stack: ServiceStack) -> None:
        stack.up()
        service = fake.run.resources[SERVICE]
        del service["latestCreatedRevision"], service["latestReadyRevision"]
        service["terminalCondition"] |= {"state": "CONDITION_FAILED", "message": "The account cannot be used."}
        with pytest.raises(
            Exception, match=r"service gemma4-l4 did not come up: The account cannot be used\."
        ) as caught:
            stack.watch.update("id", {}, stack.state["watch"].outputs)
        assert type(caught.value).__qualname__ == "gemma4"


class TestAKilledUp:
    def test_that_left_a_service_is_recognised_with_the_command_that_helps(
        self, fake: FakeGoogle, clock: Clock, stack: ServiceStack
    ) -> None:
        fake.run.start_next_revision(LOADING * 100)
        stack.up(killed=True)
        clock.sleep(60)
        began = clock.now
        up = stack.up()
        assert any("already exists" in error for error in up.errors)
        assert clock.now - began < 120, "what is no concern of this one is not waited for"
        (warning,) = up.warnings
        assert f"gcloud run services delete {NAME} --region us-east4 --project demo-project" in warning

    @pytest.mark.parametrize("failed", [False, True])
    def test_is_recognised_when_its_revision_has_come_to_an_end(
        self, fake: FakeGoogle, clock: Clock, stack: ServiceStack, failed: bool
    ) -> None:
        fake.run.start_next_revision([], failure="No GPU." if failed else "")
        stack.up(killed=True)
        for _ in range(3):
            (revision,) = stack.revisions
            stack.session.get(Api.CLOUD_RUN, revision["name"])
        clock.sleep(60)
        assert len(stack.up().warnings) == 1

    def test_is_not_suspected_where_a_first_creation_failed(
        self, fake: FakeGoogle, clock: Clock, stack: ServiceStack
    ) -> None:
        fake.run.fail_next_revision()
        stack.up()
        clock.sleep(7200)
        assert stack.up() == Up(
            steps=["update retry", "update service", "create watch"],
            rows=[f"{stack.revisions[1]['name'].rsplit('/', 1)[-1]} is ready"],
        )

    def test_is_not_suspected_in_a_usual_one(self, fake: FakeGoogle, clock: Clock, stack: ServiceStack) -> None:
        assert stack.up().warnings == []
        clock.sleep(7200)
        stack.template = {"containers": [{"image": "new"}]}
        assert stack.up().warnings == []
        fake.run.fail_next_revision()
        stack.template = {"containers": [{"image": "newer"}]}
        stack.up()
        clock.sleep(7200)
        assert stack.up().warnings == []
