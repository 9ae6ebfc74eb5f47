"""Logs of public reports: each failure is named, and no ordinary log is."""

from __future__ import annotations

import tomllib
from collections import Counter
from typing import Any, cast

import pytest

from infra.catalog import catalog
from infra.catalog.failures import ShownIn
from infra.serving.failure_search import find_failures
from tests.projects import ROOT

DATA = ROOT / "tests" / "data" / "failure_logs"
MOST_LINES = 12


def excerpts(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads((DATA / name).read_text("utf-8"))["excerpts"]
    return rows


FAILED, ORDINARY = excerpts("failed.toml"), excerpts("ordinary.toml")


def address(row: dict[str, Any]) -> str:
    return str(row["address"]).removeprefix("https://github.com/")


def named(row: dict[str, Any]) -> list[str]:
    place = cast("ShownIn", row.get("shows_in", "log"))
    return [found.failure.id for found in find_failures(row["lines"].strip("\n").split("\n"), place)]


@pytest.mark.parametrize("row", FAILED, ids=address)
def test_a_failure_is_named_before_anything_else(row: dict[str, Any]) -> None:
    assert named(row)[:1] == [row["failure"]]


@pytest.mark.parametrize("row", ORDINARY, ids=address)
def test_an_ordinary_log_is_not_misnamed(row: dict[str, Any]) -> None:
    assert named(row) == []


def test_there_are_enough_of_both_and_some_of_both_were_kept_aside() -> None:
    for rows, least, aside in ((FAILED, 60, 20), (ORDINARY, 35, 15)):
        assert len(rows) >= least
        assert sum(bool(row.get("kept_aside")) for row in rows) >= aside
    assert len({row["failure"] for row in FAILED}) >= 30, "causes"


def test_every_excerpt_is_short_and_cites_its_thread_once() -> None:
    public = [row for row in (*FAILED, *ORDINARY) if not row["address"].startswith("laboratory")]
    assert all(row["address"].startswith("https://") for row in public)
    assert all(row["lines"].strip().count("\n") < MOST_LINES for row in public)
    assert [one for one, times in Counter(row["address"] for row in public).items() if times > 1] == []


def test_every_failure_that_an_excerpt_names_is_in_the_catalog() -> None:
    assert {row["failure"] for row in FAILED} <= set(catalog().failures)
