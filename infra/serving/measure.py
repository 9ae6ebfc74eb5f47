"""The measuring stages of the serving check: a warm-up of every prompt length, the speed of one request, the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from infra.serving.check_stages import Ask, Notes, forced_length, user_message
from infra.serving.client import ChatRequest, ServingClient
from infra.serving.expectation import CheckExpectation
from infra.serving.samples import prompt_of
from infra.serving.server_errors import AnswerError
from infra.serving.stream import Timing

MEASURED_TOKENS = 64
_TEMPLATE_TOKENS = 16  # what the chat template adds to a prompt, about
_FIRST_GUESS = 4.0  # tokens a random word
CAME_AT_ONCE = "the stream arrived in one piece, so tokens/s includes the prompt: a proxy in between buffers it"
"""The note of a check whose tokens a second are those of the whole request."""


@dataclass
class Prompts:
    """Makes unique prompts of a wanted length, and learns from each answer how many tokens a word takes."""

    tokens_per_word: float = _FIRST_GUESS

    def about(self, tokens: int) -> str:
        """Return a prompt of about that many tokens, chat template included."""
        return prompt_of(self._words(tokens))

    def learn(self, wanted: int, counted: int) -> None:
        """Take the server's count for a prompt that was made for `wanted` tokens; 0 where it gives none."""
        if counted > _TEMPLATE_TOKENS:
            self.tokens_per_word = (counted - _TEMPLATE_TOKENS) / self._words(wanted)

    def _words(self, tokens: int) -> int:
        return max(1, int((tokens - _TEMPLATE_TOKENS) / self.tokens_per_word))


def warm_up(ask: Ask, expected: CheckExpectation, prompts: Prompts) -> Notes:
    """Send one request of each prompt length, so that no user has to wait for the first one.

    The first request of a new length took 20 to 60 s on a Cloud Run L4 (third party, 2026).
    """
    for length in expected.warm_up_lengths():
        prompt = prompts.about(length)
        answer = ask(ChatRequest(expected.model, user_message(prompt), 2, temperature=0, extra=forced_length(2)))
        prompts.learn(length, answer.prompt_tokens)
    return ()


def speed(client: ServingClient, expected: CheckExpectation, prompts: Prompts) -> Timing:
    """Return the timing of one streamed answer of a fixed length to a prompt of the typical length."""
    tokens = min(MEASURED_TOKENS, max(2, (expected.max_model_len or 4 * MEASURED_TOKENS) // 4))
    prompt = user_message(prompts.about(expected.warm_up_lengths()[-1]))
    request = ChatRequest(expected.model, prompt, tokens, temperature=0, extra=forced_length(tokens))
    with client.stream(request) as stream:
        for _ in stream:
            pass
        return stream.timing


def tokens_per_second(timing: Timing) -> tuple[float, Notes]:
    """Return output tokens a second after the first; over the whole request, with a note, where all came at once."""
    if timing.decode_tokens_per_second is not None:
        return timing.decode_tokens_per_second, ()
    whole = timing.output_tokens / timing.total_s if timing.total_s > 0 else 0.0
    return whole, (CAME_AT_ONCE,)


def kv_cache(client: ServingClient, expected: CheckExpectation) -> tuple[int | None, Notes]:
    """Return the real capacity in tokens, and a note where it is outside the predicted band or cannot be read."""
    try:
        real = client.metrics().kv_cache_tokens()
    except AnswerError as error:
        return None, (f"the KV cache's size is unknown: {error}",)
    if real is None:
        return None, ("the KV cache's size is unknown: this server's /metrics does not say it",)
    if expected.predicted_kv_tokens is None:
        return real, ()
    low, likely, high = expected.predicted_kv_tokens
    if low <= real <= high:
        return real, ()
    side = "more" if real > high else "less"
    return real, (f"the KV cache holds {real:,} tokens, {side} than the {likely:,} predicted ({low:,} to {high:,})",)
