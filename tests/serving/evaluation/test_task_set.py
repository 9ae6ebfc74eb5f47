"""The questions: each has one right answer, which is right, and nothing but knowing it gets a kind above its floor."""

from __future__ import annotations

import ast
import json
import math
import operator
from pathlib import Path

import pytest

from infra.catalog import catalog
from infra.errors import CatalogError
from infra.planning.performance import evaluation_time
from infra.planning.settings.declarations import ModalitySettings
from infra.serving.chat_answer import ChatAnswer, ToolCall
from infra.serving.evaluation.answer_judges import is_right
from infra.serving.evaluation.evaluator import CONCURRENCY
from infra.serving.evaluation.haystack import context_tasks
from infra.serving.evaluation.paired_statistics import exact_mcnemar
from infra.serving.evaluation.questions import digest, request_of
from infra.serving.evaluation.task_set import (
    FILE,
    KINDS,
    CallCheck,
    FieldsCheck,
    NumberCheck,
    Task,
    TextCheck,
    task_set,
)
from tests.fakes.oracle import right

SET = task_set()
TASKS = (*SET.tasks, *context_tasks(SET.context, 2048, 1.5))
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def worked_out(node: ast.expr) -> float:
    if isinstance(node, ast.BinOp):
        return float(OPERATORS[type(node.op)](worked_out(node.left), worked_out(node.right)))
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return node.value


def answer(task: Task) -> ChatAnswer:
    message = right(task)
    calls = [one["function"] for one in message.get("tool_calls") or ()]
    return ChatAnswer(
        message["content"] or "", "", tuple(ToolCall(one["name"], one["arguments"]) for one in calls), 10, 10
    )


def said(text: str) -> ChatAnswer:
    return ChatAnswer(text, "", (), 10, 10)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
class TestEachQuestion:
    def test_counts_its_right_answer_as_right(self, task: Task) -> None:
        assert is_right(task, answer(task))

    def test_counts_every_other_right_answer_as_wrong(self, task: Task) -> None:
        same = [other.id for other in TASKS if other.kind == task.kind and is_right(task, answer(other))]
        assert same == [task.id]

    def test_is_not_answered_by_saying_nothing_or_everything(self, task: Task) -> None:
        for text in (
            "",
            "ready",
            "yes",
            "0",
            "{}",
            "red blue green left right circle square triangle 1 2 3",
            task.prompt * 2,
        ):
            assert not is_right(task, said(text)), text

    def test_says_why_it_is_there(self, task: Task) -> None:
        assert len(task.why) > 20


class TestTheSet:
    def test_holds_so_many_that_a_percentage_means_something(self) -> None:
        assert 40 <= len(TASKS) + 8 <= 64, "with three lengths of long texts"

    @pytest.mark.parametrize("kind", KINDS)
    def test_holds_enough_of_each_kind_to_tell_its_loss_from_chance(self, kind: str) -> None:
        times = 3 if kind == "context" else 1
        assert exact_mcnemar(lost=times * sum(task.kind == kind for task in TASKS), won=0) <= 0.05

    def test_asks_nothing_twice(self) -> None:
        names = [digest(request_of(task, SET, "m")) for task in TASKS]
        assert len(set(names)) == len(names)

    def test_asks_the_same_whatever_the_model_is_called(self) -> None:
        for task in TASKS:
            assert digest(request_of(task, SET, "a")) == digest(request_of(task, SET, "b"))

    def test_asks_without_chance_and_without_thinking(self) -> None:
        for task in TASKS:
            body = request_of(task, SET, "m").body()
            assert (body["temperature"], body["seed"]) == (0, 7)
            assert body["chat_template_kwargs"] == {"enable_thinking": False}

    def test_its_sums_are_right(self) -> None:
        for task in (task for task in SET.tasks if task.kind == "arithmetic"):
            assert isinstance(task.check, NumberCheck)
            assert worked_out(ast.parse(task.check.worked, mode="eval").body) == task.check.value, task.id

    def test_its_lists_are_in_order(self) -> None:
        (task,) = [task for task in SET.tasks if task.id == "instructions-sort"]
        assert isinstance(task.check, TextCheck)
        words = task.prompt.rpartition(": ")[2].split(", ")
        assert task.check.accepted[0] == ", ".join(sorted(words))

    def test_extractions_name_the_keys_that_are_compared(self) -> None:
        for task in (task for task in SET.tasks if task.kind == "extraction"):
            assert isinstance(task.check, FieldsCheck)
            assert {*task.check.fields, *task.check.nulls} == set(task.keys), task.id

    def test_calls_name_tools_that_are_offered_with_all_their_arguments(self) -> None:
        for task in SET.tasks:
            if isinstance(task.check, CallCheck):
                assert set(task.check.arguments) == set(SET.tools[task.check.name].parameters), task.id

    def test_a_picture_is_one_image_of_which_a_server_takes_that_many_by_default(self) -> None:
        assert ModalitySettings().image >= 1
        for task in (task for task in SET.tasks if task.picture):
            assert json.dumps(request_of(task, SET, "m").body()).count('"image_url"') == 2, "its type and its key"


class TestThePlannedTime:
    """A plan says how long the questions of a serving check take, and does not read them: it holds their sizes."""

    def test_counts_as_many_questions_as_there_are(self) -> None:
        assert len(SET.tasks) == evaluation_time.QUESTIONS
        assert len(SET.context.depths) == evaluation_time.QUESTIONS_A_TEXT
        assert SET.context.most_lengths == evaluation_time.CONTEXT_LENGTHS
        assert evaluation_time.RUNNING == CONCURRENCY

    def test_takes_answers_that_are_not_cut_on_average(self) -> None:
        most = [SET.kinds[task.kind].max_tokens for task in SET.tasks]
        assert sum(most) / len(most) >= evaluation_time.ANSWER_TOKENS * evaluation_time.ANSWER_ERROR


class TestFloors:
    def test_are_for_architectures_of_the_catalog(self) -> None:
        assert set(SET.floors) - {"default"} <= set(catalog().architectures)

    def test_are_called_a_judgement(self) -> None:
        assert all(floor.reason.startswith("a judgement") for floor in SET.floors.values())

    def test_are_out_of_reach_for_a_server_that_never_calls_a_tool(self) -> None:
        tools = [task for task in SET.tasks if task.kind == "tools"]
        without = sum(not isinstance(task.check, CallCheck) for task in tools)
        for floor in SET.floors.values():
            assert math.ceil(floor.shares["tools"] * len(tools)) > without

    def test_another_model_has_the_default_one(self) -> None:
        assert SET.floor("some-other") is SET.floors["default"]


class TestAFileThatContradictsItself:
    @pytest.mark.parametrize(
        ("old", "new", "says"),
        [
            ('id = "arithmetic-boxes"', 'id = "arithmetic-product"', "two tasks have the id arithmetic-product"),
            ('id = "arithmetic-boxes"', 'id = "poetry-boxes"', "poetry"),
            ('form = "number", value = 504', 'form = "guess", value = 504', "guess"),
            ("[floors.default]", "[floors.other]", "floors.default"),
            ("image = 0.5, ", "", "floors.default must name every kind"),
            ('version = "2026-11-22"', "", "version"),
        ],
    )
    def test_is_refused(self, tmp_path: Path, old: str, new: str, says: str) -> None:
        text = FILE.read_text("utf-8")
        assert old in text
        (tmp_path / "tasks.toml").write_text(text.replace(old, new, 1), "utf-8")
        with pytest.raises(CatalogError, match=says):
            task_set(tmp_path / "tasks.toml")
