"""What a server must be able to do: answer, think apart, call a tool, take a picture, a sound, a clip.

Each probe asks and judges. It returns notes for the reader, or raises ServingError where the server does not do what was
planned. All questions are greedy (temperature 0), so that the same server gives the same verdict. None of them trusts
the model's wit: an untrained model passes, since it is the deployment that is checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from infra.errors import ServingError
from infra.serving.client import ChatAnswer, ChatRequest
from infra.serving.server_errors import AnswerError, Refusal, cleaned

Ask = Callable[[ChatRequest], ChatAnswer]
Notes = tuple[str, ...]

ANSWER_TOKENS = 32
_CALL_TOKENS = 128
_TOOL = "report_state"
_STATES = ("ready", "busy")
# How Gemma 4 writes the call; vLLM's parser gemma4 turns it into OpenAI's form.
_WRITTEN_CALLS = [f'<|tool_call>call:{_TOOL}{{state:<|"|>{state}<|"|>}}<tool_call|>' for state in _STATES]


def chat(ask: Ask, model: str) -> Notes:
    """Text comes back. A model may end its answer at once, so the second question does not let it."""
    question = ChatRequest(model, said("Answer with one word: ready."), ANSWER_TOKENS, temperature=0)
    if _has_text(ask(question)):
        return ()
    answer = ask(_forced(question))
    if not _has_text(answer):
        raise ServingError(
            f"two answers held no text, the second one of {answer.completion_tokens} tokens, all of them special ones"
        )
    return ("the model ended its first answer without a word; asked for more, it wrote some text",)


def reasoning(ask: Ask, model: str) -> Notes:
    """Thinking comes back apart from the answer. Only the model can think, so its not doing so is a note."""
    question = ChatRequest(
        model,
        said("How many hours do 90 minutes have? Think first."),
        ANSWER_TOKENS,
        temperature=0,
        extra={"chat_template_kwargs": {"enable_thinking": True}},
    )
    answer = ask(question)
    if answer.reasoning.strip():
        return ()
    return (f"asked to think, the model gave no reasoning apart from its answer within {ANSWER_TOKENS} tokens",)


def tools(ask: Ask, model: str) -> Notes:
    """A forced call comes back parsed.

    vLLM leaves Gemma's own call syntax to the model even where a call is forced (0.32.0: the parser gemma4 sets no
    grammar). So a model that does not write the call by itself is led to it by a choice of two written ones: then it is
    the server's parser that is checked.
    """
    question = ChatRequest(
        model,
        said("Report the state of the server with the tool: it is ready."),
        _CALL_TOKENS,
        temperature=0,
        tools=[_tool()],
        tool_choice={"type": "function", "function": {"name": _TOOL}},
    )
    problem = _call_problem(ask(question))
    if not problem:
        return ()
    led = ChatRequest(
        model,
        question.messages,
        _CALL_TOKENS,
        temperature=0,
        tools=question.tools,
        tool_choice="required",
        extra={"structured_outputs": {"choice": _WRITTEN_CALLS}},
    )
    if _call_problem(ask(led)):
        raise ServingError(problem)
    return ("tool calls are parsed, but the model wrote one only when led to it: expect few calls from this model",)


def modality(ask: Ask, model: str, part: Mapping[str, Any]) -> Notes:
    """A message with a picture, a sound or a clip is taken and answered."""
    content = [part, {"type": "text", "text": "What is this? Answer in one word."}]
    question = ChatRequest(model, [{"role": "user", "content": content}], ANSWER_TOKENS, temperature=0)
    if not _has_text(ask(question)) and not _has_text(ask(_forced(question))):
        raise ServingError("two answers held no text")
    return ()


def said(text: str) -> list[Mapping[str, Any]]:
    """A conversation of one user message."""
    return [{"role": "user", "content": text}]


def forced_length(tokens: int) -> Mapping[str, Any]:
    """Fields that make an answer exactly so long, whatever the model would like."""
    return {"min_tokens": tokens, "ignore_eos": True}


def _forced(question: ChatRequest) -> ChatRequest:
    return ChatRequest(
        question.model, question.messages, ANSWER_TOKENS, temperature=0, extra=forced_length(ANSWER_TOKENS)
    )


def _has_text(answer: ChatAnswer) -> bool:
    if not answer.completion_tokens:
        raise AnswerError("an answer of no tokens at all came back.", refusal=Refusal.UNREADABLE, status=200)
    return bool((answer.content + answer.reasoning).strip())


def _tool() -> Mapping[str, Any]:
    schema = {
        "type": "object",
        "properties": {"state": {"type": "string", "enum": list(_STATES)}},
        "required": ["state"],
        "additionalProperties": False,
    }
    function = {"name": _TOOL, "description": "Report the state of the server.", "parameters": schema}
    return {"type": "function", "function": function}


def _call_problem(answer: ChatAnswer) -> str:
    """Why the answer is not the call that was forced; empty where it is."""
    if not answer.tool_calls:
        return f"the forced tool call came back as text: {cleaned(answer.content or answer.reasoning) or 'none at all'}"
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
