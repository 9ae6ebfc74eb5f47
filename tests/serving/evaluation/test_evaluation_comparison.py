"""Two runs are compared over the questions that both were asked in the same words, and over no others."""

from __future__ import annotations

from infra.serving.evaluation.evaluation_comparison import compare_items
from infra.serving.evaluation.evaluation_record import AskedItem, Outcome


def item(number: int, outcome: Outcome = "passed", *, digest: str = "d", words: str = "w") -> AskedItem:
    return AskedItem(
        id=f"copying-{number}",
        kind="copying",
        digest=digest,
        outcome=outcome,
        why="",
        answer="",
        answer_digest=words,
        sign="",
        prompt_tokens=1,
        completion_tokens=1,
        seconds=0.1,
        same_again=None,
    )


def run(*outcomes: Outcome) -> list[AskedItem]:
    return [item(number, outcome) for number, outcome in enumerate(outcomes)]


def test_what_was_lost_and_won_is_named() -> None:
    found = compare_items(run("passed", "failed", "passed"), run("failed", "passed", "passed"))
    assert (found.lost, found.won, found.passed_before, found.passed_after) == (("copying-0",), ("copying-1",), 2, 2)
    assert found.verdict == "no difference"


def test_six_lost_and_none_won_is_worse_and_five_are_not() -> None:
    before = [item(number) for number in range(9)]
    for count, verdict in ((5, "no difference"), (6, "worse")):
        after = [item(number, "failed" if number < count else "passed") for number in range(9)]
        assert compare_items(before, after).verdict == verdict
    assert compare_items(after, before).verdict == "better"


def test_a_request_that_failed_counts_as_a_wrong_answer() -> None:
    assert compare_items(run("passed"), run("error")).lost == ("copying-0",)


def test_a_question_in_other_words_is_another_question() -> None:
    found = compare_items([item(0), item(1)], [item(0, "failed", digest="other"), item(1)])
    assert (found.common, found.lost) == (1, ())


def test_what_was_not_asked_says_nothing() -> None:
    assert compare_items(run("passed", "passed"), run("not asked", "passed")).common == 1
    assert compare_items(run("not asked"), run("passed")).verdict == "nothing to compare"


def test_other_words_are_counted_and_are_no_fault() -> None:
    found = compare_items([item(0), item(1)], [item(0, words="other"), item(1)])
    assert (found.same_words, found.verdict) == (1, "no difference")


def test_two_errors_are_not_the_same_words() -> None:
    assert compare_items([item(0, "error", words="")], [item(0, "error", words="")]).same_words == 0
