"""`gemma4 status` against the fake Google: what runs now, whether it serves as planned, and what to do next."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.google.times import moment
from infra.planning.platforms.registry import PLATFORMS
from tests.fakes.google.client import session
from tests.fakes.google.queued_slice import queue_slice
from tests.fakes.member_records import make_member_zone, route_to_machine, write_member_record
from tests.fakes.operated_stack import RESULT, OperatedStack, operated_stack
from tests.fakes.vllm import FakeVllm
from tests.projects import Answer, Capture, Command, command


@pytest.fixture
def l4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    """Deployed an hour ago and checked; no instance runs."""
    with operated_stack(tmp_path, monkeypatch, "l4") as stack:
        stack.updated_at = moment(time.time() - 3600)
        stack.run_service()
        stack.deploy()
        stack.checked(at=stack.updated_at)
        yield stack


@pytest.fixture
def v6e4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    with operated_stack(tmp_path, monkeypatch, "v6e4", {"tpu": {"slices": ["blue", "green"]}}) as stack:
        stack.google.tpu.configure(pace=None, deletion_looks=0)
        make_member_zone(stack.google, stack.plan.names)
        stack.updated_at = moment(time.time() - 3600)
        stack.run_service()
        stack.deploy()
        stack.checked(at=stack.updated_at)
        yield stack


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


def lines_of(answer: Answer) -> list[str]:
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    return lines


class TestAService:
    def test_at_zero_serves_as_planned_where_no_instance_is_kept_and_is_not_woken(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        answer = gemma4("status", "l4")
        assert answer.code == 0
        lines = lines_of(answer)
        assert lines[0] == "l4 serves as planned: it has scaled to zero, and the next request starts it"
        assert "  instances  0 instances running (0 kept, at most 1)" in lines
        assert lines[-1] == "Next: gemma4 ask l4 Hello"
        assert l4.server.requests == []
        assert not l4.google.sent("POST", "generateIdToken")

    def test_says_revision_traffic_instances_and_machine(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.count_instances(1, 2)
        data = gemma4("status", "l4", "--json").data
        service = data["service"]
        assert (service["instancesActive"], service["instancesIdle"]) == (1, 2)
        assert service["traffic"] == {service["revision"]: 100}
        assert service["machine"] == "nvidia-l4, 8 vCPU, 32Gi"
        assert data["plannedSpec"] == data["deployedSpec"] == service["spec"]
        assert data["summary"] == "l4 serves as planned with 3 instances"
        assert (data["serving"], data["gaps"], data["url"]) == (True, [], l4.server.url)
        shown = " ".join(gemma4("status", "l4").out.split())
        assert re.search(r"3 instances running, 2 of them idle \(0 kept, at most 1\), counted \d+ s ago", shown)

    def test_whose_new_revision_failed_does_not_serve_as_planned(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.google.run.fail_next_revision("The startup probe failed.")
        l4.run_service(template={"labels": {"a": "b"}})
        answer = gemma4("status", "l4", "--json")
        service = answer.data["service"]
        assert (answer.code, answer.data["serving"], answer.data["next"]) == (1, False, "gemma4 diagnose l4")
        assert "startup probe failed" in service["problem"]
        assert service["failedRevision"] != service["revision"]
        assert "goes on serving" in answer.data["summary"]
        lines_of(gemma4("status", "l4"))

    def test_whose_traffic_somebody_has_moved_says_the_command_that_gives_it_back(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        record = l4.run_service()
        kind = "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"
        record["traffic"] = [{"type": kind, "revision": "old-1", "percent": 100}]
        answer = gemma4("status", "l4", "--json")
        assert answer.code == 1
        assert "old-1 has the traffic" in answer.data["summary"]
        assert answer.data["next"].startswith("gcloud run services update-traffic gemma4-l4 --to-latest --region ")

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"serving": {"maxModelLen": 4096}}, "and the files here plan spec-"),
            ({"scaling": {"minInstances": 1}}, "instances kept 0, planned 1"),
            ({"scaling": {"maxInstances": 2}}, "instances at most 1, planned 2"),
        ],
    )
    def test_that_is_not_what_the_files_plan_is_to_be_deployed(
        self, l4: OperatedStack, gemma4: Command, settings: dict[str, Any], said: str
    ) -> None:
        l4.write(settings)
        answer = gemma4("status", "l4", "--json")
        assert (answer.code, answer.data["next"]) == (1, "pulumi up -s l4")
        assert said in answer.data["summary"]

    def test_that_is_not_there_is_not_deployed(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.google.run.resources.clear()
        answer = gemma4("status", "l4", "--json")
        assert (answer.code, answer.data["next"], answer.data["service"]) == (1, "pulumi up -s l4", None)
        assert answer.data["summary"] == "l4 is not deployed"

    def test_of_which_the_last_check_was_of_another_specification_is_not_proven(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        l4.checks.clear()
        l4.checked(spec="spec-old")
        answer = gemma4("status", "l4", "--json")
        assert (answer.code, answer.data["serving"], answer.data["next"]) == (1, False, "gemma4 check l4")
        assert "the last check was of spec-old" in answer.data["summary"]
        l4.checks.clear()
        l4.save()
        assert "was never checked" in gemma4("status", "l4", "--json").data["summary"]

    def test_shows_the_last_check_beside_the_prediction_with_its_date(self, l4: OperatedStack, gemma4: Command) -> None:
        answer = gemma4("status", "l4")
        (line,) = (line for line in answer.out.splitlines() if "first token" in line)
        assert re.search(r"(≈ \d+\.\d\d s \(.*\)|\S+ to \d+\.\d\d s) without network +0\.31 s through it", line)
        at = l4.updated_at
        assert f"serving-check of {at[:10]} {at[11:16]} UTC" in answer.out
        found = gemma4("status", "l4", "--json").data["checks"]
        assert [(check["name"], check["result"]) for check in found] == [("serving-check", RESULT)]

    def test_says_what_it_has_cost_since_the_last_up(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.bill(1800, at=time.time() - 600)
        l4.bill(999_999, at=time.time() - 7200)
        cost = gemma4("status", "l4", "--json").data["cost"]
        assert (cost["since"], cost["runningS"]) == (l4.updated_at, 1800)
        assert cost["usdLeast"] == cost["usdMost"] == pytest.approx(l4.plan.cost.usd_per_hour / 2)
        assert any("weights copy: Cloud Monitoring has no record" in note for note in cost["notes"])


class TestWhatCannotBeAsked:
    def test_without_the_pulumi_cli_the_rest_is_answered(
        self, l4: OperatedStack, gemma4: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        answer = gemma4("status", "l4", "--json")
        assert (answer.code, answer.data["serving"], answer.data["checks"]) == (0, True, [])
        assert [gap for gap in answer.data["gaps"] if "Pulumi CLI" in gap]
        assert "not known" in gemma4("status", "l4").out

    def test_a_check_that_another_version_wrote_leaves_the_rest_answered(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        del l4.checks[0]["outputs"]["result"]["ttft_s"]
        l4.save()
        answer = gemma4("status", "l4")
        assert answer.code == 0
        assert "holds a check that this version cannot read" in " ".join(answer.out.split())
        assert lines_of(answer)[-1] == "Next: gemma4 ask l4 Hello"

    def test_without_permission_to_read_metrics_the_service_still_shows(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        message = "Permission 'monitoring.timeSeries.list' denied"
        l4.google.fault("GET", "/timeSeries", status=403, message=message, times=99)
        answer = gemma4("status", "l4", "--json")
        assert (answer.code, answer.data["service"]["instancesActive"]) == (0, None)
        assert "roles/monitoring.viewer" in answer.data["gaps"][0]
        assert "by its condition" in answer.data["summary"]

    def test_where_google_does_not_answer_nothing_is_claimed(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.google.fault("GET", "/services/", status=403, message="Permission 'run.services.get' denied", times=99)
        answer = gemma4("status", "l4", "--json")
        assert (answer.code, answer.data["serving"]) == (1, None)
        assert "is not known to serve" in answer.data["summary"]
        lines_of(gemma4("status", "l4"))

    def test_every_platform_that_can_be_deployed_can_be_asked(self) -> None:
        assert [one.id for one in PLATFORMS.values() if bool(one.components) != bool(one.operations)] == []


class TestSlices:
    def test_that_serve_show_in_a_line_each_with_the_end_of_their_run(
        self, v6e4: OperatedStack, gemma4: Command
    ) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["serving"]) == (0, True)
        assert answer.data["summary"] == "v6e4 serves as planned with 2 slices"
        assert [(one["name"], one["serving"], one["stage"]) for one in answer.data["slices"]] == [
            ("blue", True, "serving"),
            ("green", True, "serving"),
        ]
        assert len(answer.out) < 8000
        lines = lines_of(gemma4("status", "v6e4"))
        (blue,) = (number for number, line in enumerate(lines) if line.startswith("  blue-a"))
        assert "ACTIVE, machine READY, serving spec-" in lines[blue]
        assert "left." in " ".join(lines[blue : blue + 3])

    def test_that_serve_and_that_the_gateway_does_not_find_do_not_serve(
        self, v6e4: OperatedStack, gemma4: Command
    ) -> None:
        names = v6e4.plan.names
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        write_member_record(v6e4.google, names, "green-a")
        answer = gemma4("status", "v6e4", "--json")
        blue, green = answer.data["slices"]
        assert (answer.code, blue["serving"], green["serving"]) == (1, True, False)
        assert (blue["unrouted"], green["unrouted"]) == ("", "its record names no machine")
        assert answer.data["next"].startswith(
            "green-a: it serves, and no request reaches it: its record names no machine"
        )
        write_member_record(v6e4.google, names, "green-a", "10.8.0.99")
        assert "its record names 10.8.0.99, another machine" in gemma4("status", "v6e4", "--json").data["next"]

    def test_whose_records_nobody_may_read_are_taken_by_their_own_word(
        self, v6e4: OperatedStack, gemma4: Command
    ) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        v6e4.google.dns.deny("dns.resourceRecordSets.list")
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["serving"]) == (0, True)
        (gap,) = [one for one in answer.data["gaps"] if "which machines the gateway finds" in one]
        assert "dns.resourceRecordSets.list" in gap

    def test_that_do_not_let_requests_in_do_not_serve(self, v6e4: OperatedStack, gemma4: Command) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name, ready=["blue-a"])
        data = gemma4("status", "v6e4", "--json").data
        assert [one["unrouted"] for one in data["slices"]] == ["", "its supervisor does not let requests in"]

    def test_without_a_zone_are_found_by_no_gateway(self, v6e4: OperatedStack, gemma4: Command) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        v6e4.google.dns.resources.clear()
        assert "no private zone" in gemma4("status", "v6e4", "--json").data["next"]

    def test_of_which_one_is_gone_leave_a_record_that_is_said(self, v6e4: OperatedStack, gemma4: Command) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        write_member_record(v6e4.google, v6e4.plan.names, "blue-b", "10.8.0.99")
        answer = gemma4("status", "v6e4", "--json")
        (remark,) = [one for one in answer.data["remarks"] if "record" in one]
        assert answer.code == 0
        assert "the record blue-b names 10.8.0.99, where no machine of the stack is" in remark
        assert "the next blue-b writes its own address" in remark

    def test_whose_name_is_not_planned_any_more_may_still_serve(self, v6e4: OperatedStack, gemma4: Command) -> None:
        """Between the change of tpu.slices and the end of the `pulumi up` that deletes them."""
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        write_member_record(v6e4.google, v6e4.plan.names, "red-a", "10.8.0.99")
        (remark,) = [one for one in gemma4("status", "v6e4", "--json").data["remarks"] if "record" in one]
        assert "and no red-a is planned: requests go there as long as a machine answers as red-a" in remark
        assert "nothing is sent there" not in remark

    def test_that_were_granted_after_the_last_up_are_said_to_serve_by_themselves(
        self, v6e4: OperatedStack, gemma4: Command
    ) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        node = v6e4.google.tpu.nodes[node_name(v6e4, "blue-a")]
        node["createTime"] = moment(time.time() - 7200)  # the last `up` was an hour ago
        answer = gemma4("status", "v6e4", "--json")
        assert [one["late"] for one in answer.data["slices"]] == [False, True]
        assert answer.data["remarks"] == ["green-a was granted after the last `up`, and serves by itself"]
        assert answer.data["serving"] is True

    def test_that_are_being_renewed_count_once_and_show_both(self, v6e4: OperatedStack, gemma4: Command) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        queue(v6e4, "blue-b")
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["summary"]) == (0, "v6e4 serves as planned with 2 slices")
        assert [one["host"] for one in answer.data["slices"]] == ["blue-a", "blue-b", "green-a"]
        assert [one["follows"] for one in answer.data["slices"]] == ["", "blue-a", ""]
        assert answer.data["next"] == "blue-b: it waits for capacity, to follow blue-a, which serves on"

    def test_that_no_state_knows_are_orphans_with_their_price_and_the_command_that_deletes_them(
        self, v6e4: OperatedStack, gemma4: Command
    ) -> None:
        for name, ticket in (("blue-a", "one"), ("blue-b", "lost"), ("green-a", "two")):
            grant(v6e4, name, ticket=ticket)
            if ticket != "lost":
                hold(v6e4, name, ticket)
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["orphans"]) == (0, [])  # all of them are young: an `up` may be at work
        for record in v6e4.google.tpu.resources.values():
            record["createTime"] = moment(time.time() - 600)
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["summary"]) == (0, "v6e4 serves as planned with 2 slices")
        assert [one["host"] for one in answer.data["slices"] if one["orphan"]] == ["blue-b"]
        assert [one["follows"] for one in answer.data["slices"]] == ["", "", ""]
        (one,) = answer.data["orphans"]
        assert (one["id"], one["why"]) == (v6e4.plan.names.member("blue-b"), "paid, and in no state")
        assert one["usdPerHour"] == pytest.approx(v6e4.plan.cost.usd_per_hour)
        assert f"queued-resources delete {one['id']} --zone us-east5-a --project demo-project --force" in one["next"]
        shown = " ".join(gemma4("status", "v6e4").out.split())
        assert "ACTIVE: paid, and in no state; $" in shown
        assert "it is an orphan, which no state knows" in shown

    def test_of_a_state_that_cannot_be_read_are_not_called_orphans(
        self, v6e4: OperatedStack, gemma4: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name, ticket="one")
        for record in v6e4.google.tpu.resources.values():
            record["createTime"] = moment(time.time() - 600)
        monkeypatch.setenv("PATH", "/nowhere")
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["serving"], answer.data["orphans"]) == (0, True, [])

    def test_of_which_one_waits_do_not_serve_as_planned(self, v6e4: OperatedStack, gemma4: Command) -> None:
        grant(v6e4, "blue-a")
        queue(v6e4, "green-a")
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["serving"]) == (1, False)
        assert "1 of 2 slices does" in answer.data["summary"]
        assert answer.data["next"].startswith("green-a: it waits for capacity")

    @pytest.mark.parametrize("pause", [{"paused": True}, {"tpu": {"slices": []}}])
    def test_of_a_paused_stack_are_not_asked_for_and_one_that_is_left_is_said(
        self, v6e4: OperatedStack, gemma4: Command, pause: dict[str, Any]
    ) -> None:
        v6e4.write(pause)
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["serving"], answer.data["next"]) == (1, False, "gemma4 resume v6e4")
        assert "is paused: no slice is asked for" in answer.data["summary"]
        assert [one["next"] for one in answer.data["slices"]] == [
            "the stack is paused: gemma4 resume v6e4 asks for it again"
        ]
        grant(v6e4, "blue-a")
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["next"]) == (1, "pulumi up -s v6e4")
        assert "is paused, and blue-a is still there and paid for" in answer.data["summary"]

    def test_without_a_gateway_cannot_be_asked_by_anybody(self, v6e4: OperatedStack, gemma4: Command) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        v6e4.google.run.resources.clear()
        answer = gemma4("status", "v6e4", "--json")
        assert (answer.code, answer.data["next"]) == (1, "pulumi up -s v6e4")
        assert "has no gateway" in answer.data["summary"]

    def test_have_cost_their_running_time_since_the_last_up(self, v6e4: OperatedStack, gemma4: Command) -> None:
        for name in ("blue-a", "green-a"):
            grant(v6e4, name)
        v6e4.google.tpu.nodes[node_name(v6e4, "blue-a")]["createTime"] = moment(time.time() - 1800)
        v6e4.google.tpu.nodes[node_name(v6e4, "green-a")]["createTime"] = moment(time.time() - 900)
        cost = gemma4("status", "v6e4", "--json").data["cost"]
        expected = v6e4.plan.cost.usd_per_hour * 0.75
        assert cost["usdLeast"] == pytest.approx(expected, rel=0.02)
        assert cost["usdMost"] >= cost["usdLeast"]


class TestAUrl:
    def test_says_what_the_server_says_of_itself(self, gemma4: Command) -> None:
        with FakeVllm(model="mine", spec_hash="other", max_model_len=2048) as fake:
            answer = gemma4("status", "--url", fake.url)
            data = gemma4("status", "--url", fake.url, "--json").data
        assert answer.code == 0
        assert lines_of(answer)[0] == f"{fake.url} answers /health and serves mine, other"
        assert data["server"] == {
            "healthy": True,
            "version": "0.32.0",
            "models": ["mine", "other"],
            "maxModelLen": 2048,
        }
        assert data["next"] == f"gemma4 check --url {fake.url}"

    def test_where_nobody_listens_does_not_serve(self, gemma4: Command) -> None:
        answer = gemma4("status", "--url", "http://127.0.0.1:9", "--json")
        assert (answer.code, answer.data["serving"]) == (1, False)
        assert "nothing listens there" in answer.data["gaps"][0]


def node_name(stack: OperatedStack, name: str) -> str:
    (found,) = (one for one in stack.google.tpu.nodes if one.endswith(f"/nodes/{stack.plan.names.member(name)}"))
    return found


def hold(stack: OperatedStack, name: str, ticket: str) -> None:
    """Let the state hold the request for a slice."""
    labels = {"slice": name.partition("-")[0]}
    kind = "pulumi-python:dynamic/gemma4:TpuQueuedResource"
    stack.checks.append({"type": kind, "urn": f"urn:{name}", "outputs": {"labels": labels, "ticket": ticket}})
    stack.save()


def queue(stack: OperatedStack, name: str, ticket: str = "") -> str:
    """Ask for a slice as the program would; return the full name of its queued resource."""
    labels = {**stack.plan.labels, "slice": name.partition("-")[0]} | ({"ticket": ticket} if ticket else {})
    full = queue_slice(session(stack.google), stack.plan.names.member(name), labels=labels)
    stack.google.tpu.advance(full, to="WAITING_FOR_RESOURCES")
    return full


def grant(stack: OperatedStack, name: str, *, ticket: str = "", **more: Any) -> None:
    """Let a slice come up and its supervisor report that it serves what is planned."""
    stack.google.tpu.advance(queue(stack, name, ticket), to="ACTIVE")
    said = {"stage": "serving", "running": stack.plan.command.spec_hash, "at": moment(time.time() - 20)} | more
    stack.google.tpu.set_guest_attributes(stack.plan.names.member(name), {"gemma4/status": json.dumps(said)})
    route_to_machine(stack.google, stack.plan.names, name)
