"""The stages of the serving check that ask for an answer: text, adapters, reasoning, a tool call, an image, a sound, a video.

Each function asks and judges. It returns notes for the reader, or raises ServingError where the server does not do what was
planned. The temperature is always 0, so that the same server gives the same result. No stage depends on how good the
model is: an untrained model passes, since it is the deployment that is checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from infra.errors import ServingError
from infra.serving.chat_answer import ChatAnswer
from infra.serving.client import ChatRequest
from infra.serving.server_errors import AnswerError, FailureKind, cleaned

Ask = Callable[[ChatRequest], ChatAnswer]
Notes = tuple[str, ...]

ANSWER_TOKENS = 32
_CALL_TOKENS = 128
_TOOL = "report_state"
_STATES = ("ready", "busy")
_TOOL_PARAMETERS = {
    "type": "object",
    "properties": {"state": {"type": "string", "enum": list(_STATES)}},
    "required": ["state"],
    "additionalProperties": False,
}
# How Gemma 4 writes the call; vLLM's parser gemma4 turns it into OpenAI's form.
_WRITTEN_CALLS = [f'<|tool_call>call:{_TOOL}{{state:<|"|>{state}<|"|>}}<tool_call|>' for state in _STATES]


def chat(ask: Ask, model: str) -> Notes:
    """Check that text comes back. A model may end its answer at once, so a second question forces a length."""
    question = ChatRequest(model, user_message("Answer with one word: ready."), ANSWER_TOKENS, temperature=0)
    if _has_text(ask(question)):
        return ()
    answer = ask(_forced(question))
    if not _has_text(answer):
        raise ServingError(
            f"two answers held no text, the second one of {answer.completion_tokens} tokens, all of them special ones"
        )
    return ("the model ended its first answer without text; with a forced length it wrote some",)


def adapters(ask: Ask, model: str, names: Sequence[str]) -> Notes:
    """Check that each LoRA adapter answers under its name. One that says the same as the base model is a note."""
    question = _forced(ChatRequest(model, user_message("Say in a sentence who you are."), ANSWER_TOKENS, temperature=0))
    base, notes = ask(question), list[str]()
    for name in names:
        answer = ask(replace(question, model=name))
        if not _has_text(answer):
            raise ServingError(f"the adapter {name} answered without text, only with special tokens")
        if (answer.content, answer.reasoning) == (base.content, base.reasoning):
            notes.append(f"the adapter {name} answered word for word as the base model: perhaps none of it was applied")
    return tuple(notes)


def reasoning(ask: Ask, model: str) -> Notes:
    """Check that reasoning comes back apart from the answer. Whether it reasons is up to the model, so none is a note."""
    question = ChatRequest(
        model,
        user_message("How many hours do 90 minutes have? Think first."),
        ANSWER_TOKENS,
        temperature=0,
        extra={"chat_template_kwargs": {"enable_thinking": True}},
    )
    answer = ask(question)
    if answer.reasoning.strip():
        return ()
    return (f"asked to reason, the model gave no reasoning apart from its answer within {ANSWER_TOKENS} tokens",)


def tools(ask: Ask, model: str) -> Notes:
    """Check that a forced tool call comes back parsed.

    vLLM leaves Gemma's own call syntax to the model even where a call is forced (0.32.0: the parser gemma4 sets no
    grammar). So a model that does not write the call by itself may only choose between two written ones: that checks the
    server's parser.
    """
    function = {"name": _TOOL, "description": "Report the state of the server.", "parameters": _TOOL_PARAMETERS}
    question = ChatRequest(
        model,
        user_message("Report the state of the server with the tool: it is ready."),
        _CALL_TOKENS,
        temperature=0,
        tools=[{"type": "function", "function": function}],
        tool_choice={"type": "function", "function": {"name": _TOOL}},
    )
    problem = _call_problem(ask(question))
    if not problem:
        return ()
    limited = ChatRequest(
        model,
        question.messages,
        _CALL_TOKENS,
        temperature=0,
        tools=question.tools,
        tool_choice="required",
        extra={"structured_outputs": {"choice": _WRITTEN_CALLS}},
    )
    if _call_problem(ask(limited)):
        raise ServingError(problem)
    return (
        "tool calls are parsed, but the model wrote one only when it had no choice: expect few calls from this model",
    )


def modality(ask: Ask, model: str, part: Mapping[str, Any]) -> Notes:
    """Check that a message with an image, a sound or a video is accepted and answered."""
    content = [part, {"type": "text", "text": "What is this? Answer in one word."}]
    question = ChatRequest(model, [{"role": "user", "content": content}], ANSWER_TOKENS, temperature=0)
    if not _has_text(ask(question)) and not _has_text(ask(_forced(question))):
        raise ServingError("two answers held no text")
    return ()


def user_message(text: str) -> list[Mapping[str, Any]]:
    """Return a conversation of one user message."""
    return [{"role": "user", "content": text}]


def forced_length(tokens: int) -> Mapping[str, Any]:
    """Return the fields that make an answer exactly `tokens` long."""
    return {"min_tokens": tokens, "ignore_eos": True}


def _forced(question: ChatRequest) -> ChatRequest:
    return ChatRequest(
        question.model, question.messages, ANSWER_TOKENS, temperature=0, extra=forced_length(ANSWER_TOKENS)
    )


def _has_text(answer: ChatAnswer) -> bool:
    if not answer.completion_tokens:
        raise AnswerError("an answer of no tokens at all came back.", kind=FailureKind.UNREADABLE, status=200)
    return bool((answer.content + answer.reasoning).strip())


def _call_problem(answer: ChatAnswer) -> str:
    """Return why the answer is not the forced call; empty where it is."""
    if not answer.tool_calls:
        return f"the forced tool call came back as text: {cleaned(answer.content or answer.reasoning) or 'no text'}"
    call = answer.tool_calls[0]
    if call.name != _TOOL:
        return f"the tool call names {call.name!r} in place of {_TOOL!r}"
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict) or "state" not in arguments:
        return f"the tool call's arguments are not the JSON object that was asked for: {cleaned(call.arguments)}"
    return ""
