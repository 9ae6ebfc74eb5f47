"""A conversation in progress: each question is sent with what was said before, as far as the server takes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from infra.errors import Gemma4Error
from infra.ops.conversation.answer_wishes import AnswerWishes
from infra.ops.conversation.explained_refusals import explained, is_too_long, most_images
from infra.ops.conversation.heard_answer import HeardAnswer, hear
from infra.ops.conversation.history import NEARLY_FULL, History, Turn
from infra.ops.conversation.live_answer import LiveAnswer, tell
from infra.planning.units import counted
from infra.serving.client import ServingClient
from infra.serving.message_parts import Part
from infra.serving.server_errors import AnswerError

_KEYS = {"--image": "/image", "question": "the question"}


@dataclass
class Dialogue:
    """What the commands of a chat change, and what its questions add to."""

    client: ServingClient
    who: str
    """Named while an answer is waited for."""
    model: str
    wishes: AnswerWishes
    history: History
    attached: list[Part] = field(default_factory=list)
    """Images for the next question."""
    heard: list[HeardAnswer] = field(default_factory=list)
    ended: bool = False

    def ask(self, question: str) -> None:
        """Print the answer to a question while it is written, and keep both. Raises SettingsError and AnswerError; then the
        question counts as not asked, and the images attached to it go with the next one."""
        history, sent_before = self.history, (self.history.first_sent, self.history.used_tokens)
        live = LiveAnswer()
        try:
            history.make_room(question)
            heard = self._heard(question, live)
        except (Gemma4Error, KeyboardInterrupt) as error:
            history.first_sent, history.used_tokens = sent_before
            if isinstance(error, Gemma4Error):
                raise
            tell("stopped before an answer came; the question counts as not asked")
            return
        finally:
            live.end()
        if left_out := history.first_sent - sent_before[0]:
            turns = f"{counted(left_out, 'turn')} {'is' if left_out == 1 else 'are'}"
            tell(f"the context is full: the oldest {turns} not sent any more; /clear begins anew")
        self._keep(question, heard)

    def _heard(self, question: str, live: LiveAnswer) -> HeardAnswer:
        """Return the answer, sending less of the conversation where the server says that it was too much."""
        while True:
            request = self.wishes.request(self.model, self.history.messages(question, self.attached))
            try:
                return hear(self.client, request, self.who, live.show)
            except AnswerError as error:
                too_long = is_too_long(error) and self.history.leave_out_oldest()
                if not too_long and not self._sends_fewer_images(error):
                    raise explained(error, keys=_KEYS) from None

    def _sends_fewer_images(self, error: AnswerError) -> bool:
        """Return whether fewer images will be sent from now on, because the server refused so many."""
        most = most_images(error)
        if most is None or most == self.history.most_images or most < len(self.attached):
            return False
        self.history.most_images = most
        tell(f"the server takes {counted(most, 'image')} in a request: earlier ones are not sent again")
        return True

    def _keep(self, question: str, heard: HeardAnswer) -> None:
        """Add a turn, and say what is unusual about it."""
        answer, timing = heard.answer, heard.timing
        if heard.interrupted:
            tell(f"stopped after {counted(timing.output_tokens, 'token')}; what came stays in the conversation")
        elif answer.finish_reason == "length":
            tell(f"the answer was cut at {counted(timing.output_tokens, 'token')}")
        elif not answer.content.strip():
            tell("the model ended its answer without text")
        used = timing.prompt_tokens + timing.output_tokens - answer.reasoning_tokens
        self.history.add(Turn(question, tuple(self.attached), answer.content), used)
        self.attached = []
        self.heard.append(heard)
        if (share := self.history.share_used) >= NEARLY_FULL:
            tell(f"the context is {share:.0%} full: the oldest turns give way; /clear begins anew")
