"""`gemma4 status`, `diagnose` and `cost` of machines on Compute Engine: what group, machine and supervisor say, what next."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.google.times import moment
from tests.fakes.google.client import session
from tests.fakes.google.compute_machines import NO_STOCK
from tests.fakes.managed_group import ADDRESS, MACHINE, ZONE, make_group
from tests.fakes.member_records import make_member_zone, write_member_record
from tests.fakes.operated_stack import OperatedStack, operated_stack
from tests.projects import Capture, Command, command

FOUR = "gemma4-g4x8-blue"
TWO_EACH = {"serving": {"tensorParallelSize": 2}}


@pytest.fixture
def g4x2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    with operated_stack(tmp_path, monkeypatch, "g4x2") as stack:
        yield deployed(stack)


@pytest.fixture
def g4x8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    with operated_stack(tmp_path, monkeypatch, "g4x8", TWO_EACH) as stack:
        yield deployed(stack)


def deployed(stack: OperatedStack) -> OperatedStack:
    make_member_zone(stack.google, stack.plan.names)
    write_member_record(stack.google, stack.plan.names, "blue", ADDRESS)
    stack.updated_at = moment(time.time() - 3600)
    stack.run_service()
    stack.deploy()
    stack.checked(at=stack.updated_at)
    return stack


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


def run_machine(operated: OperatedStack, name: str = MACHINE, **labels: str) -> None:
    make_group(session(operated.google), {}, name=name, labels={**operated.plan.labels, **labels})


def report(stack: OperatedStack, name: str = MACHINE, **fields: Any) -> None:
    """Let the supervisor of a machine report that all is well, but for these fields."""
    spec = stack.plan.command.spec_hash
    said = {"schema": 1, "at": moment(time.time()), "stage": "serving", "wanted": spec, "running": spec, "errors": []}
    stack.google.compute.publish(name, {"gemma4/status": json.dumps({**said, **fields})})


def only(found: dict[str, Any]) -> dict[str, Any]:
    (row,) = found["machines"]
    return dict(row)


class TestStatus:
    def test_a_machine_that_serves_what_is_planned_is_well(self, g4x2: OperatedStack, gemma4: Command) -> None:
        run_machine(g4x2)
        report(g4x2)
        answer = gemma4("status", "g4x2", "--json")
        assert (answer.code, answer.data["serving"]) == (0, True)
        assert answer.data["summary"] == "g4x2 serves as planned with 1 machine"
        row = only(answer.data)
        assert (row["status"], row["zone"], row["machineType"]) == ("RUNNING", ZONE, "g4-standard-96")
        assert (row["group"], row["health"], row["stage"]) == ("NONE", "HEALTHY", "serving")
        assert answer.data["deployedSpec"] == answer.data["plannedSpec"]
        assert max(map(len, gemma4("status", "g4x2").out.splitlines())) <= 80

    def test_a_group_without_stock_says_why_and_that_it_goes_on_trying(
        self, g4x2: OperatedStack, gemma4: Command
    ) -> None:
        g4x2.google.compute.stock = {ZONE: 0}
        run_machine(g4x2)
        answer = gemma4("status", "g4x2", "--json")
        row = only(answer.data)
        assert (answer.code, row["serving"], row["status"]) == (1, False, "")
        assert NO_STOCK["code"] in row["error"]
        assert "goes on trying" in row["next"]
        assert "machine.zones" in row["next"]

    def test_no_group_is_a_machine_that_up_makes(self, g4x2: OperatedStack, gemma4: Command) -> None:
        answer = gemma4("status", "g4x2", "--json")
        assert answer.code == 1
        assert "pulumi up -s g4x2" in only(answer.data)["next"]

    def test_a_machine_of_somebody_else_s_does_not_count(self, g4x2: OperatedStack, gemma4: Command) -> None:
        run_machine(g4x2, stack="another")
        report(g4x2)
        row = only(gemma4("status", "g4x2", "--json").data)
        assert row["serving"] is False
        assert "is foreign" in row["next"]

    def test_one_server_of_four_that_does_not_serve_is_named(self, g4x8: OperatedStack, gemma4: Command) -> None:
        stages = ["serving", "serving", "backoff", "serving"]
        run_machine(g4x8, FOUR)
        servers = [{"name": f"gemma4-{number}", "stage": stage} for number, stage in enumerate(stages)]
        report(g4x8, FOUR, stage="backoff", servers=servers)
        answer = gemma4("status", "g4x8", "--json")
        row = only(answer.data)
        assert (answer.code, row["serving"]) == (1, False)
        assert row["servers"] == {f"gemma4-{number}": stage for number, stage in enumerate(stages)}
        assert "gemma4-2 is backoff" in row["next"]

    def test_a_check_of_google_s_that_fails_is_a_repair_that_comes(self, g4x2: OperatedStack, gemma4: Command) -> None:
        run_machine(g4x2)
        report(g4x2)
        g4x2.google.compute.health = "UNHEALTHY"
        row = only(gemma4("status", "g4x2", "--json").data)
        assert (row["serving"], "makes it anew" in row["next"]) == (False, True)

    def test_another_specification_than_planned_does_not_serve_as_planned(
        self, g4x2: OperatedStack, gemma4: Command
    ) -> None:
        run_machine(g4x2)
        report(g4x2, running="spec-000000000000")
        row = only(gemma4("status", "g4x2", "--json").data)
        assert (row["serving"], "another specification" in row["next"]) == (False, True)

    def test_a_supervisor_that_fell_silent_is_looked_for_in_the_log(self, g4x2: OperatedStack, gemma4: Command) -> None:
        run_machine(g4x2)
        report(g4x2, at=moment(time.time() - 900))
        row = only(gemma4("status", "g4x2", "--json").data)
        assert row["serving"] is False
        assert "gcloud logging read" in row["next"]
        assert MACHINE in row["next"]

    def test_a_machine_whose_driver_cannot_be_installed_says_so(self, g4x2: OperatedStack, gemma4: Command) -> None:
        run_machine(g4x2)
        said = "The driver latest of the GPUs does not work on this machine."
        report(g4x2, stage="bootstrap", running="", errors=[{"where": "bootstrap", "message": said}])
        answer = gemma4("status", "g4x2", "--json")
        assert (answer.code, only(answer.data)["trouble"]) == (1, said)
        assert answer.data["next"].startswith(
            f"blue: it does not serve yet, and reports trouble: {said[:-1]}; see gcloud"
        )
        assert said[:-1] in " ".join(gemma4("status", "g4x2").out.split())

    def test_a_report_that_google_does_not_hand_out_says_why(self, g4x2: OperatedStack, gemma4: Command) -> None:
        run_machine(g4x2)
        report(g4x2)
        message = "Permission 'compute.instances.getGuestAttributes' denied"
        g4x2.google.fault("GET", "getGuestAttributes", status=403, message=message, times=9)
        answer = gemma4("status", "g4x2", "--json")
        assert (answer.code, only(answer.data)["serving"]) == (1, False)
        assert "its report cannot be read: " in answer.data["next"]
        assert message in answer.data["next"]

    def test_trouble_that_keeps_a_machine_at_another_specification_is_said(
        self, g4x2: OperatedStack, gemma4: Command
    ) -> None:
        run_machine(g4x2)
        report(g4x2, running="spec-000000000000", errors=[{"message": "The image\nis not there."}])
        then = gemma4("status", "g4x2", "--json").data["next"]
        assert "and reports trouble: The image is not there; see gcloud" in then

    def test_trouble_of_a_machine_that_serves_is_said_and_is_no_fault(
        self, g4x2: OperatedStack, gemma4: Command
    ) -> None:
        run_machine(g4x2)
        report(
            g4x2, errors=[{"where": "gpus", "message": "The GPUs 0, 1 cannot add up numbers from GPU to GPU (hangs)"}]
        )
        answer = gemma4("status", "g4x2", "--json")
        assert (answer.code, answer.data["serving"]) == (0, True)
        assert "blue: it serves, and reports trouble: The GPUs 0, 1 cannot add up" in answer.data["next"]

    def test_a_machine_that_the_gateway_does_not_find_does_not_serve(
        self, g4x2: OperatedStack, gemma4: Command
    ) -> None:
        names = g4x2.plan.names
        run_machine(g4x2)
        report(g4x2, ready=["blue"])
        assert only(gemma4("status", "g4x2", "--json").data)["unrouted"] == ""
        write_member_record(g4x2.google, names, "blue")
        answer = gemma4("status", "g4x2", "--json")
        assert (answer.code, only(answer.data)["serving"]) == (1, False)
        assert only(answer.data)["unrouted"] == "its record names no machine"
        assert answer.data["next"].startswith("blue: it serves, and no request reaches it: its record names no machine")
        assert "no request reaches it" in " ".join(gemma4("status", "g4x2").out.split())
        write_member_record(g4x2.google, names, "blue", "10.8.0.99")
        row = only(gemma4("status", "g4x2", "--json").data)
        assert row["unrouted"] == "its record names 10.8.0.99, another machine"
        found = gemma4("diagnose", "g4x2", "--json").data["findings"]
        assert any("no request reaches it" in one["fix"] for one in found)

    def test_one_of_four_servers_that_takes_requests_is_enough_to_be_asked(
        self, g4x8: OperatedStack, gemma4: Command
    ) -> None:
        run_machine(g4x8, FOUR)
        report(g4x8, FOUR, ready=["blue-3"])
        assert only(gemma4("status", "g4x8", "--json").data)["unrouted"] == ""
        report(g4x8, FOUR, ready=[])
        row = only(gemma4("status", "g4x8", "--json").data)
        assert (row["serving"], row["unrouted"]) == (False, "its supervisor does not let requests in")

    def test_records_that_nobody_may_read_leave_the_machine_s_own_word(
        self, g4x2: OperatedStack, gemma4: Command
    ) -> None:
        run_machine(g4x2)
        report(g4x2)
        g4x2.google.dns.deny("dns.resourceRecordSets.list")
        answer = gemma4("status", "g4x2", "--json")
        assert (answer.code, only(answer.data)["unrouted"]) == (0, "")
        assert any("which machines the gateway finds" in gap for gap in answer.data["gaps"])

    def test_a_record_of_a_machine_that_is_gone_is_said(self, g4x2: OperatedStack, gemma4: Command) -> None:
        run_machine(g4x2)
        report(g4x2)
        write_member_record(g4x2.google, g4x2.plan.names, "red", "10.8.0.99")
        answer = gemma4("status", "g4x2", "--json")
        assert answer.code == 0
        assert any("the record red names 10.8.0.99" in one for one in answer.data["remarks"])

    def test_a_paused_stack_has_no_machine_and_says_how_to_go_on(self, g4x2: OperatedStack, gemma4: Command) -> None:
        g4x2.write({"paused": True})
        answer = gemma4("status", "g4x2", "--json")
        assert answer.data["summary"] == "g4x2 is paused: no machine is asked for"
        assert answer.data["next"] == "gemma4 resume g4x2"


class TestDiagnose:
    def test_a_machine_without_stock_is_a_finding(self, g4x2: OperatedStack, gemma4: Command) -> None:
        g4x2.google.compute.stock = {ZONE: 0}
        run_machine(g4x2)
        found = gemma4("diagnose", "g4x2", "--json").data
        (one,) = [one for one in found["findings"] if one["where"] == "machine blue"]
        assert NO_STOCK["code"] in one["evidence"]


class TestCost:
    def test_a_machine_counts_with_all_its_servers_since_it_was_made(
        self, g4x8: OperatedStack, gemma4: Command
    ) -> None:
        run_machine(g4x8, FOUR)
        g4x8.run_service()["createTime"] = moment(time.time() - 7200)  # since when the stack is deployed
        full = f"projects/demo-project/zones/{ZONE}/instances/{FOUR}"
        g4x8.google.compute.resources[full]["creationTimestamp"] = moment(time.time() - 1800)
        answer = gemma4("cost", "g4x8", "--json")
        (row,) = [row for row in answer.data["rows"] if row["what"] == "machine blue"]
        machine_hour = g4x8.plan.cost.usd_per_hour * 4
        assert row["runningS"] == pytest.approx(1800, abs=60)
        assert row["usdMost"] == pytest.approx(machine_hour / 2, rel=0.05)
