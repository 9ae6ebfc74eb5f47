"""The life of a TPU stack on the real engine: once whole, with the real gcp provider, and its slices alone in each trouble."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import TOKEN, Engine, Outcome, serve
from tests.fakes.google import FakeGoogle
from tests.fakes.vllm import FakeVllm

BLUE, GREEN = "gemma4-v6e4-blue-a", "gemma4-v6e4-green-a"
BLUE_B = "gemma4-v6e4-blue-b"
PLACE = "projects/demo-project/locations/us-east5-a/queuedResources"
ONLY = Path(__file__).with_name("slices_only.py")
QUEUED = f"/queuedResources/{BLUE}"


@pytest.fixture
def stack(tmp_path: Path, google: FakeGoogle) -> Iterator[Engine]:
    made = Engine(tmp_path, google, "v6e4", {"gemma4:access": {"invokers": ["group:ml@example.com"]}})
    yield made
    google.clear()
    google.tpu.configure(stop_at="", pace=1)
    made.destroy()
    assert google.leftovers() == []
    assert google.unknown == []


@pytest.fixture
def slices(stack: Engine) -> Engine:
    """The same project with another program."""
    shutil.copy(ONLY, stack.project / "__main__.py")
    return stack


def outputs_of(stack: Engine, kind: str, slice_name: str = "blue") -> dict[str, Any]:
    """Outputs of a slice's resource as the stack's state has them."""
    resources = stack.state()["deployment"]["resources"]
    (found,) = [one for one in resources if one["type"].endswith(f":{kind}") and f"{slice_name}" in one["urn"]]
    outputs: dict[str, Any] = found["outputs"]
    return outputs


def until(true: Callable[[], bool], limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.05)


def test_a_gateway_that_did_not_come_up_is_tried_again_with_nothing_changed(
    stack: Engine, google: FakeGoogle, server: FakeVllm
) -> None:
    serve(server, google, stack)
    google.run.fail_next_revision(log=["[ALERT] config : parsing"])
    failed = stack.up(check=False)
    assert failed.code != 0
    (said,) = failed.errors
    assert "did not come up" in said
    assert "[ALERT] config : parsing" in failed.output
    stack.up()
    (revisions,) = google.run.revisions.values()
    assert len(revisions) == 2
    assert set(stack.up().summary) == {"unchanged"}
    assert len(revisions) == 2


def test_the_whole_life(stack: Engine, google: FakeGoogle, server: FakeVllm) -> None:
    stack.set_secret("gemma4:hfToken", TOKEN)
    serve(server, google, stack)
    first = stack.up()
    assert set(first.summary) == {"created"}, first.output
    assert stack.outputs()["url"] == server.url
    again = stack.up()
    assert set(again.summary) == {"unchanged"}, again.output

    # A flag change: the specification and its check, beside the stack's own outputs.
    stack.configure({"gemma4:serving": {"maxModelLen": 4096}})
    serve(server, google, stack)
    preview = stack.preview()
    assert preview.summary["to update"] == 2, preview.output
    changed = stack.up()
    assert changed.summary["updated"] == 2, changed.output
    (node,) = google.tpu.nodes.values()
    assert server.spec_hash in node["metadata"]["gemma4-spec"]
    assert google.tpu.created == 1

    # Expiry: the next up removes the ended request, makes a new one, and updates specification and check.
    before = outputs_of(stack, "TpuNode")["instance"]
    google.tpu.advance(BLUE, to="SUSPENDED")
    renewed = stack.up()
    assert list(google.tpu.resources) == [f"{PLACE}/{BLUE_B}"]
    assert google.tpu.created == 2
    assert outputs_of(stack, "TpuNode")["instance"] not in ("", before), renewed.output
    (node,) = google.tpu.nodes.values()
    assert server.spec_hash in node["metadata"]["gemma4-spec"]
    assert TOKEN not in str(node)

    # What Cloud Run holds cannot move; slices can, and the one that serves goes last.
    stack.configure({"gemma4:network": {"subnetCidr": "10.9.0.0/26"}})
    (error,) = stack.preview(check=False).errors
    assert "network.subnetCidr cannot change while the service exists" in error
    stack.configure({"gemma4:network": None, "gemma4:tpu": {"zone": "europe-west4-a"}})
    (error,) = stack.preview(check=False).errors
    assert "region cannot change while the service exists" in error
    stack.configure({"gemma4:region": "us-east5"})
    serve(server, google, stack)
    stack.up()
    assert [name.split("/")[3] for name in google.tpu.resources] == ["europe-west4-a"]

    # Cloud Run lets go of its subnet late: the provider gives up at the first refusal, destroy must not.
    held = google.fault("DELETE", "/subnetworks/gemma4-v6e4$", times=2, status=400, body=_in_use())
    stack.destroy()
    assert held.used == 2
    assert google.leftovers() == []


def test_a_pause_gives_the_slice_back_and_keeps_the_rest_and_a_change_keeps_what_it_replaced(
    stack: Engine, google: FakeGoogle, server: FakeVllm
) -> None:
    serve(server, google, stack)
    stack.up()
    before = server.spec_hash
    stack.configure({"gemma4:serving": {"maxModelLen": 4096}})
    serve(server, google, stack)
    stack.up()
    kept = outputs_of(stack, "ServingSpec", "blue-spec")["previous"]
    assert before in kept["gemma4-spec"]

    stack.configure({"gemma4:paused": True})
    paused = stack.up()
    assert google.tpu.resources == {}, paused.output
    assert stack.outputs()["url"] == server.url
    assert any(name.endswith("/services/gemma4-v6e4") for name in google.run.resources)
    assert set(stack.up().summary) == {"unchanged"}

    stack.configure({"gemma4:paused": None})
    resumed = stack.up()
    assert list(google.tpu.resources) == [f"{PLACE}/{BLUE}"], resumed.output
    assert set(stack.up().summary) == {"unchanged"}


def test_capacity_is_looked_for_elsewhere_and_back_again(stack: Engine, google: FakeGoogle, server: FakeVllm) -> None:
    stack.configure(
        {"gemma4:region": "us-east5", "gemma4:tpu": {"waitForCapacity": "2s"}}
    )  # where the gateway is by then
    serve(server, google, stack)
    google.tpu.configure(stop_at="WAITING_FOR_RESOURCES")
    assert "No capacity" in stack.up(check=False).errors[0]
    stack.configure({"gemma4:tpu": {"waitForCapacity": "2s", "zone": "europe-west4-a"}})
    serve(server, google, stack)
    assert "in europe-west4-a within 2 s" in stack.up(check=False).errors[0]
    stack.configure({"gemma4:tpu": None})
    serve(server, google, stack)
    already = len(google.sent("POST", "/us-east5-a/queuedResources"))
    process = stack.start("up", "--yes", "--skip-preview")
    until(lambda: len(google.sent("POST", "/us-east5-a/queuedResources")) > already, limit_s=120)
    google.tpu.configure(stop_at="")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert list(google.tpu.resources) == [f"{PLACE}/{BLUE}"]
    subnets = [name.rpartition("regions/")[2] for name in google.compute.resources if "subnetworks" in name]
    assert sorted(subnets) == ["us-east5/subnetworks/gemma4-v6e4", "us-east5/subnetworks/gemma4-v6e4-tpu"]
    assert set(stack.up().summary) == {"unchanged"}


def carried(google: FakeGoogle) -> list[str]:
    """The specifications that the machines carry, blue's and green's."""
    return [node["metadata"]["gemma4-spec"] for _, node in sorted(google.tpu.nodes.items())]


def test_a_quota_for_one_slice_holds_up_no_other_and_flags_roll_over_both(
    stack: Engine, google: FakeGoogle, server: FakeVllm
) -> None:
    stack.configure({"gemma4:tpu": {"slices": ["blue", "green"]}})
    serve(server, google, stack)
    google.tpu.set_limit("us-east5-a", 4)
    only_blue = stack.up()
    assert "goes on without this slice" in only_blue.output
    assert stack.outputs()["url"] == server.url
    google.tpu.set_limit("us-east5-a", 8)
    stack.up()  # asks for it, and does not wait while the first one serves
    stack.up()
    assert outputs_of(stack, "TpuNode", "green")["address"]
    assert set(stack.up().summary) == {"unchanged"}

    # A specification that does not come up stops at the first slice; one that does reaches both.
    stack.configure({"gemma4:serving": {"maxModelLen": 4096}})
    serve(server, google, stack)
    server.mode = "cannot generate"
    assert "stage chat" in stack.up(check=False).output
    assert [server.spec_hash in spec for spec in carried(google)] == [True, False]
    server.mode = "normal"
    stack.up()
    assert [server.spec_hash in spec for spec in carried(google)] == [True, True]


def _in_use() -> dict[str, Any]:
    message = "The subnetwork resource 'gemma4-v6e4' is already being used by 'serverless-ipv4-1'"
    reason = "resourceInUseByAnotherResource"
    return {"error": {"code": 400, "message": message, "errors": [{"reason": reason, "message": message}]}}


def test_a_wait_in_vain_is_one_error_and_the_next_up_goes_on(slices: Engine, google: FakeGoogle) -> None:
    slices.configure({"gemma4:tpu": {"waitForCapacity": "2s"}})
    google.tpu.configure(stop_at="WAITING_FOR_RESOURCES")
    failed = slices.up(check=False)
    assert failed.code != 0
    (error,) = failed.errors
    assert "No capacity for v6e-4 in us-east5-a within 2 s" in error
    assert "Traceback" not in failed.output
    google.tpu.configure(stop_at="")
    slices.configure({"gemma4:tpu": None})
    assert "replaced" not in slices.up().summary
    assert google.tpu.created == 1


@pytest.mark.parametrize("signals", [1, 2])
def test_an_interrupted_wait_is_resumed(slices: Engine, google: FakeGoogle, signals: int) -> None:
    slices.configure({"gemma4:tpu": {"waitForCapacity": "20s"}})
    google.tpu.configure(stop_at="WAITING_FOR_RESOURCES")
    process = slices.start("up", "--yes", "--skip-preview")
    until(lambda: len(google.sent("GET", QUEUED)) > 2)
    for _ in range(signals):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.5)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0, output
    google.tpu.configure(stop_at="")
    slices.up()
    assert google.tpu.created == 1
    assert set(slices.up().summary) == {"unchanged"}


def kill_before_the_answer(slices: Engine, google: FakeGoogle) -> None:
    google.fault("POST", "/queuedResources", delay_s=5)
    process = slices.start("up", "--yes", "--skip-preview")
    until(lambda: google.tpu.created == 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    slices.run("cancel", "--yes")


def test_a_process_killed_before_the_answer_is_adopted(slices: Engine, google: FakeGoogle) -> None:
    kill_before_the_answer(slices, google)
    slices.up()
    assert google.tpu.created == 1


def test_what_a_killed_process_left_goes_with_destroy(slices: Engine, google: FakeGoogle) -> None:
    kill_before_the_answer(slices, google)
    slices.destroy()
    assert google.leftovers() == []


def test_a_lost_answer_and_then_a_refusal_leave_nothing_behind(slices: Engine, google: FakeGoogle) -> None:
    google.fault("POST", "/queuedResources", drop="after")
    google.fault("POST", "/queuedResources", status=403, message="Permission denied", times=9)
    slices.up()
    assert google.tpu.created == 1
    slices.destroy()
    assert google.leftovers() == []


@pytest.mark.parametrize("slices_asked", [["blue"], ["blue", "green"]], ids=["one slice", "two"])
def test_credentials_that_expire_while_waiting_are_one_error(
    slices: Engine, google: FakeGoogle, slices_asked: list[str]
) -> None:
    slices.configure({"gemma4:tpu": {"slices": slices_asked}})
    google.tpu.configure(stop_at="WAITING_FOR_RESOURCES")
    process = slices.start("up", "--yes", "--skip-preview")
    entries = [f"/queuedResources/gemma4-v6e4-{name}-a" for name in slices_asked]
    until(lambda: all(len(google.sent("GET", entry)) > 3 for entry in entries))  # both are asked for and waited for
    google.expire("fake-access-token")
    text, _ = process.communicate(timeout=60)
    google.expired.clear()
    failed = Outcome(process.returncode, text)
    (error,) = failed.errors
    assert "gcloud auth application-default login" in error
    assert "Traceback" not in text


def test_credentials_that_have_expired_are_one_error(slices: Engine, google: FakeGoogle) -> None:
    slices.up()
    google.expire("fake-access-token")
    failed = slices.up(check=False)
    google.expired.clear()
    (error,) = failed.errors
    assert "gcloud auth application-default login" in error


@pytest.mark.parametrize("provisioning", ["spot", "on-demand"])
def test_capacity_can_be_bought_without_a_queue(slices: Engine, google: FakeGoogle, provisioning: str) -> None:
    slices.configure({"gemma4:tpu": {"provisioning": provisioning}})
    slices.up()
    assert set(slices.up().summary) == {"unchanged"}
    assert "runDuration" not in google.tpu.resources[f"{PLACE}/{BLUE}"]


def test_a_slice_of_another_project_is_found_there_and_goes_last(slices: Engine, google: FakeGoogle) -> None:
    slices.up()
    slices.configure({"gcp:project": "other-project"})
    slices.up()
    assert [name.split("/")[1] for name in google.tpu.resources] == ["other-project"]


def test_destroy_leaves_nothing_from_any_state(slices: Engine, google: FakeGoogle) -> None:
    for state in ("ACCEPTED", "PROVISIONING", "FAILED", "SUSPENDED", "DELETING"):
        google.tpu.configure(pace=1)
        slices.up()
        google.tpu.configure(pace=2)
        google.tpu.advance(BLUE, to=state)
        slices.destroy()
        assert google.leftovers() == [], state


def test_a_further_slice_that_waits_does_not_hold_up_the_first(slices: Engine, google: FakeGoogle) -> None:
    slices.up()
    google.tpu.configure(stop_at="WAITING_FOR_RESOURCES")
    slices.configure({"gemma4:tpu": {"slices": ["blue", "green"]}})
    began = time.monotonic()
    added = slices.up()
    assert time.monotonic() - began < 60
    assert "leaves this slice out" in added.output
    assert outputs_of(slices, "TpuNode", "green")["address"] == ""
    google.tpu.configure(stop_at="")
    google.tpu.advance(GREEN, to="ACTIVE")
    slices.up()
    assert slices.outputs()["instance-green"]
    assert set(slices.up().summary) == {"unchanged"}


def test_a_quota_refused_in_the_operation_of_a_further_slice_is_a_warning(slices: Engine, google: FakeGoogle) -> None:
    slices.up()
    message = (
        "Quota limit 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' has been exceeded. Limit: 4 in zone us-east5-a."
    )
    google.tpu.configure(late_refusal={"code": 8, "message": message})
    slices.configure({"gemma4:tpu": {"slices": ["blue", "green"]}})
    added = slices.up()
    assert "goes on without this slice" in added.output
    assert outputs_of(slices, "TpuNode", "green")["node_id"] == ""
    google.tpu.configure(late_refusal={})
    slices.up()
    slices.up()
    assert slices.outputs()["instance-green"]
    assert google.tpu.created == 2


def test_a_request_that_stays_in_the_queue_after_its_end_is_asked_for_again(slices: Engine, google: FakeGoogle) -> None:
    slices.configure({"gemma4:tpu": {"waitForCapacity": "2s"}})
    google.tpu.configure(stop_at="WAITING_FOR_RESOURCES")
    assert "No capacity" in slices.up(check=False).errors[0]
    google.tpu.resources[f"{PLACE}/{BLUE}"]["createTime"] = "2026-01-01T00:00:00.123456789Z"
    slices.up(check=False)
    assert google.tpu.created == 2
    assert list(google.tpu.resources) == [f"{PLACE}/{BLUE_B}"]
    google.tpu.configure(stop_at="")
    slices.configure({"gemma4:tpu": None})
    slices.up()
    assert set(slices.up().summary) == {"unchanged"}
    assert google.tpu.created == 2
