"""The life of a Cloud Run stack on the real engine with the real gcp provider, against the fake Google Cloud."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from containers import archive
from infra.google.gcp_settings import Api
from tests.engine.harness import TOKEN, Engine, Outcome, serve
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.google.cloud_run import STARTUP_FAILED
from tests.fakes.vllm import FakeVllm

CHANGE = {"gemma4:serving": {"maxModelLen": 4096}}


def engine(tmp_path: Path, google: FakeGoogle, stack: str) -> Engine:
    made = Engine(tmp_path, google, stack, {"gemma4:access": {"invokers": ["group:ml@example.com"]}})
    made.set_secret("gemma4:hfToken", TOKEN)
    return made


LOADING = [
    "(EngineCore pid=284) Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.72s/it]",
    "(EngineCore pid=284) ValueError: No available memory for the cache blocks.",
]
QUIET = {"unchanged"}


class TestARevision:
    def test_that_failed_at_the_first_creation_is_tried_again_with_nothing_changed(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        stack = engine(tmp_path, google, "l4")
        serve(server, google, stack)
        google.run.start_next_revision(LOADING, failure=STARTUP_FAILED)
        failed = stack.up(check=False)
        assert failed.code != 0
        (ours,) = failed.errors
        assert "did not come up: The user-provided container failed the configured startup probe checks." in ours
        assert "Likely: weights and activations leave too little device memory" in ours
        rows = re.findall(
            r"serving-watch creating .*?(waiting for|gemma4-l4-00001-\d+: |did not come up)", failed.output
        )
        assert len(rows) > 2, failed.output
        assert rows[-1] == "did not come up"
        assert failed.output.partition("Diagnostics:")[2].count("No available memory for the cache blocks") == 1
        assert "Traceback" not in failed.output

        previewed = stack.preview()
        assert row(previewed, "serving-service") == "~", previewed.output
        again = stack.up()
        assert len(revisions(google)) == 2, again.output
        assert stack.outputs()["url"] == server.url

        assert set(stack.up().summary) == QUIET
        assert set(stack.up().summary) == QUIET
        assert len(revisions(google)) == 2

    def test_that_failed_at_an_update_leaves_the_old_one_and_is_tried_again(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        stack = engine(tmp_path, google, "l4")
        serve(server, google, stack)
        stack.up()
        stack.configure(CHANGE)
        serve(server, google, stack)
        for count in (2, 3):
            google.run.fail_next_revision(log=LOADING)
            failed = stack.up(check=False)
            assert failed.code != 0
            assert len(failed.errors) == 1, failed.output
            assert "-00001-" in failed.errors[0].partition("goes on serving")[0], failed.output
            assert len(revisions(google)) == count
        again = stack.up()
        assert again.summary["updated"] == 4, again.output  # retry, service, watch and check
        assert set(stack.up().summary) == QUIET
        assert len(revisions(google)) == 4

    def test_is_not_waited_for_where_the_service_was_refused(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        stack = engine(tmp_path, google, "l4")
        serve(server, google, stack)
        google.fault(
            "POST", "/locations/[^/]+/services$", status=400, message="Quota violated: GPUs requested: 2 allowed: 1"
        )
        refused = stack.up(check=False)
        assert refused.code != 0
        assert refused.errors == [], refused.output  # the provider's own refusal is the only one
        assert "Quota violated" in refused.output
        stack.up()
        assert set(stack.up().summary) == QUIET

    def test_of_a_killed_up_is_recognised_and_made_again_after_the_command_that_is_named(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        stack = engine(tmp_path, google, "l4")
        serve(server, google, stack)
        google.run.start_next_revision(LOADING[:1] * 1000)
        running = stack.start("up", "--yes", "--skip-preview")
        deadline = time.monotonic() + 120
        while not google.run.revisions and time.monotonic() < deadline:
            time.sleep(0.5)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        (service,) = google.run.revisions
        google.run.revisions[service][0]["createTime"] = "2026-01-01T00:00:00Z"
        stack.run("cancel", "--yes")

        refused = stack.up(check=False)
        assert refused.code != 0
        assert "already exists" in refused.output, refused.output
        warned = re.search(r"warning: .*`(gcloud run services delete [^`]*)`, then `pulumi up`", refused.output)
        assert warned, refused.output
        assert warned[1] == "gcloud run services delete gemma4-l4 --region us-east4 --project demo-project"

        session(google).delete(Api.CLOUD_RUN, service)
        stack.up()
        assert set(stack.up().summary) == QUIET


def revisions(google: FakeGoogle) -> list[dict[str, Any]]:
    (found,) = google.run.revisions.values()
    return found


def row(outcome: Outcome, name: str) -> str:
    """The sign before a resource in a preview."""
    (line,) = {text.split()[0] for text in outcome.output.splitlines() if f" {name} " in f"{text} "}
    return line


class TestLifecycle:
    def test_up_again_change_and_destroy(self, tmp_path: Path, google: FakeGoogle, server: FakeVllm) -> None:
        stack = engine(tmp_path, google, "l4")
        serve(server, google, stack)
        first = stack.up()
        assert set(first.summary) == {"created"}, first.output
        assert stack.outputs()["url"] == server.url
        (packed,) = (data for (_, name), data in google.storage.contents.items() if name == ".stage/stage.pyz")
        assert packed == archive.stage()  # byte for byte: as text it would not be a program any more
        asked = len(server.requests)

        again = stack.up()
        assert set(again.summary) == {"unchanged"}, again.output
        assert len(server.requests) == asked, "an unchanged stack must not wake the server"

        stack.configure(CHANGE)
        serve(server, google, stack)
        changed = stack.up()
        assert changed.summary["updated"] == 3, changed.output  # the service, its watch and its check
        (revisions,) = google.run.revisions.values()
        assert len(revisions) == 2
        assert len(server.requests) > asked, "a changed flag is checked again"

        stack.destroy()
        assert google.leftovers() == []
        assert google.unknown == []
        assert TOKEN not in json.dumps(
            [request.body for request in google.requests if "addVersion" not in request.path]
        )

    def test_adapters_are_copied_tried_and_leave_nothing(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        own = session(google)
        own.post(Api.STORAGE, "b", {"name": "training", "location": "US-EAST4"}, project="demo-project")
        before, adapters = google.leftovers(), {"tone": f"acme/tone-lora@{'a' * 40}", "style": "gs://training/style"}
        stack = engine(tmp_path, google, "l4")
        stack.configure({"gemma4:serving": {"adapters": adapters}})
        serve(server, google, stack)
        stack.up()
        assert stack.outputs()["adapters"] == ["style", "tone"]
        assert {f"acme/tone-lora/{'a' * 40}", "adapters/training/style"} <= {
            name.rpartition("/")[0] for _, name in google.storage.contents
        }
        assert {"tone", "style"} <= {body["model"] for _, _, body in server.requests if body}
        assert set(stack.up().summary) == QUIET

        stack.configure({"gemma4:serving": {"adapters": {"tone": f"acme/tone-lora@{'b' * 40}"}}})
        serve(server, google, stack)
        stack.up()
        assert len(revisions(google)) == 2, "another commit is another folder, so that the server starts anew"

        stack.destroy()
        assert google.leftovers() == before
        assert google.unknown == []

    def test_a_member_taken_out_loses_its_grant_and_nobody_else_does(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        stack = engine(tmp_path, google, "l4")
        ann, ben = "group:ann@example.com", "group:ben@example.com"
        stack.configure({"gemma4:access": {"invokers": [ann, ben]}})
        serve(server, google, stack)
        stack.up()
        stack.configure({"gemma4:access": {"invokers": [ben]}})
        summary = stack.up().summary
        assert {step for step in summary if step != "unchanged"} == {"deleted"}
        assert summary["deleted"] == 1
        (policy,) = (policy for name, policy in google.world.policies.items() if name.startswith("run/"))
        (binding,) = policy["bindings"]
        invoker = stack.outputs()["invokerAccount"]
        assert set(binding["members"]) == {ben, f"serviceAccount:{invoker}"}

    def test_a_failed_check_fails_up_with_cause_and_log_and_keeps_the_outputs(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        stack = engine(tmp_path, google, "l4")
        serve(server, google, stack)
        server.mode = "cannot generate"
        where = {"service_name": "gemma4-l4", "location": "us-east4"}
        google.logging.add("ValueError: k_scale must be positive", "cloud_run_revision", where)
        failed = stack.up(check=False)
        assert failed.code != 0
        assert "stage chat" in failed.output
        assert "k_scale must be positive" in failed.output
        assert "Traceback" not in failed.output
        assert stack.outputs()["url"] == server.url
        assert TOKEN not in failed.output + json.dumps(stack.state())

        server.mode = "normal"
        assert stack.up().summary["created"] == 1

    def test_staging_that_fails_names_the_job_s_own_words(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        stack = engine(tmp_path, google, "l4")
        serve(server, google, stack)
        google.run.executor = None
        google.run.set_outcome(succeeds=False, polls=1, exit_code=5, log=["the model is gated: accept its licence"])
        failed = stack.up(check=False)
        assert failed.code != 0
        assert "the model is gated: accept its licence" in failed.output
        assert "Traceback" not in failed.output
        stack.destroy()
        assert google.leftovers() == []

    def test_a_docker_hub_account_and_a_dotted_key_reach_google(
        self, tmp_path: Path, google: FakeGoogle, server: FakeVllm
    ) -> None:
        secret = "projects/demo-project/secrets/hub-token"
        google.secretmanager.resources[secret] = {"name": secret, "replication": {"automatic": {}}}
        stack = engine(tmp_path, google, "l4")
        stack.configure({"gemma4:images": {"dockerHubUser": "me", "dockerHubSecret": "hub-token"}})
        stack.run("config", "set", "gemma4:serving.maxModelLen", "4096")
        serve(server, google, stack)
        stack.up()

        (repository,) = google.sent("POST", "/repositories")
        login = repository.body["remoteRepositoryConfig"]["upstreamCredentials"]["usernamePasswordCredentials"]
        assert login == {"username": "me", "passwordSecretVersion": f"{secret}/versions/latest"}
        (grant,) = google.sent("POST", f"{secret}:setIamPolicy")
        (member,) = grant.body["policy"]["bindings"][0]["members"]
        assert member.endswith("@gcp-sa-artifactregistry.iam.gserviceaccount.com")
        (service,) = (one for one in google.sent("POST", "/locations/us-east4/services") if ":" not in one.path)
        assert '"--max-model-len", "4096"' in json.dumps(service.body)
        assert set(stack.up().summary) == QUIET

    def test_refused_settings_stop_before_any_resource(self, tmp_path: Path, google: FakeGoogle) -> None:
        stack = engine(tmp_path, google, "l4-31b")
        stack.configure({"gemma4:serving": {"cpuOffloadGb": 0}})
        refused = stack.preview(check=False)
        assert refused.code != 0
        assert refused.output.split("Diagnostics:")[1].count("error:") == 1, refused.output
        assert "serving.cpuOffloadGb" in refused.output
        assert google.requests == []
