"""`gemma4 preflight` on the fake Google: what it prints, its exit codes, and what it reads of the Pulumi CLI."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.google.session import Retry
from infra.ops import google_access
from infra.ops.commands import preflight as preflight_command
from infra.ops.pulumi_cli import named_resources, read_pulumi
from infra.preflight import run_checks as runner
from infra.preflight.preflight_check import PreflightCheck, ok
from infra.preflight.subject import PulumiState, Subject
from tests.fakes.google import FakeGoogle
from tests.fakes.google.wire import permission_denied, service_disabled
from tests.fakes.hub_headers import HubOfHeaders
from tests.fakes.registry import FakeRegistry
from tests.preflight.ready_project import ReadyProject
from tests.projects import Capture, Command, command


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadyProject]:
    """The stack l4 with nothing in its way, and the command line pointed at it."""
    for variable in ("HF_TOKEN", "GOOGLE_CLOUD_PROJECT", "GOOGLE_PROJECT", "GOOGLE_OAUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name.startswith("pulumi") else real(name))
    monkeypatch.setattr(google_access, "ONCE_MORE", Retry(attempts=1))
    hub, registry = HubOfHeaders(), FakeRegistry({})
    with FakeGoogle() as google:
        project = ReadyProject(tmp_path, "l4", google, hub, registry)
        project.prepare()
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setattr(preflight_command, "REGISTRY", registry.url)
        monkeypatch.setattr(preflight_command, "read_pulumi", lambda *_: project.pulumi)
        monkeypatch.chdir(tmp_path)
        yield project
    hub.close()
    registry.close()


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


class TestAnswer:
    def test_all_green_is_zero_and_names_what_comes_next(self, ready: ReadyProject, gemma4: Command) -> None:
        said = gemma4("preflight", "l4")
        assert said.code == 0, said.out + said.err
        assert "checks passed" in said.out.splitlines()[0]
        assert said.out.splitlines()[-1] == "Next: pulumi up -s l4"
        assert ready.changes() == []

    def test_an_obstacle_is_three_and_its_command_stands_on_a_line_of_its_own(
        self, ready: ReadyProject, gemma4: Command
    ) -> None:
        ready.google.cloudbilling.account = ""
        said = gemma4("preflight", "l4")
        assert said.code == 3
        assert "1 of " in said.out.splitlines()[0]
        fix = "gcloud billing projects link demo-project --billing-account ACCOUNT"
        assert fix in [line.strip() for line in said.out.splitlines()]

    def test_what_could_not_be_asked_is_one_and_says_why(self, ready: ReadyProject, gemma4: Command) -> None:
        refusal = permission_denied("cloudquotas.quotas.get", "projects/demo-project")
        ready.google.refuse("GET", "/cloudquotas/", refusal, times=99)
        said = gemma4("preflight", "l4", "--json")
        assert (said.code, said.data["verdict"]) == (1, "unknown")
        assert [row["id"] for row in said.data["obstacles"]] == ["quota-gpu", "quota-memory", "quota-cpu"]
        assert "roles/cloudquotas.viewer" in said.data["obstacles"][0]["fact"]

    def test_policies_of_the_organization_that_may_not_be_read_change_no_exit_code(
        self, ready: ReadyProject, gemma4: Command
    ) -> None:
        ready.google.refuse("GET", "/orgpolicy/", permission_denied("orgpolicy.policy.get", "x"), times=99)
        said = gemma4("preflight", "l4", "--json")
        assert (said.code, said.data["verdict"]) == (0, "ready")
        assert {row["state"] for row in said.data["obstacles"]} == {"unknown"}

    def test_it_fits_into_the_context_of_a_model(self, ready: ReadyProject, gemma4: Command) -> None:
        assert len(gemma4("preflight", "l4", "--json").out) < 4096

    def test_only_asks_what_is_named_and_what_that_needs(self, ready: ReadyProject, gemma4: Command) -> None:
        data = gemma4("preflight", "l4", "--json", "--only", "quota", "--only", "plan").data
        asked = [row["id"] for row in data["passed"]]
        assert asked == ["plan", "project", "quota-gpu", "quota-memory", "quota-cpu", "quota-networks"]
        ready.google.clear()
        gemma4("preflight", "l4", "--only", "plan")
        assert ready.google.requests == []

    def test_a_first_gpu_quota_that_reads_as_zero_is_not_called_a_refusal(
        self, ready: ReadyProject, gemma4: Command
    ) -> None:
        quota = "NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion"
        ready.google.cloudquotas.set_quota("run.googleapis.com", quota, "us-east4", 0)
        said = gemma4("preflight", "l4", "--json", "--only", "quota-gpu")
        assert said.code == 1
        assert "with the first deployment" in said.data["obstacles"][0]["fact"]

    def test_gpus_that_other_services_may_take_are_named_and_not_called_a_refusal(
        self, ready: ReadyProject, gemma4: Command
    ) -> None:
        here = "projects/demo-project/locations/us-east4/services"
        for name in ("gemma4-l4", "other"):  # the stack's own does not count beside itself
            template = {"scaling": {"maxInstanceCount": 1}, "nodeSelector": {"accelerator": "nvidia-l4"}}
            ready.google.run.resources[f"{here}/{name}"] = {"name": f"{here}/{name}", "template": template}
        said = gemma4("preflight", "l4", "--json", "--only", "quota-gpu")
        assert said.code == 1
        assert "other services there may grow to 1:" in said.data["obstacles"][0]["fact"]

    def test_an_api_that_is_off_names_the_command_that_enables_it(self, ready: ReadyProject, gemma4: Command) -> None:
        refusal = service_disabled("cloudquotas.googleapis.com", "demo-project")
        ready.google.refuse("GET", "/cloudquotas/", refusal, times=99)
        row = gemma4("preflight", "l4", "--json", "--only", "quota-cpu").data["obstacles"][0]
        assert row["fix"] == ["gcloud services enable cloudquotas.googleapis.com --project demo-project"]

    def test_no_token_is_ever_printed(self, ready: ReadyProject, gemma4: Command, monkeypatch: Any) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_wrongButSecret")
        said = gemma4("preflight", "l4")
        assert said.code == 3
        assert "wrong, expired or revoked" in " ".join(said.out.split())
        assert "hf_wrong" not in said.out + said.err

    def test_without_a_network_it_fails_in_a_line(
        self, ready: ReadyProject, gemma4: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = ready.folder / "Pulumi.l4.yaml"
        path.write_text(path.read_text().replace(ready.google.url, "http://127.0.0.1:9"))
        said = gemma4("preflight", "l4")
        assert said.code == 1
        assert said.err.splitlines()[-1].startswith("failed: GET projects/demo-project was not sent to cloudresource")

    def test_refused_credentials_leave_google_alone(self, ready: ReadyProject, gemma4: Command) -> None:
        ready.google.expire("fake-access-token")
        said = gemma4("preflight", "l4", "--json")
        assert said.code == 3
        assert "not asked, because project failed" in {row["fact"] for row in said.data["obstacles"]}
        assert len(ready.google.requests) == 1
        assert gemma4("preflight", "l4").out.count("not asked, because project failed") == 1

    def test_a_permission_that_google_cannot_test_on_a_project_does_not_spoil_the_others(
        self, ready: ReadyProject, gemma4: Command
    ) -> None:
        ready.google.crm.untestable.add("run.jobs.runWithOverrides")
        passed = {row["id"]: row["fact"] for row in gemma4("preflight", "l4", "--json").data["passed"]}
        assert "run.jobs.runWithOverrides cannot be asked" in passed["permissions"]
        ready.google.crm.deny("run.services.create")
        said = gemma4("preflight", "l4", "--json")
        assert "1 of " in said.data["obstacles"][0]["fact"]

    def test_a_stack_that_is_deployed_has_its_names(self, ready: ReadyProject, gemma4: Command) -> None:
        bucket, service = (
            "demo-project-gemma4-l4-weights",
            "projects/demo-project/locations/us-east4/services/gemma4-l4",
        )
        ready.google.storage.put_text(bucket, "x", "")
        ready.google.run.resources[service] = {}
        kept = {("gcp:storage/bucket:Bucket", bucket), ("gcp:cloudrunv2/service:Service", "gemma4-l4")}
        ready.pulumi = replace(ready.pulumi, resources=frozenset(kept))
        assert gemma4("preflight", "l4").code == 0


class TestSlices:
    def test_the_stacks_own_chips_do_not_count_against_it(self, ready: ReadyProject, gemma4: Command) -> None:
        from tests.preflight.test_obstacles import queue

        ready.stack, ready.settings = "v6e4", {}
        ready.prepare()
        queue(ready, "gemma4-v6e4-blue", "us-east5-a", "FAILED", app="gemma4", stack="v6e4", slice="blue")
        assert gemma4("preflight", "v6e4").code == 0


class TestRunner:
    def test_checks_are_asked_side_by_side_and_never_more_than_the_bound(self) -> None:
        """Every check waits until as many run as may: it would wait for ever if they ran one after the other."""
        together = threading.Barrier(runner.AT_ONCE, timeout=20)
        running, most, lock = 0, 0, threading.Lock()

        def ask(_: Subject) -> Any:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            together.wait()
            with lock:
                running -= 1
            return ok("")

        checks = [PreflightCheck(f"c{number}", "", ask) for number in range(2 * runner.AT_ONCE)]
        results = runner.run_checks(checks, Subject(None, lambda: None))  # type: ignore[arg-type,return-value]
        assert [*results] == [check.id for check in checks]
        assert most == runner.AT_ONCE

    def test_a_fault_of_a_check_is_not_hidden(self) -> None:
        def ask(_: Subject) -> Any:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            runner.run_checks([PreflightCheck("c", "", ask)], Subject(None, lambda: None))  # type: ignore[arg-type,return-value]


class TestPulumiCli:
    @pytest.fixture
    def cli(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A `pulumi` that prints the file of its first word, `<word>.out`, or fails with `<word>.err`."""
        script = tmp_path / "pulumi"
        here = f'f="{tmp_path}/$1"'
        script.write_text(f'#!/bin/sh\n{here}\n[ -f "$f.err" ] && {{ cat "$f.err" >&2; exit 255; }}\ncat "$f.out"\n')
        script.chmod(0o755)
        (tmp_path / "version.out").write_text("v3.259.0\n")
        (tmp_path / "plugin.out").write_text(json.dumps([{"name": "gcp", "kind": "resource", "version": "10.2.0"}]))
        (tmp_path / "stack.out").write_text(json.dumps({"deployment": {"resources": []}}))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path

    def test_says_version_plugins_and_names(self, cli: Path) -> None:
        found = read_pulumi(cli, "l4")
        assert (found.version, found.resources, found.problem) == ("3.259.0", frozenset(), "")
        assert found.plugins is not None
        assert found.plugins[0]["version"] == "10.2.0"

    @pytest.mark.parametrize(
        ("said", "resources", "fix"),
        [
            ("error: no stack named 'l4' found", frozenset(), ""),
            (
                "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions",
                None,
                "pulumi login",
            ),
            ("error: bucket not reachable", None, "pulumi stack export -s l4"),
        ],
    )
    def test_tells_a_stack_that_is_not_there_from_a_state_that_cannot_be_read(
        self, cli: Path, said: str, resources: Any, fix: str
    ) -> None:
        (cli / "stack.err").write_text(said)
        found = read_pulumi(cli, "l4")
        assert (found.resources, found.fix) == (resources, fix)

    def test_without_a_cli_it_says_so(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert read_pulumi(tmp_path, "l4") == PulumiState(resources=None, problem="there is no Pulumi CLI on the PATH")

    def test_names_are_those_of_the_cloud(self) -> None:
        resources = [
            {"type": "t:a", "inputs": {"name": "old"}, "outputs": {"name": "new"}},
            {"type": "t:b", "outputs": {"accountId": "account"}},
            {"type": "t:c"},
        ]
        found = named_resources({"deployment": {"resources": resources}})
        assert found == {("t:a", "new"), ("t:b", "account")}
