"""Answers that differ in what nobody asked about are right; those that differ in what was asked are wrong."""

from __future__ import annotations

import pytest

from infra.serving.chat_answer import ChatAnswer, ToolCall
from infra.serving.evaluation.answer_judges import is_right
from infra.serving.evaluation.soundness import sign_of
from infra.serving.evaluation.task_set import task_set

TASKS = {task.id: task for task in task_set().tasks}
COPY = TASKS["copying-code"].prompt


def said(content: str, *calls: tuple[str, str]) -> ChatAnswer:
    return ChatAnswer(content, "", tuple(ToolCall(*one) for one in calls), 10, 10)


@pytest.mark.parametrize(
    ("task", "content"),
    [
        ("arithmetic-product", "17 * 20 = 340, 17 * 4 = 68.\nAnswer: 408"),
        ("arithmetic-product", "**408**"),
        ("arithmetic-decimal", "Answer: 0.375."),
        ("extraction-invoice", '{"invoice": "r-2041", "total": 1284.50, "days_to_pay": 14}'),
        ("extraction-guests", '```json\n{"guests": ["Amara", "Tom", "Yuki"]}\n```'),
        ("image-colour", "The circle is Red."),
        ("image-count", "Three"),
        ("instructions-capitals", '"COLD".'),
        ("instructions-sort", "apple, fig,\n pear, plum"),
        ("copying-code", f"```python\n{COPY}\n```"),
        ("copying-code", f"“{COPY}”"),
        ("translation-german", "Good morning"),
        ("tools-none-needed", "It is **Oslo**."),
    ],
)
def test_right(task: str, content: str) -> None:
    assert is_right(TASKS[task], said(content))


@pytest.mark.parametrize(
    ("task", "content"),
    [
        ("arithmetic-product", "Answer: 4080"),
        ("arithmetic-product", "408, or rather 418"),
        ("extraction-invoice", '{"invoice": "R-2041", "total": "1284.50", "days_to_pay": 14}'),
        ("extraction-invoice", '{"invoice": "R-2041", "total": 1284.5, "days_to_pay": 14, "city": "Rome"}'),
        ("extraction-invoice", '{"invoice": "R-2041", "total": 1284.5'),
        ("extraction-invoice", "[" * 100_000),
        ("extraction-guests", '{"guests": ["Amara", "Tom", "Yuki", "Lars"]}'),
        ("extraction-stock", '{"price": 89, "available": 0}'),
        ("extraction-missing", '{"mail": "okafor@example.org", "telephone": ""}'),
        ("image-colour", "red or blue"),
        ("image-side", "bright"),
        ("instructions-capitals", "cold"),
        ("instructions-thrice", "tree-tree-tree-tree"),
        ("copying-code", COPY.replace("1.07", "1.7")),
        ("copying-code", f"{COPY} {COPY}"),
        ("translation-camel", "readnextline"),
    ],
)
def test_wrong(task: str, content: str) -> None:
    assert not is_right(TASKS[task], said(content))


class TestCalls:
    right = ("get_weather", '{"city": "lisbon", "unit": "celsius"}')

    def test_are_compared_with_their_arguments(self) -> None:
        task = TASKS["tools-weather"]
        assert is_right(task, said("", self.right))
        for other in (
            ("get_weather", '{"city": "Lisbon", "unit": "fahrenheit"}'),
            ("get_weather", '{"city": "Lisbon"}'),
            ("get_weather", '{"city": "Lisbon", "unit": "celsius"'),
            ("find_order", '{"city": "Lisbon", "unit": "celsius"}'),
        ):
            assert not is_right(task, said("", other))
        assert not is_right(task, said("", self.right, self.right)), "called twice"

    def test_are_wrong_where_none_is_needed_even_beside_the_right_words(self) -> None:
        assert not is_right(TASKS["tools-none-needed"], said("Oslo", self.right))


class TestSignsOfABrokenServer:
    @pytest.mark.parametrize(
        ("text", "sign"),
        [
            ("", "empty"),
            (" \n", "empty"),
            ("!!!!!!!!!!!!!!!!", "repeats itself"),
            ("the the the the the the the the the", "repeats itself"),
            ("and so on and so on and so on and so on and so on and so on and so on and so on", "repeats itself"),
            ("pair \ufffduser", "is no text"),
            ("<unused12>", "is no text"),
            ("<pad><pad>", "is no text"),
        ],
    )
    def test_are_named(self, text: str, sign: str) -> None:
        assert sign_of(said(text)) == sign

    @pytest.mark.parametrize(
        "text", ["tree-tree-tree", "10 9 8 7 6 5 4 3 2 1", "1000000", COPY, TASKS["copying-accents"].prompt, "a <b> c"]
    )
    def test_are_not_seen_in_right_answers(self, text: str) -> None:
        assert sign_of(said(text)) == ""

    def test_a_call_without_text_is_not_empty(self) -> None:
        assert sign_of(said("", TestCalls.right)) == ""
