"""Makes the long texts and the questions about them: four numbers, each at its depth, in a log of a fictional port.

A text is the same whenever it is made for the same length and the same tokens a word. All questions about a text come after
it, so that a prefix cache reads it once, and is tested by that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from infra.serving.evaluation.task_set import ContextTasks, NumberCheck, Task

_RESERVED = 96
"""Tokens of a length that are left for the chat template and the answer."""
_OTHER_WORDS = 92
"""Words of a prompt that are not of the log: the question, and the sentences with the numbers."""
_FILLED = 0.97
"""Share of the rest that is filled, since the tokens that a word takes are known from a sample only."""
_SHIPS = ("Aurora", "Meridian", "Kittiwake", "Solveig", "Bonaventure", "Petrel", "Halcyon", "Thistledown")
_GOODS = ("copper wire", "dried figs", "roof tiles", "bicycle frames", "rye flour", "paper rolls", "olive oil", "wool")
_QUAYS = ("northern", "eastern", "old", "customs", "fish", "stone")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_OPENING = "This is the log of a port. Further below is a question about it.\n\n"


def sample_text(words: int) -> str:
    """Return that many words of such a log, to learn how many tokens of the served model a word takes."""
    return " ".join(list(_words(random.Random(0), words)))  # noqa: S311 - no secret


def context_lengths(context: ContextTasks, longest: int) -> tuple[int, ...]:
    """Return the lengths to ask for, from short to long: `longest` itself, and the next ones of the ladder below it."""
    ladder = [length for length in sorted(context.lengths) if length < longest]
    return (*ladder, *([longest] if longest >= min(context.lengths) else []))[-context.most_lengths :]


def context_tasks(context: ContextTasks, length: int, tokens_per_word: float) -> tuple[Task, ...]:
    """Return the questions about one text of about `length` tokens, question and answer included; none longer."""
    seed = random.Random(length)  # noqa: S311 - no secret
    codes = seed.sample(range(10_000, 99_999), len(context.places))
    words = list(_words(seed, int((length - _RESERVED) * _FILLED / tokens_per_word) - _OTHER_WORDS))
    inserts = sorted(zip(context.depths, context.places, codes, strict=True), reverse=True)
    for depth, place, code in inserts:
        words.insert(round(depth * len(words)), f"\nThe access code of the {place} depot is {code}.\n")
    text = _OPENING + " ".join(words)
    return tuple(
        Task(
            id=f"context-{length}-at-{round(depth * 100)}",
            kind="context",
            prompt=f"{text}\n\nWhat is the access code of the {place} depot? Answer with the number only.",
            check=NumberCheck(form="number", value=code),
            why=context.why,
        )
        for depth, place, code in zip(context.depths, context.places, codes, strict=True)
    )


def _words(seed: random.Random, count: int) -> Iterator[str]:
    """Yield `count` words of sentences none of which holds a number of five digits."""
    made = 0
    while made < count:
        sentence = (
            f"On {seed.choice(_DAYS)} the crew of the {seed.choice(_SHIPS)} unloaded {seed.randint(11, 99)} crates of "
            f"{seed.choice(_GOODS)} at the {seed.choice(_QUAYS)} quay."
        )
        for word in sentence.split():
            if made < count:
                yield word
                made += 1
