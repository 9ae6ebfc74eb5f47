"""The access token: fetched when it is needed, renewed before it ends, fresh after a refusal."""

from __future__ import annotations

import json

import pytest

from containers.shared import access_token
from containers.shared.access_token import SPARE_S, AccessToken

LASTS_S = 3600.0


class MetadataAnswers:
    """Answers that number their tokens, on a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.asked = 0.0, 0
        monkeypatch.setattr(access_token.time, "monotonic", lambda: self.now)  # type: ignore[attr-defined]

    def __call__(self) -> bytes:
        self.asked += 1
        return json.dumps({"access_token": f"token-{self.asked}", "expires_in": LASTS_S}).encode()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> MetadataAnswers:
    return MetadataAnswers(monkeypatch)


def test_a_token_is_fetched_once_and_again_five_minutes_before_it_ends(answers: MetadataAnswers) -> None:
    token = AccessToken(answers)
    answers.now = 1000.0
    assert [token.value(), token.value()] == ["token-1", "token-1"]
    answers.now = 1000.0 + LASTS_S - SPARE_S - 1
    assert token.value() == "token-1"
    answers.now += 1
    assert token.value() == "token-2"


def test_a_token_that_was_refused_is_fetched_anew(answers: MetadataAnswers) -> None:
    token = AccessToken(answers)
    assert token.value() == "token-1"
    token.forget()
    assert token.value() == "token-2"


@pytest.mark.parametrize("answer", [b"", b"not json", b"[]", b"{}", b'{"access_token": "x"}', b'{"expires_in": 3600}'])
def test_an_answer_without_a_token_is_a_value_error_that_leaves_nothing_behind(answer: bytes) -> None:
    given = [answer, b'{"access_token": "good", "expires_in": 3600}']
    token = AccessToken(lambda: given.pop(0))
    with pytest.raises(ValueError):  # noqa: PT011  whatever its text
        token.value()
    assert token.value() == "good"
