"""The README shows the real output of the program, not a memory of it."""

from __future__ import annotations

import pytest

from tests.golden import README, output, with_blocks
from tests.planning.report.test_golden import difference

TEXT = README.read_text("utf-8")


def test_its_blocks_are_what_the_program_prints_now() -> None:
    now = with_blocks(TEXT)
    if now != TEXT:
        pytest.fail(difference(TEXT, now, "README.md"), pytrace=False)


def test_the_plan_of_l4_stands_in_it_whole() -> None:
    assert output("plan", "l4").rstrip() in TEXT


def test_a_block_that_is_wrong_would_be_seen() -> None:
    assert with_blocks(TEXT.replace("Next: pulumi up -s l4\n", "Next: pulumi up -s l5\n", 1)) == with_blocks(TEXT)
    assert TEXT.replace("Next: pulumi up -s l4\n", "Next: pulumi up -s l5\n", 1) != with_blocks(TEXT)


def test_the_two_commands_come_before_everything_else() -> None:
    assert (
        TEXT.index("make plan ") < TEXT.index("<!-- written by make golden: plan l4 -->") < TEXT.index("## Deploying")
    )
