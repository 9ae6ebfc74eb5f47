"""What is sent with the next question: all that fits, the newest first to stay, and no more images than the server takes."""

from __future__ import annotations

import pytest

from infra.ops.conversation.history import History, Turn
from infra.serving.message_parts import image_url_part

IMAGE = image_url_part("https://x.test/a.png")


def history(*answers: str, context: int | None = 1000, used: int = 0, images: int = 0) -> History:
    made = History(context_tokens=context)
    for number, answer in enumerate(answers):
        made.add(Turn(f"q{number}", (IMAGE,) * images, answer), used)
    return made


def texts(found: History, question: str = "now") -> list[str]:
    return [str(message["content"]) for message in found.messages(question)]


def test_what_was_said_before_goes_with_the_question() -> None:
    found = history("a0", "a1")
    found.system = "Be brief."
    assert [(message["role"], message["content"]) for message in found.messages("now")] == [
        ("system", "Be brief."),
        ("user", "q0"),
        ("assistant", "a0"),
        ("user", "q1"),
        ("assistant", "a1"),
        ("user", "now"),
    ]


def test_the_oldest_turns_make_room_for_the_question_and_an_answer() -> None:
    found = history("a" * 100, "b" * 100, "c" * 100, used=950)
    found.make_room("now")
    assert found.first_sent == 1
    assert texts(found) == ["q1", "b" * 100, "q2", "c" * 100, "now"]
    assert 600 < found.used_tokens < 650, "the share of its text is taken off"


def test_nothing_is_left_out_while_it_fits() -> None:
    for found in (history("a", "b", used=800), history("a", "b", used=10**9, context=None)):
        found.make_room("now")
        assert found.first_sent == 0, found.context_tokens


def test_a_question_that_is_too_long_by_itself_leaves_nothing_else() -> None:
    found = history("a", "b", used=100)
    found.make_room("x" * 9000)
    assert texts(found, "x") == ["x"]
    assert not found.leave_out_oldest()


def test_what_is_no_longer_sent_is_still_saved() -> None:
    found = history("a", "b", used=999)
    found.make_room("x" * 9000)
    assert [message["content"] for message in found.as_data("m")["messages"]] == ["q0", "a", "q1", "b"]


def test_clearing_keeps_the_words_of_the_system() -> None:
    found = history("a", used=9)
    found.system = "Be brief."
    found.clear()
    assert texts(found) == ["Be brief.", "now"]
    assert found.share_used == 0


@pytest.mark.parametrize(("most", "kept"), [(None, 6), (6, 6), (3, 3), (1, 1)])
def test_older_images_give_way_to_newer_ones(most: int | None, kept: int) -> None:
    found = history("a0", "a1", images=2)
    found.most_images = most
    messages = found.messages("now", (IMAGE, IMAGE))
    parts = [part for message in messages if not isinstance(message["content"], str) for part in message["content"]]
    images = [place for place, part in enumerate(parts) if part["type"] == "image_url"]
    assert len(images) == kept
    words = [part.get("text") for part in parts]
    assert words.count("[an image that was sent earlier]") == 6 - kept
    assert not [place for place, word in enumerate(words) if word and word[0] == "[" and place > min(images)]
