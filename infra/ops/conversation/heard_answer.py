"""Listens to one answer until it ends, or until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from infra.ops.terminal.progress import waiting
from infra.serving.chat_answer import ChatAnswer, Piece
from infra.serving.client import ChatRequest, ServingClient
from infra.serving.server_errors import AnswerError
from infra.serving.stream import Timing

Show = Callable[[Piece], None]


@dataclass(frozen=True)
class HeardAnswer:
    """An answer as far as it came, and how fast."""

    answer: ChatAnswer
    timing: Timing
    interrupted: bool
    """Whether Ctrl-C ended it. The connection is closed, at which vLLM stops generating."""


def hear(client: ServingClient, request: ChatRequest, who: str, show: Show) -> HeardAnswer:
    """Return the answer to a request; `show` gets each piece as it comes, `who` is named while the first one is waited for.
    Raises AnswerError where the server refuses or fails, and KeyboardInterrupt where Ctrl-C comes before it has answered."""
    began = False

    def shown(piece: Piece) -> None:
        nonlocal began
        began = True
        show(piece)

    try:
        return _hear(client, request, who, shown)
    except AnswerError as error:
        # After vLLM refused a request with an image, the next one with the same image fails once: the API server believes
        # that the engine has it (vllm #43941; on 0.32.0 the second try succeeds).
        if began or error.status != 500 or not _has_image(request):
            raise
    return _hear(client, request, who, show)


def _hear(client: ServingClient, request: ChatRequest, who: str, show: Show) -> HeardAnswer:
    interrupted = False
    with ExitStack() as wait:
        wait.enter_context(waiting(f"waiting for the first token from {who}"))
        with client.stream(request) as stream:
            try:
                for piece in stream:
                    if piece:
                        wait.close()
                        show(piece)
            except KeyboardInterrupt:
                interrupted = True
            return HeardAnswer(stream.answer, stream.timing, interrupted)


def _has_image(request: ChatRequest) -> bool:
    contents = [message["content"] for message in request.messages if not isinstance(message["content"], str)]
    return any(part["type"] == "image_url" for content in contents for part in content)
