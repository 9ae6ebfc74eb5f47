"""A slice is followed by another one on the real engine: what Pulumi does with a replacement, and in which order.

infra/providers/tpu_queued_resource.py relies on what stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import Engine, serve
from tests.fakes.google import FakeGoogle
from tests.fakes.supervisors import Supervisors
from tests.fakes.vllm import FakeVllm

BLUE_A, BLUE_B = "gemma4-v6e4-blue-a", "gemma4-v6e4-blue-b"
QUEUE = "dynamic/gemma4:TpuQueuedResource"


@pytest.fixture
def stack(tmp_path: Path, google: FakeGoogle) -> Iterator[Engine]:
    made = Engine(tmp_path, google, "v6e4", {})
    yield made
    google.clear()
    google.tpu.configure(stop_at="", pace=1)
    made.destroy()
    assert google.leftovers() == []
    assert google.unknown == []


@pytest.fixture
def supervisors(google: FakeGoogle) -> Iterator[Supervisors]:
    working = Supervisors(google)
    with working.at_work():
        yield working


def requests_for_slices(stack: Engine) -> list[dict[str, Any]]:
    return [one for one in stack.state()["deployment"]["resources"] if one["type"].endswith(QUEUE)]


def machines(google: FakeGoogle) -> list[str]:
    return [name.rsplit("/", 1)[-1] for name in google.tpu.nodes]


def test_a_renewal_deletes_the_old_one_when_the_new_one_has_passed_its_check_and_never_before(
    stack: Engine, google: FakeGoogle, server: FakeVllm, supervisors: Supervisors
) -> None:
    serve(server, google, stack)
    stack.up()
    assert list(supervisors.addresses()) == ["blue-a"]
    (request,) = requests_for_slices(stack)
    google.clear()

    # The new machine comes and its check fails: it stays in the state, and the old one is a deletion to be done.
    server.mode = "cannot generate"
    failed = stack.up(replace=[request["urn"]], check=False)
    assert "stage chat" in failed.output
    assert sorted(machines(google)) == [BLUE_A, BLUE_B]
    assert [bool(one.get("delete")) for one in requests_for_slices(stack)] == [False, True]
    assert sorted(supervisors.addresses()) == ["blue-a", "blue-b"]
    assert (google.tpu.created, google.sent("DELETE", "/queuedResources")) == (2, [])

    # The next `up` makes no third one, and deletes the old one, drained, in the end.
    server.mode = "normal"
    stack.up()
    assert (google.tpu.created, machines(google)) == (2, [BLUE_B])
    assert supervisors.told == ["blue-a serving", "blue-b serving", "blue-a drained"]
    assert [bool(one.get("delete")) for one in requests_for_slices(stack)] == [False]
    assert google.sent("PATCH", "/services/") == [], "the gateway's service is not touched"
    assert set(stack.up().summary) == {"unchanged"}
    stack.destroy()
    assert supervisors.told[-1] == "blue-b drained"
