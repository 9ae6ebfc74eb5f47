"""A server's words lead to the option at fault. The words are what vLLM 0.32.0 answered."""

from __future__ import annotations

import pytest

from infra.errors import SettingsError
from infra.ops.conversation.explained_refusals import explained, is_too_long, most_images
from infra.serving.server_errors import AnswerError, FailureKind


def refused(words: str, status: int = 400, kind: FailureKind = FailureKind.REJECTED) -> AnswerError:
    return AnswerError(f"POST answered {status}: {words}", kind=kind, status=status, words=words)


TOO_LONG = refused(
    "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens, which "
    "exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
)
TOO_LONG_WITH_IMAGES = refused("Input length (19810) exceeds model's maximum context length (4096).")


@pytest.mark.parametrize("error", [TOO_LONG, TOO_LONG_WITH_IMAGES])
def test_a_question_that_is_too_long_names_the_context(error: AnswerError) -> None:
    assert is_too_long(error)
    assert "does not fit into the server's context of 4096 tokens" in str(explained(error))


def test_an_image_that_the_server_cannot_fetch_is_told_only_where_it_had_to() -> None:
    words = "Cannot connect to host 127.0.0.1:9 ssl:default [Connect call failed ('127.0.0.1', 9)]"
    error = refused(words, 500, FailureKind.FAILED)
    said = explained(error, fetches=True)
    assert isinstance(said, SettingsError)
    assert "--image: the server could not fetch it: Cannot connect to host" in str(said)
    assert explained(error) is error


def test_the_names_that_are_served_are_offered() -> None:
    words = "The model `tuned` does not exist. Valid aliases: gemma, spec-lab."
    assert str(explained(refused(words, 404, FailureKind.NOT_FOUND))).endswith("It serves: gemma, spec-lab.")


def test_too_large_a_request_is_told_by_its_status() -> None:
    assert "larger than one request may be" in str(explained(refused("Request Entity Too Large", 413)))


def test_options_are_named_as_their_user_knows_them() -> None:
    error = refused("At most 2 image(s) may be provided in one prompt.")
    assert str(explained(error, keys={"--image": "/image"})).startswith(
        "/image: the server takes at most 2 in one request"
    )
    assert most_images(error) == 2
    assert most_images(refused("At most 0 image(s) may be provided in one prompt.")) is None


@pytest.mark.parametrize("kind", [FailureKind.BUSY, FailureKind.UNAVAILABLE, FailureKind.ENGINE_DEAD, FailureKind.CUT])
def test_what_is_no_fault_of_the_question_stays_what_it_is(kind: FailureKind) -> None:
    error = refused("max_tokens=9 cannot be greater than max_model_len=8", 503, kind)
    assert explained(error) is error


def test_words_that_nobody_knows_stay_what_they_are() -> None:
    error = refused("something new {braces}")
    assert explained(error) is error
