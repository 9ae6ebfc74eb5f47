"""One machine after the other is renewed, each early enough that all of them are in time; several at once only where that is
too late."""

from __future__ import annotations

import pytest

from infra.ops.changing.renewal_decision import decide
from infra.ops.running.machine_term import MachineTerm, Phase
from infra.planning.platforms.renewal import RenewalLead

LEAD = RenewalLead(queue_s=1200, start_s=1800, margin_s=3600)
STEP, MARGIN = LEAD.step_s, LEAD.margin_s
NOW = 1_000_000.0


def term(name: str, left_s: float | None, *, phase: Phase = "serves", turn: str = "a") -> MachineTerm:
    return MachineTerm(name, f"{name}-{turn}", phase, None if left_s is None else NOW + left_s)


class TestOneMachine:
    @pytest.mark.parametrize(("spare_s", "action"), [(60, "nothing"), (0, "renew"), (-60, "renew"), (-9000, "renew")])
    def test_is_renewed_when_queue_start_and_reserve_are_all_that_is_left(self, spare_s: float, action: str) -> None:
        decision = decide([term("blue", STEP + MARGIN + spare_s)], LEAD, NOW)
        assert (decision.action, decision.due_at) == (action, NOW + spare_s)
        assert decision.names == (() if action == "nothing" else ("blue",))

    def test_of_which_no_end_is_known_is_let_be(self) -> None:
        assert decide([term("blue", None)], LEAD, NOW).action == "nothing"

    @pytest.mark.parametrize(("left_s", "action"), [(7201, "nothing"), (7200, "renew")])
    def test_is_renewed_as_early_as_somebody_says(self, left_s: float, action: str) -> None:
        assert decide([term("blue", left_s)], LEAD, NOW, before_s=7200).action == action

    @pytest.mark.parametrize("phase", ["over", "missing"])
    def test_that_has_ended_is_asked_for_again(self, phase: Phase) -> None:
        terms = [term("blue", None, phase=phase), term("green", 90_000)]
        assert decide(terms, LEAD, NOW).action == "ask again"
        assert decide(terms, LEAD, NOW).names == ("blue",)


class TestAMachineThatIsBeingReplaced:
    @pytest.mark.parametrize("phase", ["waits", "starts", "serves"])
    def test_is_gone_on_with_and_no_other_is_begun(self, phase: Phase) -> None:
        terms = [term("blue", 60), term("blue", None, phase=phase, turn="b"), term("green", 30)]
        assert decide(terms, LEAD, NOW).action == "go on"
        assert decide(terms, LEAD, NOW).names == ("blue",)

    def test_is_gone_on_with_until_the_state_holds_nothing_of_the_old_one(self) -> None:
        assert decide([term("blue", 90_000)], LEAD, NOW, unfinished=["blue"]).action == "go on"
        assert decide([term("blue", 90_000)], LEAD, NOW).action == "nothing"

    def test_is_not_taken_for_one_that_left_an_ended_request_behind_which_no_state_knows(self) -> None:
        terms = [term("blue", None, phase="over"), term("blue", 60, turn="b")]
        assert decide(terms, LEAD, NOW).action == "renew"

    def test_is_gone_on_with_while_its_first_request_waits(self) -> None:
        assert decide([term("blue", None, phase="waits")], LEAD, NOW).action == "go on"


class TestAMachineThatNoStateKnows:
    LOST = MachineTerm("blue", "blue-b", "serves", NOW + 90_000, orphan=True)

    def test_hides_no_renewal_that_is_due(self) -> None:
        assert decide([term("blue", 60), self.LOST], LEAD, NOW).action == "renew"
        assert decide([term("blue", 90_000), self.LOST], LEAD, NOW).action == "nothing"

    def test_does_not_stand_in_for_one_that_has_ended(self) -> None:
        assert decide([term("blue", None, phase="over"), self.LOST], LEAD, NOW).action == "ask again"


class TestSeveralMachines:
    @pytest.mark.parametrize("phase", ["waits", "over", "missing"])
    def test_are_renewed_while_another_one_has_no_capacity(self, phase: Phase) -> None:
        decision = decide([term("blue", None, phase=phase), term("green", 60)], LEAD, NOW)
        assert (decision.action, decision.names) == ("renew", ("green",))

    def test_that_end_together_are_renewed_one_after_the_other_and_begin_earlier(self) -> None:
        left_s = 3 * STEP + MARGIN
        three = [term(name, left_s) for name in ("amber", "blue", "green")]
        assert decide(three, LEAD, NOW + 1).names == ("amber",)
        assert decide(three, LEAD, NOW - 1).action == "nothing"

    def test_of_which_the_first_ends_first_are_renewed_in_that_order(self) -> None:
        assert decide([term("blue", 5000), term("green", 4000), term("red", 80_000)], LEAD, NOW).names[0] == "green"

    def test_are_renewed_together_only_where_one_after_the_other_is_too_late(self) -> None:
        enough, late = 2 * STEP, 2 * STEP - 1
        assert decide([term("blue", STEP), term("green", enough)], LEAD, NOW).names == ("blue",)
        assert decide([term("blue", STEP), term("green", late)], LEAD, NOW).names == ("blue", "green")
