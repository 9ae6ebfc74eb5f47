"""The time that new grants get before something needs them: on a clock of its own, and only where something is new."""

from __future__ import annotations

from typing import Any

import pytest

from infra.providers import grant_propagation
from infra.providers.grant_propagation import GrantPropagationProvider
from tests.fakes.google.client import FakeTime

PROPS: dict[str, Any] = {"after": ["account-1", "grant-1"], "settle_s": 120.0}


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    monkeypatch.setattr(grant_propagation, "_now", fake.clock)
    monkeypatch.setattr(grant_propagation, "_sleep", fake.sleep)
    return fake


def test_what_is_created_waits_and_says_for_how_long(time: FakeTime, capsys: pytest.CaptureFixture[str]) -> None:
    GrantPropagationProvider().create(PROPS)
    assert sum(time.pauses) == 120
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("120 s more: Google needs minutes")
    assert lines[-1].startswith("10 s more")


def test_with_a_time_of_zero_nothing_waits(time: FakeTime) -> None:
    GrantPropagationProvider().create({**PROPS, "settle_s": 0.0})
    assert time.pauses == []


@pytest.mark.parametrize(
    ("change", "updated", "waited"),
    [
        ({}, False, 0),
        ({"settle_s": 300.0}, False, 0),
        ({"urn": "another"}, False, 0),
        ({"after": ["grant-1", "account-1", "grant-2"]}, True, 120),
        ({"after": ["account-2", "grant-1"]}, True, 120),
        ({"after": ["account-1"]}, True, 0),
    ],
    ids=["nothing", "time", "name", "new grant", "account made anew", "grant gone"],
)
def test_a_later_up_waits_only_for_what_is_new(
    time: FakeTime, change: dict[str, Any], updated: bool, waited: float
) -> None:
    provider, news = GrantPropagationProvider(), {**PROPS, **change}
    assert provider.diff("propagated", PROPS, news).changes is updated
    if updated:
        assert provider.update("propagated", PROPS, news).outs == news
    assert sum(time.pauses) == waited


def test_deleting_it_waits_for_nothing(time: FakeTime) -> None:
    GrantPropagationProvider().delete("propagated", PROPS)
    assert time.pauses == []
