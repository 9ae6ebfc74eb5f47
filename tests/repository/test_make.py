"""`make plan`: the stack that is meant is planned, however it is named, or one sentence says how to name it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.projects import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What make would run; it runs nothing."""
    return subprocess.run(
        ["make", "-n", *words],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "stack"),
    [(["plan"], "l4"), (["plan", "STACK=v6e4"], "v6e4"), (["plan", "stack=v6e4"], "v6e4"), (["plan", "v6e4"], "v6e4")],
)
def test_the_stack_that_is_meant_is_planned(words: list[str], stack: str) -> None:
    ended = make(*words, stack="other")  # a variable of the environment does not count
    assert ended.returncode == 0
    assert [line for line in ended.stdout.splitlines() if "gemma4 plan" in line] == [f".venv/bin/gemma4 plan {stack} "]


@pytest.mark.parametrize("words", [["plan", "v6e4", "v6e8"], ["plan", "v6e4", "STACK=l4"]])
def test_two_stacks_are_one_too_many(words: list[str]) -> None:
    ended = make(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "one stack at a time: make plan STACK=v6e4." in ended.stderr


def test_other_targets_are_what_they_were() -> None:
    assert ".venv/bin/python -m pytest -q" in make("test").stdout
    assert "No rule to make target 'v6e4'" in make("v6e4").stderr


def test_help_names_every_target_on_one_line_of_a_small_terminal() -> None:
    alone = {"PATH": "/usr/bin:/bin"}  # under `make test` its variables would make this one print its folder
    shown = subprocess.run(
        ["make"], cwd=ROOT, env=alone, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    targets = next(line for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if line.startswith("TARGETS"))
    assert [line.split()[1] for line in shown] == targets.partition(":= ")[2].split()
    assert [line for line in shown if len(line) > 80] == []
