"""The life of a stack on Compute Engine on the real engine, with the real gcp provider."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import Engine, serve
from tests.fakes.google import FakeGoogle
from tests.fakes.managed_group import MACHINE, OTHER_ZONE, ZONE, attributes_of
from tests.fakes.supervisors import Supervisors
from tests.fakes.vllm import FakeVllm

MADE_ONCE = ("instanceTemplates", "instanceGroupManagers/", "/services", "healthChecks", "/firewalls", "/addresses")
"""What a request that changes a template, a group, the gateway or the network has in its path."""


@pytest.fixture
def stack(tmp_path: Path, google: FakeGoogle) -> Iterator[Engine]:
    made = Engine(tmp_path, google, "g4x2", {})
    yield made
    google.clear()
    made.destroy()
    assert google.leftovers() == []
    assert google.unknown == []


def instance(google: FakeGoogle) -> dict[str, Any]:
    found: dict[str, Any] = google.compute.resources[f"projects/demo-project/zones/{ZONE}/instances/{MACHINE}"]
    return found


def writes(google: FakeGoogle) -> list[str]:
    """Requests that change something of Compute Engine or Cloud Run."""
    asked = [one for one in google.requests if one.method in ("PATCH", "PUT", "DELETE", "POST")]
    reads = ("listManagedInstances", "listPerInstanceConfigs", ":generateIdToken", "/wait")
    return [one.path for one in asked if one.path.startswith(("/compute", "/run")) and not one.path.endswith(reads)]


def test_a_preview_asks_for_nothing(stack: Engine, google: FakeGoogle) -> None:
    preview = stack.preview()
    assert set(preview.summary) == {"to create"}, preview.output
    assert writes(google) == []


def test_the_whole_life(stack: Engine, google: FakeGoogle, server: FakeVllm) -> None:
    serve(server, google, stack)
    first = stack.up()
    assert set(first.summary) == {"created"}, first.output
    assert stack.outputs()["url"] == server.url
    made = instance(google)
    assert "accessConfigs" not in made["networkInterfaces"][0]
    again = stack.up()
    assert set(again.summary) == {"unchanged"}, again.output

    # A flag change reaches the machine in place, and the group for the case of a repair: nothing else is written.
    stack.configure({"gemma4:serving": {"maxModelLen": 4096}})
    serve(server, google, stack)
    google.clear()
    changed = stack.up()
    assert changed.summary["updated"] == 2, changed.output
    assert instance(google)["id"] == made["id"]
    assert server.spec_hash in attributes_of(google)["gemma4-spec"]
    told = [path.rsplit("/", 1)[-1] for path in writes(google)]
    assert told == ["patchPerInstanceConfigs", "setMetadata"]

    # A repair by the group: same name, address and newest specification, and the next up checks it again.
    google.compute.repair(MACHINE)
    anew = instance(google)
    assert anew["id"] != made["id"]
    assert anew["networkInterfaces"][0]["networkIP"] == made["networkInterfaces"][0]["networkIP"]
    assert server.spec_hash in attributes_of(google)["gemma4-spec"]
    repaired = stack.up()
    assert repaired.summary["updated"] == 2, repaired.output  # specification and check, of another machine

    # Another disk is a new template, and the machine that runs stays until its next repair.
    stack.configure({"gemma4:machine": {"diskGb": 300}})
    serve(server, google, stack)
    stack.up()
    assert instance(google)["id"] == anew["id"]
    templates = [name for name in google.compute.resources if "/instanceTemplates/" in name]
    assert len(templates) == 1

    # A pause deletes the machine and keeps group and address; going on brings it back with the address.
    stack.configure({"gemma4:paused": True})
    paused = stack.up()
    assert paused.summary["deleted"] == 4, paused.output
    assert not [name for name in google.compute.resources if "/instances/" in name]
    assert any("/addresses/" in name for name in google.compute.resources)
    stack.configure({"gemma4:paused": None})
    serve(server, google, stack)
    resumed = stack.up()
    assert resumed.summary["created"] == 4, resumed.output
    assert instance(google)["networkInterfaces"][0]["networkIP"] == made["networkInterfaces"][0]["networkIP"]


def test_a_machine_without_stock_keeps_the_gateway_and_serves_by_itself_when_there_is_some(
    stack: Engine, google: FakeGoogle, server: FakeVllm
) -> None:
    stack.configure({"gemma4:machine": {"waitForCapacity": "2s"}})
    serve(server, google, stack)
    google.compute.stock = {ZONE: 0}
    failed = stack.up(check=False)
    (said,) = failed.errors
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in said
    assert any("gemma4-g4x2" in name for name in google.run.resources), "the gateway is there before any machine"
    # What changes while it waits is what it starts with.
    stack.configure({"gemma4:serving": {"maxModelLen": 4096}})
    serve(server, google, stack)
    stack.up(check=False)
    google.compute.restock(ZONE)
    assert server.spec_hash in attributes_of(google)["gemma4-spec"]
    assert stack.up().summary["created"] == 3  # the machine as seen, its specification and its check


def test_a_move_drains_the_machine_first_and_with_another_name_it_is_followed_before_it_goes(
    stack: Engine, google: FakeGoogle, server: FakeVllm
) -> None:
    supervisors = Supervisors(google)
    with supervisors.at_work():
        serve(server, google, stack)
        stack.up()
        google.clear()
        stack.configure({"gemma4:machine": {"zones": [OTHER_ZONE]}, "gemma4:serving": {"maxModelLen": 4096}})
        serve(server, google, stack)
        warned = stack.preview().output
        assert "an outage until that one serves" in warned
        assert writes(google) == []
        stack.up()
        told = [path.rsplit("/", 1)[-1] for path in writes(google)]
        drained, deleted, anew = (told.index(one) for one in ("setMetadata", "deleteInstances", "createInstances"))
        assert drained < deleted < anew
        assert supervisors.told == ["blue serving", "blue drained"]
        (asked,) = google.sent("POST", "createInstances")
        assert server.spec_hash in asked.body["instances"][0]["preservedState"]["metadata"]["gemma4-spec"]
        assert "gemma4-drain" not in attributes_of(google, OTHER_ZONE)

        # With another name the new machine serves before the old one is drained, and nothing is said of an outage.
        google.clear()
        supervisors.told.clear()
        stack.configure({"gemma4:machine": {"zones": [ZONE], "names": ["green"]}})
        serve(server, google, stack)
        assert "an outage until" not in stack.preview().output
        stack.up()
        told = [path.rsplit("/", 1)[-1] for path in writes(google)]
        assert told.index("createInstances") < told.index("setMetadata") < told.index("deleteInstances")
        assert supervisors.told == ["blue serving", "green serving", "blue drained"]
        assert set(stack.up().summary) == {"unchanged"}
