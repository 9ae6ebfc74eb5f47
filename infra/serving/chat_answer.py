"""A chat answer: whole, or put together from the pieces of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """A tool call that the server parsed from the model's answer; `arguments` should be a JSON object."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True)
class ChatAnswer:
    """A whole answer. vLLM's reasoning parser separates `reasoning` from `content`."""

    content: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    prompt_tokens: int
    completion_tokens: int
    """All that the model wrote, reasoning included."""
    reasoning_tokens: int = 0
    finish_reason: str = ""
    """`stop`, `length` (cut at the most tokens), `tool_calls`; empty where the answer was not finished."""

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> ChatAnswer:
        """Return the answer that a chat completion holds."""
        choice: Mapping[str, Any] = next(iter(payload.get("choices") or ()), {})
        message = choice.get("message") or {}
        written = Written()
        written.add(piece_of(message), choice.get("finish_reason"))
        return written.answer(payload.get("usage") or {})


@dataclass(frozen=True)
class CallPiece:
    """What one event adds to a tool call; `index` is the call's place in the answer."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True)
class Piece:
    """What one event adds to the answer."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[CallPiece, ...] = ()

    def __bool__(self) -> bool:
        """Whether it adds anything."""
        return bool(self.content or self.reasoning or self.calls)


def piece_of(delta: Mapping[str, Any]) -> Piece:
    """Return what a stream's `delta`, or a whole message, holds."""
    calls = enumerate(delta.get("tool_calls") or ())
    return Piece(
        content=delta.get("content") or "",
        reasoning=delta.get("reasoning") or "",
        calls=tuple(_call_piece(place, call) for place, call in calls),
    )


@dataclass
class Written:
    """What has come of an answer so far."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, list[CallPiece]] = field(default_factory=dict)
    finish_reason: str = ""

    def add(self, piece: Piece, finish_reason: str | None = None) -> None:
        """Take in the next piece, and why the answer ended where it did."""
        self.content.append(piece.content)
        self.reasoning.append(piece.reasoning)
        for call in piece.calls:
            self.calls.setdefault(call.index, []).append(call)
        self.finish_reason = finish_reason or self.finish_reason

    def answer(self, usage: Mapping[str, Any]) -> ChatAnswer:
        """Return the answer as far as it has come, with the server's count of tokens."""
        details = usage.get("completion_tokens_details") or {}
        return ChatAnswer(
            content="".join(self.content),
            reasoning="".join(self.reasoning),
            tool_calls=tuple(_joined(pieces) for _, pieces in sorted(self.calls.items())),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            reasoning_tokens=int(details.get("reasoning_tokens") or 0),
            finish_reason=self.finish_reason,
        )


def _call_piece(place: int, call: Mapping[str, Any]) -> CallPiece:
    function = call.get("function") or {}
    index = call.get("index")
    return CallPiece(
        index=place if index is None else int(index),  # a whole message does not number its calls
        id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        arguments=str(function.get("arguments") or ""),
    )


def _joined(pieces: Iterable[CallPiece]) -> ToolCall:
    parts = list(pieces)
    return ToolCall(
        name="".join(part.name for part in parts),
        arguments="".join(part.arguments for part in parts),
        id=next((part.id for part in parts if part.id), ""),
    )
