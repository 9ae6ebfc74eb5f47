"""Known failures in lines: which lines count, which of several failures takes precedence, and which line is quoted."""

from __future__ import annotations

from infra.serving.failure_search import find_failures, first_failure

HEAD = "(EngineCore pid=9) ERROR 09-18 21:36:10 [core.py:708]"
TOO_SMALL = f"{HEAD} ValueError: No available memory for the cache blocks."
RAISED = f'{HEAD}     raise ValueError("No available memory for the cache blocks. "'
RANK = "ValueError: LoRA rank 64 is greater than max_lora_rank 16."


def ids(*lines: str) -> list[str]:
    return [found.failure.id for found in find_failures(lines, "log")]


def test_the_more_exact_failure_comes_first_whatever_was_written_first() -> None:
    assert ids(RANK, TOO_SMALL) == ids(TOO_SMALL, RANK) == ["kv-cache-too-small", "adapter-rank-too-large"]


def test_the_line_that_says_what_went_wrong_is_quoted_rather_than_the_source_that_raised_it() -> None:
    (found,) = find_failures([TOO_SMALL, RAISED, "more"], "log")
    assert (found.lines, found.quoted) == ((0, 1), 0)


def test_a_line_whose_own_level_is_low_does_not_count() -> None:
    advice = "CUDA out of memory would be met with a lower gpu_memory_utilization."
    assert ids(f"(EngineCore pid=9) INFO 09-18 21:36:10 [gpu_worker.py:2] {advice}") == []
    assert ids(f"INFO:     {advice}") == ids(f"DEBUG:root:{advice}") == []
    assert ids(f"(EngineCore pid=9) ERROR 09-18 21:36:10 [gpu_worker.py:2] {advice}") == ["device-memory-exceeded"]


def test_a_failure_is_searched_only_where_it_shows() -> None:
    assert first_failure(["Quota exceeded for total allowable count of GPUs."], "log") is None
    found = first_failure(["Quota exceeded for total allowable count of GPUs."], "condition")
    assert found is not None
    assert found.id == "quota-held"


def test_nothing_is_found_in_nothing() -> None:
    assert find_failures([], "log") == []
