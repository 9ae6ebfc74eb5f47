"""What a plan says of the questions of serving.evaluation: how long they take, and where they are not asked at all."""

from __future__ import annotations

import pytest

from infra.ops.plan_inputs import plan_stack
from infra.planning.performance.evaluation_time import LONGEST_CHECKED, evaluation_seconds
from tests.projects import ROOT

WANTED = "serving.evaluation=true"


def said(*assignments: str, stack: str = "l4") -> list[str]:
    plan = plan_stack(stack, assignments, root=ROOT).plan
    return [note for note in plan.notes if note.startswith("serving.evaluation:")]


def seconds(*assignments: str, stack: str = "l4") -> float:
    plan = plan_stack(stack, assignments, root=ROOT).plan
    return evaluation_seconds(plan.server, prefix_caching=plan.settings.serving.prefix_caching).mid


class TestThePlan:
    def test_says_nothing_of_it_unless_somebody_wants_it(self) -> None:
        assert said() == []
        assert plan_stack("l4", root=ROOT).plan.settings.serving.evaluation is False

    def test_says_how_long_it_takes_and_that_its_floor_is_unproven(self) -> None:
        (note,) = said(WANTED)
        assert "sixty questions" in note
        assert " s" in note
        assert "no real Gemma 4 was asked" in note

    def test_serves_with_the_same_command(self) -> None:
        plans = [plan_stack("l4", assignments, root=ROOT).plan for assignments in ((), (WANTED,))]
        assert plans[0].command == plans[1].command, "no server is replaced for it"

    def test_warns_where_no_check_is_run(self) -> None:
        plan = plan_stack("l4", [WANTED, "access.ingress=internal"], root=ROOT).plan
        assert [fault.key for fault in plan.warnings if "evaluation" in fault.key] == ["serving.evaluation"]
        assert said(WANTED, "access.ingress=internal") == []


class TestTheTime:
    def test_is_longer_on_a_slower_machine(self) -> None:
        assert seconds(stack="l4-31b") > 3 * seconds(stack="rtx6000")

    def test_grows_with_the_context_up_to_what_is_checked(self) -> None:
        lengths = (4096, 8192, LONGEST_CHECKED, 2 * LONGEST_CHECKED)
        short, middle, full, longer = (seconds(f"serving.maxModelLen={length}") for length in lengths)
        assert short < middle < full
        assert longer == pytest.approx(full, rel=0.05)

    def test_is_longer_where_each_question_reads_its_text_anew(self) -> None:
        assert seconds("serving.prefixCaching=false") > seconds()

    def test_claims_no_more_than_is_known_of_the_answers_length(self) -> None:
        server = plan_stack("l4", root=ROOT).plan.server
        band = evaluation_seconds(server, prefix_caching=True)
        assert band.high > 1.5 * band.mid > 1.5 * band.low
