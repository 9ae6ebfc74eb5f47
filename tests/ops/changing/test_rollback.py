"""A rollback says first what goes back to what, changes nothing else, and proves what it went back to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.google.gcp_settings import Api
from infra.google.tpu_zone import TpuZone
from infra.planning.server.hosting import SPEC
from infra.providers.serving_spec import COMPUTE, ServingSpecProvider
from tests.fakes.google.client import FakeTime, session
from tests.fakes.managed_group import ZONE, attributes_of, make_group
from tests.fakes.operated_stack import OperatedStack, operated_stack
from tests.fakes.slice_stack import Clock, SliceStack
from tests.projects import Capture, Command, command

OLD, NEW = "spec-of-before", "spec-of-now"


def argv(stack: OperatedStack, spec: str) -> list[str]:
    """The command of a server with that specification."""
    plan = stack.plan
    names = ["--served-model-name", plan.model.hub_id, spec]
    return ["vllm", "serve", plan.model.hub_id, *names, "--max-model-len", str(plan.server.max_model_len)]


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


@pytest.fixture
def l4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    """Two revisions, of which the newer one serves; the server answers as the older."""
    with operated_stack(tmp_path, monkeypatch, "l4") as stack:
        stack.deploy()
        stack.server.spec_hash = OLD
        made = session(stack.google, FakeTime())
        parent = f"projects/demo-project/locations/{stack.plan.region}"
        for spec in (OLD, NEW):
            body = {"template": {"containers": [{"image": "i", "args": argv(stack, spec)}]}}
            if spec == OLD:
                made.post(Api.CLOUD_RUN, f"{parent}/services", body, serviceId="gemma4-l4")
            else:
                made.patch(Api.CLOUD_RUN, f"{parent}/services/gemma4-l4", body)
        stack.google.clear()
        yield stack


def traffic(stack: OperatedStack) -> list[dict[str, Any]]:
    """Where the service's requests go, as it was last told."""
    (service,) = [one for one in stack.google.run.resources.values() if one["name"].endswith("/services/gemma4-l4")]
    targets: list[dict[str, Any]] = service["traffic"]
    return targets


