"""A renewal on the real engine: the request that `gemma4 renew` finds in the real state is replaced by another turn, and the
old one goes last; without capacity the old one stays, and a plain `up` goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.google.times import moment
from infra.ops.changing.renew import renew_answer
from infra.ops.endpoint.stack_state import state_in
from tests.engine.harness import Engine
from tests.fakes.google import FakeGoogle

PLACE = "projects/demo-project/locations/us-east5-a"
BLUE_A, BLUE_B = (f"{PLACE}/queuedResources/gemma4-v6e4-blue-{turn}" for turn in "ab")


@pytest.fixture
def slices(tmp_path: Path, google: FakeGoogle, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """One slice of a project whose program makes nothing else; `gemma4` runs in its folder, with its environment."""
    made = Engine(tmp_path, google, "v6e4", {"gemma4:tpu": {"waitForCapacity": "2s"}})
    shutil.copy(Path(__file__).with_name("slices_only.py"), made.project / "__main__.py")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(made.project)
    yield made
    google.clear()
    google.tpu.configure(stop_at="", pace=1)
    made.destroy()
    assert google.leftovers() == []


def ends_in(google: FakeGoogle, name: str, seconds: float) -> None:
    node = google.tpu.nodes[name.replace("/queuedResources/", "/nodes/")]
    node["schedulingConfig"] = {"terminationTimestamp": moment(time.time() + seconds)}


def test_a_slice_is_followed_by_its_other_turn_and_goes_last(slices: Engine, google: FakeGoogle) -> None:
    slices.up()
    assert set(google.tpu.resources) == {BLUE_A}
    ends_in(google, BLUE_A, 80_000)
    assert renew_answer("v6e4", yes=True).action == "nothing"
    ends_in(google, BLUE_A, 3000)

    google.tpu.configure(stop_at="WAITING_FOR_RESOURCES")
    with pytest.raises(Exception, match="ended with"):
        renew_answer("v6e4", yes=True)
    assert set(google.tpu.resources) == {BLUE_A, BLUE_B}, "the old one stays while the next one waits"
    leaving = {one.name: one.leaving for one in state_in(slices.state()).requests if one.leaving}
    assert leaving == {"blue": True}

    google.tpu.configure(stop_at="")
    google.tpu.advance(BLUE_B, to="ACTIVE")
    answer = renew_answer("v6e4", yes=True)
    assert (answer.action, answer.names) == ("go on", ["blue"])
    assert set(google.tpu.resources) == {BLUE_B}
    assert [one.leaving for one in state_in(slices.state()).requests] == [False]
    ends_in(google, BLUE_B, 80_000)
    assert renew_answer("v6e4", yes=True).action == "nothing"
