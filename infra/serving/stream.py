"""Reads a streamed chat completion: server-sent events as they arrive, and the times between them."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.serving.chat_answer import ChatAnswer, Piece, Written, piece_of
from infra.serving.server_errors import AnswerError, FailureKind, cleaned, engine_failed


@dataclass(frozen=True)
class Timing:
    """Times of one streamed answer, in seconds since the request was sent. A piece may hold several tokens."""

    ttft_s: float
    """Until the first piece of text, reasoning or a tool call."""
    gaps_s: tuple[float, ...]
    """Between one such piece and the next: the inter-token latency where each piece is one token."""
    total_s: float
    prompt_tokens: int
    output_tokens: int
    """The server's count; the number of pieces where it gives none, as of an answer that was broken off."""

    @property
    def decode_tokens_per_second(self) -> float | None:
        """Tokens after the first, over the time they took; None where the stream came at once or was too short."""
        decoding_s = sum(self.gaps_s)
        if self.output_tokens < 2 or len(self.gaps_s) < 2 or decoding_s <= 0:
            return None
        return (self.output_tokens - 1) / decoding_s


class ChatStream:
    """The pieces of an answer, to be iterated once; `answer` and `timing` hold what has come, and all of it afterwards.

    Iterating raises AnswerError where the engine fails in the middle or the stream ends without its end mark.
    """

    def __init__(
        self, lines: Iterable[bytes], what: str, *, started: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._lines = lines
        self._what = what
        self._started = started
        self._clock = clock
        self._arrivals: list[float] = []
        self._usage: Mapping[str, Any] = {}
        self._written = Written()
        self._ended: float | None = None

    def __iter__(self) -> Iterator[Piece]:
        for event in self._events():
            self._usage = event.get("usage") or self._usage
            for choice in event.get("choices") or ():
                piece = piece_of(choice.get("delta") or {})
                self._written.add(piece, choice.get("finish_reason"))
                if piece:
                    self._arrivals.append(self._elapsed())
                yield piece
        self._ended = self._elapsed()

    @property
    def answer(self) -> ChatAnswer:
        """The answer as far as it has come; whole once the iteration has ended."""
        return self._written.answer(self._usage)

    @property
    def timing(self) -> Timing:
        """Complete once the iteration has ended; before, as if the answer ended now."""
        arrivals = self._arrivals
        total_s = self._elapsed() if self._ended is None else self._ended
        return Timing(
            ttft_s=arrivals[0] if arrivals else total_s,
            gaps_s=tuple(later - earlier for earlier, later in itertools.pairwise(arrivals)),
            total_s=total_s,
            prompt_tokens=int(self._usage.get("prompt_tokens") or 0),
            output_tokens=int(self._usage.get("completion_tokens") or len(arrivals)),
        )

    def _elapsed(self) -> float:
        return self._clock() - self._started

    def _events(self) -> Iterator[Mapping[str, Any]]:
        for line in self._lines:
            if not line.startswith(b"data:"):
                continue
            data = line[len(b"data:") :].strip()
            if data == b"[DONE]":
                return
            event = _parsed(data, self._what)
            if "error" in event:
                raise engine_failed(event, self._what)
            yield event
        raise AnswerError(f"{self._what}: the stream ended before its end mark.", kind=FailureKind.CUT)


def _parsed(data: bytes, what: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        words = cleaned(data.decode(errors="replace"))
        raise AnswerError(f"{what} sent an event that is not JSON: {words}", kind=FailureKind.UNREADABLE, words=words)
    return event
