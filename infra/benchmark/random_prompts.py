"""Makes the requests of a benchmark: prompts of random words that differ from the first word on, answers of forced length.

How many tokens a word takes is asked of the server, which counts them: the model's tokenizer is not needed here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.benchmark.stored_run import Shape
from infra.errors import Gemma4Error
from infra.serving.check_stages import forced_length, user_message
from infra.serving.client import ChatRequest, ServingClient
from infra.serving.samples import prompt_of

WARMUP_TOKENS = 32
"""Answers of the warm-up are not longer: it is prompts of a new length that make a server compile."""
SHARED_PART = 0.5
"""The part of a prompt that is the same in all of them where a shared prefix is asked for."""

_SPREAD = 0.02  # by how much a prompt of random words may be longer than meant
_FEW_WORDS, _MANY_WORDS = 8, 800
_MOST_TOKENS_PER_WORD = 8


@dataclass(frozen=True)
class WordCount:
    """How the server counts: so many tokens for the chat template, and so many for each random word."""

    template_tokens: float
    tokens_per_word: float

    def words_for(self, tokens: float) -> int:
        """Return how many words make a prompt of about `tokens` tokens, chat template included; at least one."""
        return max(1, round((tokens - self.template_tokens) / self.tokens_per_word))


@dataclass(frozen=True)
class PromptMaker:
    """Makes request bodies for one model. `prefix` begins each prompt; empty where prompts have nothing in common."""

    model: str
    counted: WordCount
    max_model_len: int | None
    shared: bool
    seed: int

    def bodies(self, shape: Shape, *, warmup: int, requests: int, turn: str) -> Iterator[Mapping[str, Any]]:
        """Yield the bodies of the warm-up, then those that are counted. `turn` names the repeat: another one has other prompts,
        which is why nothing of them can be in the prefix cache."""
        chance = random.Random(f"{self.seed} {turn}")  # noqa: S311 - no secret
        tokens = self._prompt_tokens(shape)
        words = self.counted.words_for(tokens)
        common = round(words * SHARED_PART) if self.shared else 0
        prefix = prompt_of(common, random.Random(f"{self.seed} shared {words}")) if common else ""  # noqa: S311 - no secret
        for number in range(warmup + requests):
            answer = min(WARMUP_TOKENS, shape.output_tokens) if number < warmup else shape.output_tokens
            prompt = f"{prefix} {prompt_of(words - common, chance)}".strip()
            request = ChatRequest(self.model, user_message(prompt), answer, temperature=0, extra=forced_length(answer))
            yield request.body() | {"stream": True, "stream_options": {"include_usage": True}}

    def _prompt_tokens(self, shape: Shape) -> float:
        """Return the length to aim at: that of the shape, or less where some prompts would exceed max_model_len."""
        if self.max_model_len is None:
            return shape.input_tokens
        return min(shape.input_tokens, (self.max_model_len - shape.output_tokens) / (1 + _SPREAD))


def count_words(client: ServingClient, model: str, max_model_len: int | None, chance: random.Random) -> WordCount:
    """Return how the server counts random words, from a short and a long prompt. Raises AnswerError, and Gemma4Error where the
    server gives no usage."""
    many = _MANY_WORDS if max_model_len is None else max_model_len // _MOST_TOKENS_PER_WORD
    many = min(max(many, 2 * _FEW_WORDS), _MANY_WORDS)
    short, long = (_counted(client, model, words, chance) for words in (_FEW_WORDS, many))
    tokens_per_word = (long - short) / (many - _FEW_WORDS)
    if tokens_per_word <= 0:
        raise Gemma4Error(
            f"the server counted {short} tokens for {_FEW_WORDS} words and {long} for {many}: without a true usage in its "
            "answers no length can be measured"
        )
    return WordCount(max(0.0, short - tokens_per_word * _FEW_WORDS), tokens_per_word)


def _counted(client: ServingClient, model: str, words: int, chance: random.Random) -> int:
    prompt = user_message(prompt_of(words, chance))
    return client.chat(ChatRequest(model, prompt, 1, temperature=0, extra=forced_length(1))).prompt_tokens