class TestOnCloudRun:
    def test_the_revision_before_gets_the_requests_and_is_checked(self, l4: OperatedStack, gemma4: Command) -> None:
        answer = gemma4("rollback", "l4", "--yes", "--json")
        assert answer.code == 0, answer.err
        (change,), (check,) = answer.data["changes"], answer.data["checks"]
        assert traffic(l4) == [
            {"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "revision": change["to"], "percent": 100}
        ]
        assert change["to"] < change["now"]
        assert (check["passed"], answer.data["done"]) == (True, True)
        assert "gemma4 rollback l4 --newest" in answer.data["next"]

    def test_a_preview_changes_nothing(self, l4: OperatedStack, gemma4: Command) -> None:
        answer = gemma4("rollback", "l4", "--json")
        assert (answer.data["done"], answer.data["checks"]) == (False, [])
        assert [one for one in l4.google.requests if one.method != "GET"] == []

    def test_the_newest_gets_them_again(self, l4: OperatedStack, gemma4: Command) -> None:
        gemma4("rollback", "l4", "--yes", "--json")
        l4.server.spec_hash = NEW
        answer = gemma4("rollback", "l4", "--newest", "--yes", "--json")
        assert answer.code == 0, answer.err
        assert [one["type"].rpartition("_")[2] for one in traffic(l4)] == ["LATEST"]

    def test_one_that_does_not_serve_what_it_ran_fails_and_says_where_to_look(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        l4.server.mode = "cannot generate"
        answer = gemma4("rollback", "l4", "--yes", "--json")
        assert (answer.code, answer.data["checks"][0]["passed"]) == (1, False)
        assert answer.data["next"] == "gemma4 diagnose l4"

    def test_an_unknown_revision_is_one_clean_error(self, l4: OperatedStack, gemma4: Command) -> None:
        answer = gemma4("rollback", "l4", "--to", "gemma4-l4-99999", "--yes")
        assert answer.code == 2
        assert (
            "--to: there is no revision 'gemma4-l4-99999'. Nothing was changed. Name one of: gemma4-l4-0000"
            in answer.err
        )

    def test_one_that_never_started_is_not_gone_back_to(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.google.run.fail_next_revision()
        made = session(l4.google, FakeTime())
        path = f"projects/demo-project/locations/{l4.plan.region}/services/gemma4-l4"
        made.patch(Api.CLOUD_RUN, path, {"template": {"containers": [{"image": "broken", "args": argv(l4, "x")}]}})
        (revisions,) = l4.google.run.revisions.values()
        broken = revisions[-1]["name"].rpartition("/")[2]
        assert "never started" in gemma4("rollback", "l4", "--to", broken, "--yes").err
        assert gemma4("rollback", "l4", "--json").data["changes"][0]["to"] == revisions[0]["name"].rpartition("/")[2]

    def test_the_first_revision_has_none_before_it(self, l4: OperatedStack, gemma4: Command) -> None:
        gemma4("rollback", "l4", "--yes", "--json")
        assert "there is nothing to go back to" in gemma4("rollback", "l4", "--yes").err

    def test_on_a_terminal_it_is_asked_for_and_printed_in_eighty_columns(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        answer = gemma4("rollback", "l4", "--yes")
        assert answer.code == 0, answer.err
        assert max(map(len, answer.out.splitlines())) <= 80
        assert "→ gemma4-l4-0000" in answer.out
        assert gemma4("rollback", "l4", "--newest").code == 2  # nobody to ask


class TestOnSlices:
    @pytest.fixture
    def v6e4(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
        """A slice whose specification was changed once; the server answers as before."""
        with operated_stack(tmp_path, monkeypatch, "v6e4") as stack:
            stack.deploy()
            stack.server.spec_hash = OLD
            slices = SliceStack(stack.google, Clock())
            slices.inputs["zone"] = stack.plan.zone
            for spec in (OLD, NEW):
                slices.inputs["metadata"] = {**slices.inputs["metadata"], SPEC: spec_text(stack, spec)}
                slices.up()
            held = slices.state["spec"].outputs
            kind = "pulumi-python:dynamic/gemma4:ServingSpec"
            stack.checks.append({"type": kind, "urn": "u::rollout-blue-spec", "outputs": held})
            stack.save()
            stack.google.clear()
            yield stack

    def test_the_specification_before_is_written_to_the_machine_and_checked(
        self, v6e4: OperatedStack, gemma4: Command
    ) -> None:
        answer = gemma4("rollback", "v6e4", "--yes", "--json")
        assert answer.code == 0, answer.err
        (change,) = answer.data["changes"]
        assert (change["server"], change["now"], change["to"]) == ("blue", NEW, OLD)
        assert json.loads(on_machine(v6e4))["hash"] == OLD
        assert answer.data["checks"][0]["passed"]
        assert answer.data["next"] == "mend the stack file, then: pulumi up -s v6e4"

    def test_a_preview_changes_nothing(self, v6e4: OperatedStack, gemma4: Command) -> None:
        assert gemma4("rollback", "v6e4", "--json").data["changes"][0]["to"] == OLD
        assert json.loads(on_machine(v6e4))["hash"] == NEW

    def test_one_that_is_not_kept_is_one_clean_error(self, v6e4: OperatedStack, gemma4: Command) -> None:
        assert "--to: no machine keeps the specification 'other'" in gemma4("rollback", "v6e4", "--to", "other").err

    def test_without_one_that_is_kept_git_is_named(self, v6e4: OperatedStack, gemma4: Command) -> None:
        v6e4.checks[-1]["outputs"]["previous"] = {}
        v6e4.save()
        assert "docs/tasks/roll-back.md" in gemma4("rollback", "v6e4").err


def spec_text(stack: OperatedStack, spec: str) -> str:
    """A specification as the machine's attribute holds it."""
    return json.dumps({"hash": spec, "argv": argv(stack, spec)[1:]})


def on_machine(stack: OperatedStack) -> str:
    """The specification on the machine now."""
    zone = stack.plan.zone
    assert zone
    node = TpuZone(session(stack.google, FakeTime()), zone).node("gemma4-v6e4-blue-a")
    assert node
    return node.metadata[SPEC]


class TestOnMachines:
    @pytest.fixture
    def g4x8(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
        """A machine with four servers whose specification was changed once; the servers answer as before."""
        with operated_stack(tmp_path, monkeypatch, "g4x8", {"serving": {"tensorParallelSize": 2}}) as stack:
            stack.deploy()
            stack.server.spec_hash = OLD
            name = "gemma4-g4x8-blue"
            make_group(session(stack.google), {SPEC: spec_text(stack, OLD)}, name=name)
            provider = ServingSpecProvider()
            provider.session = lambda: session(stack.google, FakeTime())  # type: ignore[method-assign]
            place = {"project": "demo-project", "zone": ZONE, "node_id": name, "product": COMPUTE, "group": name}
            props = {**place, "instance": "1", "metadata": {SPEC: spec_text(stack, NEW)}}
            held = provider.update("spec", props, props).outs
            kind = "pulumi-python:dynamic/gemma4:ServingSpec"
            stack.checks.append({"type": kind, "urn": "u::rollout-blue-spec", "outputs": held})
            stack.save()
            yield stack

    def test_the_specification_before_is_written_to_machine_and_group_and_each_server_is_checked(
        self, g4x8: OperatedStack, gemma4: Command
    ) -> None:
        name = "gemma4-g4x8-blue"
        assert json.loads(attributes_of(g4x8.google, name=name)[SPEC])["hash"] == NEW
        answer = gemma4("rollback", "g4x8", "--yes", "--json")
        assert answer.code == 0, answer.err
        assert [one["server"] for one in answer.data["changes"]] == [f"blue-{number}" for number in range(4)]
        assert all(one["passed"] for one in answer.data["checks"])
        assert json.loads(attributes_of(g4x8.google, name=name)[SPEC])["hash"] == OLD
        g4x8.google.compute.repair(name)
        assert json.loads(attributes_of(g4x8.google, name=name)[SPEC])["hash"] == OLD
