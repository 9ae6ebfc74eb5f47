"""A server's first figures: every prompt length warmed once, then the speed of one lone request, and the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from infra.serving.check_stages import Ask, Notes, forced_length, said
from infra.serving.client import ChatRequest, ServingClient
from infra.serving.expectation import CheckExpectation
from infra.serving.samples import prompt_of
from infra.serving.server_errors import AnswerError
from infra.serving.stream import Timing

MEASURED_TOKENS = 64
_TEMPLATE_TOKENS = 16  # what the chat template adds to a prompt, about
_FIRST_GUESS = 4.0  # tokens a random word


@dataclass
class Prompts:
    """Unique prompts of a wanted length in tokens, learning from each answer how many tokens a word takes."""

    tokens_per_word: float = _FIRST_GUESS

    def about(self, tokens: int) -> str:
        """A prompt of roughly that length, template included."""
        return prompt_of(self._words(tokens))

    def learn(self, wanted: int, counted: int) -> None:
        """`counted`: the server's own count for a prompt that was made for `wanted` tokens; 0 where it has none."""
        if counted > _TEMPLATE_TOKENS:
            self.tokens_per_word = (counted - _TEMPLATE_TOKENS) / self._words(wanted)

    def _words(self, tokens: int) -> int:
        return max(1, int((tokens - _TEMPLATE_TOKENS) / self.tokens_per_word))


def warm_up(ask: Ask, expected: CheckExpectation, prompts: Prompts) -> Notes:
    """The first request of a new prompt length is slow (20 to 60 s on a Cloud Run L4, third party, 2026): no user should
    be the one who waits for it."""
    for length in expected.warm_up_lengths():
        prompt = prompts.about(length)
        answer = ask(ChatRequest(expected.model, said(prompt), 2, temperature=0, extra=forced_length(2)))
        prompts.learn(length, answer.prompt_tokens)
    return ()


def speed(client: ServingClient, expected: CheckExpectation, prompts: Prompts) -> Timing:
    """One streamed answer of a fixed length to a prompt of the typical length."""
    tokens = min(MEASURED_TOKENS, max(2, (expected.max_model_len or 4 * MEASURED_TOKENS) // 4))
    prompt = said(prompts.about(expected.warm_up_lengths()[-1]))
    request = ChatRequest(expected.model, prompt, tokens, temperature=0, extra=forced_length(tokens))
    with client.stream(request) as stream:
        for _ in stream:
            pass
        return stream.timing


def tokens_per_second(timing: Timing) -> tuple[float, Notes]:
    """Output tokens a second after the first one; over the whole request, with a note, where the pieces came at once."""
    if timing.decode_tokens_per_second is not None:
        return timing.decode_tokens_per_second, ()
    whole = timing.output_tokens / timing.total_s if timing.total_s > 0 else 0.0
    return whole, ("the stream arrived in one piece, so tokens/s includes the prompt: something buffers on the way",)


def kv_cache(client: ServingClient, expected: CheckExpectation) -> tuple[int | None, Notes]:
    """The real capacity in tokens, and a note where it lies outside of the predicted band or cannot be read."""
    try:
        config = client.metrics().cache_config()
    except AnswerError as error:
        return None, (f"the KV cache's size is unknown: {error}",)
    if config is None or config.kv_tokens is None:
        return None, ("the KV cache's size is unknown: this server's /metrics does not say it",)
    if expected.predicted_kv_tokens is None:
        return config.kv_tokens, ()
    low, likely, high = expected.predicted_kv_tokens
    if low <= config.kv_tokens <= high:
        return config.kv_tokens, ()
    side = "more" if config.kv_tokens > high else "less"
    return config.kv_tokens, (
        f"the KV cache holds {config.kv_tokens:,} tokens, {side} than the {likely:,} predicted ({low:,} to {high:,})",
    )
