"""Golden plans: what every shipped stack comes to, kept as files that are reviewed like code."""

from __future__ import annotations

import difflib
import json

import pytest

from infra.planning.settings.stackfile import stack_names
from tests.golden import CONFIGURATION, GOLDEN, configuration, golden_plan
from tests.projects import ROOT

MOST_LINES = 60


def difference(before: str, after: str, name: str) -> str:
    """What changed, in few enough lines to read, and what to do about it."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), name, "now", lineterm="", n=2))
    more = [f"… {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
    return "\n".join([f"{name} is not what it was. If that is meant: make golden", *lines[:MOST_LINES], *more])


@pytest.mark.parametrize("name", stack_names(ROOT))
def test_a_stack_is_planned_as_it_was(name: str) -> None:
    path = GOLDEN / f"{name}.json"
    assert path.is_file(), f"{path.name} is missing: make golden"
    before, after = path.read_text("utf-8"), golden_plan(name)
    if before != after:
        pytest.fail(difference(before, after, f"tests/golden/{path.name}"), pytrace=False)


def test_every_golden_plan_is_of_a_stack() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == stack_names(ROOT)


def test_a_golden_plan_holds_its_resources() -> None:
    for path in GOLDEN.glob("*.json"):
        data = json.loads(path.read_text("utf-8"))
        assert data["resources"] or data["resourcesMissing"], path.name


def test_the_configuration_reference_is_what_the_settings_say() -> None:
    before, after = CONFIGURATION.read_text("utf-8"), configuration()
    if before != after:
        pytest.fail(difference(before, after, "docs/configuration.md"), pytrace=False)


def test_a_difference_is_short_and_says_what_to_do() -> None:
    shown = difference("\n".join("abc" * 99), "\n".join("xyz" * 99), "it")
    assert "make golden" in shown
    assert len(shown.splitlines()) <= MOST_LINES + 2
