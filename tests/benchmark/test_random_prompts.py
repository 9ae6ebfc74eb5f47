"""Requests of a benchmark: nothing that a prefix cache could answer, answers of exactly the length that was asked for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from infra.benchmark.random_prompts import WARMUP_TOKENS, PromptMaker, WordCount, count_words
from infra.benchmark.stored_run import Shape
from infra.errors import Gemma4Error
from infra.serving.client import ServingClient
from tests.fakes.vllm import TEMPLATE_TOKENS, WORDS_PER_TOKEN, FakeVllm

COUNT = WordCount(template_tokens=10, tokens_per_word=2.5)


def shape(input_tokens: int = 1000, output_tokens: int = 200) -> Shape:
    return Shape(concurrency=4, input_tokens=input_tokens, output_tokens=output_tokens, workload="")


def maker(*, shared: bool = False, max_model_len: int | None = 4096, seed: int = 1) -> PromptMaker:
    return PromptMaker("gemma", COUNT, max_model_len, shared, seed)


def bodies(made: PromptMaker, point: Shape | None = None, turn: str = "0 0 ") -> list[Mapping[str, Any]]:
    return list(made.bodies(point or shape(), warmup=4, requests=20, turn=turn))


def texts(found: list[Mapping[str, Any]]) -> list[str]:
    return [body["messages"][0]["content"] for body in found]


def test_no_two_prompts_of_a_run_begin_with_the_same_block() -> None:
    """A block of vLLM's prefix cache has 16 tokens or more; the first 6 words are 15 tokens here."""
    found = [text for turn in ("0 0 ", "0 1 ", "1 0 ", "0 0 2026") for text in texts(bodies(maker(), turn=turn))]
    assert len({tuple(text.split()[:6]) for text in found}) == len(found) == 96


def test_the_same_seed_makes_the_same_prompts_and_another_one_others() -> None:
    assert texts(bodies(maker(seed=7))) == texts(bodies(maker(seed=7)))
    assert not set(texts(bodies(maker(seed=7)))) & set(texts(bodies(maker(seed=8))))


def test_prompts_have_the_words_that_make_their_tokens() -> None:
    assert {len(text.split()) for text in texts(bodies(maker()))} == {round((1000 - 10) / 2.5)}


def test_shared_prompts_begin_with_the_same_half_and_end_differently() -> None:
    found = [
        text.split() for text in texts(bodies(maker(shared=True))) + texts(bodies(maker(shared=True), turn="0 1 "))
    ]
    half = len(found[0]) // 2
    assert len({tuple(words[:half]) for words in found}) == 1
    assert len({tuple(words[half : half + 6]) for words in found}) == len(found)


def test_answers_are_forced_and_those_of_the_warm_up_short() -> None:
    found = bodies(maker())
    assert {body["temperature"] for body in found} == {0}
    assert all(body["ignore_eos"] and body["min_tokens"] == body["max_tokens"] for body in found)
    assert [body["max_tokens"] for body in found] == [WARMUP_TOKENS] * 4 + [200] * 20
    assert all(body["stream_options"] == {"include_usage": True} for body in found)


def test_no_prompt_aims_at_more_than_max_model_len_leaves() -> None:
    words = len(texts(bodies(maker(max_model_len=1200)))[0].split())
    assert 1.02 * (10 + 2.5 * words) <= 1000 + 2.5
    longest = len(texts(bodies(maker(max_model_len=1100)))[0].split())
    assert 1.02 * (10 + 2.5 * longest) <= 900 + 2.5


def test_the_server_is_asked_how_it_counts() -> None:
    with FakeVllm() as fake:
        found = count_words(ServingClient(fake.url), "gemma", fake.max_model_len, random.Random(1))
        assert found.tokens_per_word == pytest.approx(1 / WORDS_PER_TOKEN, rel=0.01)
        assert found.template_tokens == pytest.approx(TEMPLATE_TOKENS, abs=1)
        assert len(fake.sent("/v1/chat/completions")) == 2


def test_a_server_that_counts_nothing_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeVllm() as fake:
        client = ServingClient(fake.url)
        monkeypatch.setattr("infra.benchmark.random_prompts._counted", lambda *_: 0)
        with pytest.raises(Gemma4Error, match="without a true usage"):
            count_words(client, "gemma", 4096, random.Random(1))
