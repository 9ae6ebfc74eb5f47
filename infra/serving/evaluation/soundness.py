"""Recognises answers that no working server gives: nothing, the same again and again, pieces of no text."""

from __future__ import annotations

import re
from typing import Literal

from infra.serving.chat_answer import ChatAnswer

Sign = Literal["", "empty", "repeats itself", "is no text"]

_LOOP = re.compile(r"(\S.{0,30}?)(?:\s*\1){7,}", re.DOTALL)
"""The same piece eight times in a row: more often than any right answer of the tasks repeats one."""
_NO_TEXT = re.compile(r"\ufffd|<unused\d+>|<pad>|<\|?(?:image|audio|tool|turn|channel)[^>\s]*>|[\ue000-\uf8ff]")
"""Characters that do not decode, and special tokens of Gemma 4 that a parser should have taken."""


def sign_of(answer: ChatAnswer) -> Sign:
    """Return what shows that an answer is broken, whatever was asked; empty where nothing does."""
    text = (answer.content + answer.reasoning).strip()
    if not text and not answer.tool_calls:
        return "empty"
    if _NO_TEXT.search(text):
        return "is no text"
    return "repeats itself" if _LOOP.search(text) else ""
