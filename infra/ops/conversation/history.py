"""What has been said in a conversation, and which part of it is sent with the next question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.ops.conversation.answer_wishes import user_turn
from infra.serving.client import Message
from infra.serving.message_parts import Part, text_part

NEARLY_FULL = 0.8
"""Share of the context from which on a conversation is told so."""
_CHARACTERS_PER_TOKEN = 3.0  # fewer than English has, so that a question is guessed too long rather than too short
_LEFT_FOR_AN_ANSWER = 512
_OLD_IMAGE = text_part("[an image that was sent earlier]")


@dataclass(frozen=True)
class Turn:
    """A question with its images, and the answer to it."""

    question: str
    parts: tuple[Part, ...]
    answer: str

    @property
    def characters(self) -> int:
        """Of text."""
        return len(self.question) + len(self.answer)


@dataclass
class History:
    """All turns of a conversation; those before `first_sent` no longer fit into the context and are not sent."""

    context_tokens: int | None = None
    """Longest prompt plus answer that the server takes; None where it does not say."""
    most_images: int | None = None
    """Images that the server takes in a request; older ones are not sent again. None where it is not known."""
    system: str = ""
    turns: list[Turn] = field(default_factory=list)
    first_sent: int = 0
    used_tokens: int = 0
    """Of the context, after the last answer, by the server's count."""

    def messages(self, question: str, parts: Sequence[Part] = ()) -> list[Message]:
        """Return what is sent: the system's text, the turns that fit, and the next question."""
        sent = [*self.turns[self.first_sent :], Turn(question, tuple(parts), "")]
        messages: list[Message] = []
        for turn, kept in zip(sent, self._kept_parts(sent), strict=True):
            messages += [user_turn(turn.question, kept), {"role": "assistant", "content": turn.answer}]
        first: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        return [*first, *messages[:-1]]

    def add(self, turn: Turn, used_tokens: int) -> None:
        """Keep a turn after which the context holds so many tokens."""
        self.turns.append(turn)
        self.used_tokens = used_tokens

    def clear(self) -> None:
        """Forget every turn; the system's text stays."""
        self.turns.clear()
        self.first_sent = self.used_tokens = 0

    def make_room(self, question: str) -> None:
        """Leave out the oldest turns until the question and a short answer fit by estimate."""
        if self.context_tokens is None:
            return
        wanted = len(question) / _CHARACTERS_PER_TOKEN + min(_LEFT_FOR_AN_ANSWER, self.context_tokens / 8)
        while self.used_tokens + wanted > self.context_tokens and self.leave_out_oldest():
            pass

    def leave_out_oldest(self) -> bool:
        """Send the oldest turn no more. Returns False where none is sent."""
        sent = self.turns[self.first_sent :]
        if not sent:
            return False
        share = sent[0].characters / max(1, sum(turn.characters for turn in sent))
        self.used_tokens = 0 if len(sent) == 1 else round(self.used_tokens * (1 - share))
        self.first_sent += 1
        return True

    @property
    def share_used(self) -> float:
        """Of the context, 0 to 1; 0 where its size is not known."""
        return self.used_tokens / self.context_tokens if self.context_tokens else 0.0

    def as_data(self, model: str) -> Mapping[str, Any]:
        """Return all of it as JSON data, in the form of a request: what is no longer sent is there too."""
        everything = History(system=self.system, turns=self.turns)
        return {"model": model, "messages": everything.messages("")[:-1]}

    def _kept_parts(self, turns: Sequence[Turn]) -> list[tuple[Part, ...]]:
        """Return the parts of each turn, with a word in place of each image but the newest `most_images`."""
        room = sum(len(turn.parts) for turn in turns) if self.most_images is None else self.most_images
        kept: list[tuple[Part, ...]] = []
        for turn in reversed(turns):
            old = max(0, len(turn.parts) - room)
            room -= len(turn.parts) - old
            kept.append((*[_OLD_IMAGE] * old, *turn.parts[old:]))
        return kept[::-1]
