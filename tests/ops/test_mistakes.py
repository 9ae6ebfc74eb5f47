"""What people type and write wrongly: what must be true of every answer, whatever its words are.

The cases stand in tests/messages; the words stand in tests/golden/messages.md, which `make golden` writes.
"""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from infra.planning.settings.stackfile import stack_names
from tests.golden import MESSAGES
from tests.messages import EVERY
from tests.messages.accepted import ACCEPTED
from tests.messages.case import Case, answer_to, faults_of, plan_of, settings_of
from tests.messages.transcript import transcript
from tests.planning.report.test_golden import difference
from tests.projects import ROOT, Answer, Capture, command

UNREADABLE = [case for case in EVERY if case.code == 2]
AS_DATA = [case for case in UNREADABLE if not {"--json", "tpu"} & set(case.typed.split())]
HEADS = ("bad settings", "bad input", "Error: ", "Usage: gemma4")
every_case = pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name[:80])


class TestTheAnswerToAMistake:
    @every_case
    def test_the_exit_code_tells_what_kind_of_mistake_it_is(self, case: Case) -> None:
        answer = plan_of(case) if case.is_plan else answer_to(case)
        assert answer.code == case.code, answer

    @every_case
    def test_the_answer_names_what_is_wrong_and_nothing_else(self, case: Case) -> None:
        if (case.code == 2 and case.typed != "tpu") or case.is_plan:
            said = faults_of(case)
            assert len(said) == len(case.names), said
            for fault, name in zip(said, case.names, strict=True):
                assert fault.startswith(f"{name}: "), fault
        else:
            answer = answer_to(case)
            text = " ".join((answer.err + answer.out).split())
            assert [name for name in case.names if name not in text] == [], text

    @pytest.mark.parametrize("case", [case for case in EVERY if case.meant], ids=lambda case: case.name[:80])
    def test_the_answer_offers_the_word_that_was_meant(self, case: Case) -> None:
        assert f"Did you mean {case.meant}?" in " ".join(faults_of(case))

    @pytest.mark.parametrize("case", UNREADABLE, ids=lambda case: case.name[:80])
    def test_what_cannot_be_read_is_said_to_have_done_nothing(self, case: Case) -> None:
        answer = answer_to(case)
        if "--json" in case.typed.split():
            assert (answer.err, answer.data["verdict"]) == ("", "bad settings")
        else:
            assert answer.err.startswith(HEADS), answer.err
            assert answer.out == ""
        if answer.err.startswith("bad "):
            head = answer.err.splitlines()[0]
            assert head.endswith(("nothing was planned or created:", "nothing was done:"))
            assert (f", {len(case.names)} things to mend" in head) == (len(case.names) > 1)

    @pytest.mark.parametrize("case", AS_DATA, ids=lambda case: case.name[:80])
    def test_as_data_every_fault_has_a_key_a_fact_and_a_way_out(self, case: Case) -> None:
        answer = answer_to(case, "--json")
        assert (answer.code, answer.data["verdict"], answer.err) == (2, "bad settings", "")
        assert answer.data["faults"]
        for fault in answer.data["faults"]:
            assert fault["key"]
            assert fault["fact"]
            assert fault["fix"] or "; write" in fault["fact"] or " is not one of " in fault["fact"], fault

    @pytest.mark.parametrize("case", [case for case in EVERY if case.is_plan], ids=lambda case: case.name[:80])
    def test_a_plan_with_a_fault_says_fact_consequence_and_fix(self, case: Case) -> None:
        data = plan_of(case).data
        assert bool(data["refusals"]) == (case.code == 3) == (data["verdict"] == "refused")
        for fault in (*data["refusals"], *data["warnings"]):
            assert all(fault[part].endswith((".", "…")) for part in ("fact", "consequence", "fix")), fault

    @pytest.mark.parametrize("case", [case for case in EVERY if case.code == 1], ids=lambda case: case.name[:80])
    def test_what_could_not_be_done_is_said_in_a_line_with_what_to_do(self, case: Case) -> None:
        answer = answer_to(case)
        if not answer.err and _says_what_comes_next(answer):
            return  # it is answered: what was asked about does not do what it should
        said = answer.data["error"] if answer.out.startswith("{") else (answer.err + answer.out).splitlines()[-1]
        assert said.endswith(".")
        assert "; " in said, "a fact, and after it what to do"


def _says_what_comes_next(answer: Answer) -> bool:
    """Whether a command has answered and ends with what to type now."""
    if answer.out.startswith("{"):
        return bool(answer.data.get("next"))
    return answer.out.splitlines()[-1].startswith("Next: ")


class TestAnAnswer:
    @pytest.mark.parametrize("typed", ["frob", "plan", "plan l4 --frob", "recommend --users 0"])
    def test_a_command_line_that_cannot_be_read_points_at_the_help(self, typed: str) -> None:
        answer = answer_to(Case(typed, 2))
        assert answer.code == 2
        assert "-h' for help" in answer.err

    def test_two_forms_of_a_plan_at_once_are_refused_as_data_where_data_are_one(self) -> None:
        answer = answer_to(Case("plan l4 --json --markdown", 2))
        assert (answer.code, answer.data["faults"][0]["key"]) == (2, "--markdown")

    def test_a_need_that_nothing_meets_is_answered_with_the_count_of_each_reason(self) -> None:
        answer = answer_to(Case("recommend --model 31b --max-usd-per-hour 0.1", 3))
        head, _, reasons = answer.out.rstrip("\n").partition(": ")
        assert (answer.code, head) == (3, "nothing in the catalog meets this need")
        assert all(re.match(r"\d+ [a-z]", reason) for reason in reasons.split(", "))
        assert re.search(r"too dear \(the cheapest is \$\d+\.\d\d/h: \S*31b\S* on \S+\)", reasons)

    def test_a_broken_stack_file_keeps_no_other_stack_from_the_list(self) -> None:
        case = Case("stacks", 0, title="a misspelt key", file="config:\n  gemma4:regoin: x\n")
        answer = answer_to(case)
        assert (answer.code, "regoin: no such setting." in answer.out) == (0, True)
        assert [name for name in stack_names(ROOT) if name not in answer.out] == []


class TestTheTranscript:
    def test_the_transcript_holds_what_the_program_answers_now(self) -> None:
        before, after = MESSAGES.read_text("utf-8"), transcript()
        if before != after:
            pytest.fail(difference(before, after, "tests/golden/messages.md"), pytrace=False)

    def test_each_case_has_a_name_of_its_own(self) -> None:
        names = [case.name for case in EVERY]
        assert [name for name in names if names.count(name) > 1] == []


@pytest.mark.parametrize(("case", "settings"), ACCEPTED, ids=lambda value: getattr(value, "name", None))
def test_what_only_looks_wrong_is_planned_as_it_was_meant(case: Case, settings: dict[str, Any]) -> None:
    answer = plan_of(case)
    assert (answer.code, faults_of(case)) == (0, [])
    assert answer_to(case, "--no-resources").code == 0
    planned = settings_of(case)
    for path, value in settings.items():
        assert reduce(getattr, path.split("."), planned) == value


@pytest.mark.parametrize(
    ("stack", "names"),
    [("l4", ("stack: ", "Pulumi project shop", " dev.")), ("dev", ("stack: ", "Pulumi project shop"))],
)
def test_the_folder_of_another_project_is_named(
    stack: str, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: shop\nruntime: python\n", "utf-8")
    (tmp_path / "Pulumi.dev.yaml").write_text("config:\n  shop:size: 1\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    answer = command(capsys)("plan", stack)
    assert answer.code == 2
    assert [name for name in names if name not in answer.err] == []
