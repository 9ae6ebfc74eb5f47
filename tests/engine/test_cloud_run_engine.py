"""The life of a Cloud Run stack on the real engine with the real gcp provider, against the fake Google Cloud."""

from __future__ import annotations

import json
from pathlib import Path

from tests.engine.harness import TOKEN, Engine, serve
from tests.fakes.google import FakeGoogle
from tests.fakes.vllm import FakeVllm

CHANGE = {"gemma4:serving": {"maxModelLen": 4096}}


def engine(tmp_path: Path, google: FakeGoogle, stack: str) -> Engine:
    made = Engine(tmp_path, google, stack, {"gemma4:access": {"invokers": ["group:ml@example.com"]}})
    made.set_secret("gemma4:hfToken", TOKEN)
    return made


class TestLifecycle:
    def test_up_again_change_and_destroy(self, tmp_path: Path, google: FakeGoogle, server: FakeVllm) -> None:
        stack = engine(tmp_path, google, "l4")
        serve(server, google, stack)
        first = stack.up()
        assert set(first.summary) == {"created"}, first.output
        assert stack.outputs()["url"] == server.url
        asked = len(server.requests)

        again = stack.up()
        assert set(again.summary) == {"unchanged"}, again.output
        assert len(server.requests) == asked, "an unchanged stack must not wake the server"

        stack.configure(CHANGE)
        serve(server, google, stack)
        changed = stack.up()
        assert changed.summary["updated"] == 2, changed.output  # the service and its check
        (revisions,) = google.run.revisions.values()
        assert len(revisions) == 2
        assert len(server.requests) > asked, "a changed flag is checked again"

        stack.destroy()
        assert google.leftovers() == []
        assert google.unknown == []
        assert TOKEN not in json.dumps(
            [request.body for request in google.requests if "addVersion" not in request.path]
        )

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

    def test_refused_settings_stop_before_any_resource(self, tmp_path: Path, google: FakeGoogle) -> None:
        stack = engine(tmp_path, google, "l4-31b")
        stack.configure({"gemma4:serving": {"cpuOffloadGb": 0}})
        refused = stack.preview(check=False)
        assert refused.code != 0
        assert refused.output.split("Diagnostics:")[1].count("error:") == 1, refused.output
        assert "serving.cpuOffloadGb" in refused.output
        assert google.requests == []
