"""Long texts hold each number at its depth, fit their length, and are the same for the same length."""

from __future__ import annotations

import re

import pytest

from infra.serving.evaluation.haystack import context_lengths, context_tasks, sample_text
from infra.serving.evaluation.task_set import NumberCheck, task_set

CONTEXT = task_set().context


@pytest.mark.parametrize("length", [1024, 5000, 32768])
class TestTheTexts:
    def test_hold_each_number_once_at_its_depth(self, length: int) -> None:
        for depth, task in zip(CONTEXT.depths, context_tasks(CONTEXT, length, 1.5), strict=True):
            assert isinstance(task.check, NumberCheck)
            text = task.prompt
            code = f"{task.check.value:.0f}"
            assert text.count(code) == 1
            assert text.index(code) / len(text) == pytest.approx(depth, abs=0.05 if length > 2000 else 0.2)

    def test_hold_no_other_number_of_that_form(self, length: int) -> None:
        tasks = context_tasks(CONTEXT, length, 1.5)
        codes = {f"{task.check.value:.0f}" for task in tasks if isinstance(task.check, NumberCheck)}
        assert set(re.findall(r"\d{5,}", tasks[0].prompt)) == codes
        assert len(codes) == len(tasks)

    def test_end_before_their_length(self, length: int) -> None:
        for tokens_per_word in (1.3, 3.0):
            (task, *_) = context_tasks(CONTEXT, length, tokens_per_word)
            assert 0.6 * length < len(task.prompt.split()) * tokens_per_word < length - 48

    def test_share_everything_but_the_question(self, length: int) -> None:
        texts = {task.prompt.rpartition("\n\n")[0] for task in context_tasks(CONTEXT, length, 1.5)}
        assert len(texts) == 1, "a prefix cache reads a text once"

    def test_are_the_same_every_time(self, length: int) -> None:
        assert context_tasks(CONTEXT, length, 1.5) == context_tasks(CONTEXT, length, 1.5)


@pytest.mark.parametrize(
    ("longest", "lengths"),
    [
        (500, ()),
        (1024, (1024,)),
        (4096, (1024, 2048, 4096)),
        (8192, (2048, 4096, 8192)),
        (32767, (8192, 16384, 32767)),
        (300_000, (131072, 262144, 300_000)),
    ],
)
def test_lengths_go_up_to_what_the_server_takes(longest: int, lengths: tuple[int, ...]) -> None:
    assert context_lengths(CONTEXT, longest) == lengths


def test_the_sample_reads_as_the_texts_do() -> None:
    sample = sample_text(200)
    assert len(sample.split()) == 200
    assert sample == sample_text(200)
    assert "quay" in sample
