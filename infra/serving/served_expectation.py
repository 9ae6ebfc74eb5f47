"""From what a server says of itself to what a check expects of it: for a server that nobody here has planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.errors import ServingError
from infra.serving import samples
from infra.serving.check_stages import user_message
from infra.serving.client import ChatRequest, ServingClient
from infra.serving.expectation import CheckExpectation
from infra.serving.server_errors import AnswerError, FailureKind

READY_TIMEOUT_S = 30.0
"""How long the check of such a server waits: it has answered a moment ago."""
_FUNCTION = {"name": "report", "description": "Report.", "parameters": {"type": "object", "properties": {}}}


def served_expectation(client: ServingClient) -> CheckExpectation:
    """Return what the server offers: its first model with the longest context, tools and images if it takes them.

    A server says neither, so each is asked for once, with an answer of one token. Whether it parses reasoning cannot be
    told. Raises AnswerError where it does not answer, and ServingError where it serves no model.
    """
    served = client.models()
    if not served:
        raise ServingError("/v1/models lists no model, so there is nothing to check", stage="models")
    first = served[0]
    tools = [{"type": "function", "function": _FUNCTION}]
    image: list[Mapping[str, Any]] = [
        {"role": "user", "content": [samples.image_part(), {"type": "text", "text": "?"}]}
    ]
    return CheckExpectation(
        model=first.name,
        max_model_len=first.max_model_len or 0,
        tools=_takes(client, first.name, user_message("Hello."), tools),
        image=_takes(client, first.name, image),
        ready_timeout_s=READY_TIMEOUT_S,
    )


def _takes(
    client: ServingClient,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
) -> bool:
    """Return False where the server refuses the request itself; any other trouble is left to the check."""
    choice = "auto" if tools else None
    try:
        client.chat(ChatRequest(model, messages, 1, temperature=0, tools=tools, tool_choice=choice))
    except AnswerError as error:
        return error.kind is not FailureKind.REJECTED
    return True
