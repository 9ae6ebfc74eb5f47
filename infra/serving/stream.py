"""Reads a streamed chat completion: server-sent events as they arrive, and the times between them."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.serving.server_errors import AnswerError, FailureKind, cleaned, engine_failed


@dataclass(frozen=True)
class Piece:
    """The text that one event adds to the answer."""

    content: str = ""
    reasoning: str = ""


@dataclass(frozen=True)
class Timing:
    """Times of one streamed answer, in seconds since the request was sent. A piece may hold several tokens."""

    ttft_s: float
    """Until the first piece with text."""
    gaps_s: tuple[float, ...]
    """Between one piece with text and the next: the inter-token latency where each piece is one token."""
    total_s: float
    prompt_tokens: int
    output_tokens: int
    """The server's count; the number of pieces with text where it gives none."""

    @property
    def decode_tokens_per_second(self) -> float | None:
        """Tokens after the first, over the time they took; None where the stream came at once or was too short."""
        decoding_s = sum(self.gaps_s)
        if self.output_tokens < 2 or len(self.gaps_s) < 2 or decoding_s <= 0:
            return None
        return (self.output_tokens - 1) / decoding_s


class ChatStream:
    """The pieces of an answer, to be iterated once; `timing` is complete afterwards.

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
        self._ended = 0.0

    def __iter__(self) -> Iterator[Piece]:
        for event in self._events():
            self._usage = event.get("usage") or self._usage
            for choice in event.get("choices") or ():
                delta = choice.get("delta") or {}
                piece = Piece(content=delta.get("content") or "", reasoning=delta.get("reasoning") or "")
                if piece.content or piece.reasoning:
                    self._arrivals.append(self._clock() - self._started)
                yield piece
        self._ended = self._clock() - self._started

    @property
    def timing(self) -> Timing:
        """Complete once the iteration has ended."""
        arrivals = self._arrivals
        return Timing(
            ttft_s=arrivals[0] if arrivals else self._ended,
            gaps_s=tuple(later - earlier for earlier, later in itertools.pairwise(arrivals)),
            total_s=self._ended,
            prompt_tokens=int(self._usage.get("prompt_tokens") or 0),
            output_tokens=int(self._usage.get("completion_tokens") or len(arrivals)),
        )

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
