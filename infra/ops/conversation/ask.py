"""`gemma4 ask`: one question to the model, its answer as it is written, and how fast it came."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from infra.errors import SettingsError
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.conversation_answers import AskAnswer, ToolCallData
from infra.ops.conversation.answer_wishes import AnswerWishes, check_with_plan, user_turn
from infra.ops.conversation.attached_files import media_parts
from infra.ops.conversation.explained_refusals import explained
from infra.ops.conversation.heard_answer import HeardAnswer, Show, hear
from infra.ops.conversation.live_answer import LiveAnswer, statistics, tell
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.endpoint.find_endpoint import find_endpoint, find_member
from infra.ops.terminal.error_output import FAILED, INTERRUPTED
from infra.serving.chat_answer import ChatAnswer, ToolCall
from infra.serving.server_errors import AnswerError

MOST_CHARACTERS = 8 * 2**20
"""Of a question on standard input: more than any context holds."""


def ask_answer(
    question: str,
    stack: str | None = None,
    url: str | None = None,
    *,
    system: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    image: list[str] | None = None,
    audio: list[str] | None = None,
    think: bool = False,
    tools: str | None = None,
    schema: str | None = None,
    adapter: str | None = None,
    slice_name: str | None = None,
    show: Show = lambda _: None,
) -> AskAnswer:
    """Return the model's answer to one question. `image` holds files or web addresses; `audio`, `tools` and `schema` are
    files; `show` gets each piece as it comes. Raises SettingsError for what is wrong with the question, found here or by
    the server, and AnswerError where the server fails."""
    if not question.strip():
        raise SettingsError.of(
            "question", "is empty.", "There is nothing to answer.", 'Write for example "Why is the sky blue?"'
        )
    images, sounds = image or [], audio or []
    wishes = AnswerWishes.read(max_tokens, temperature, think, tools, schema)
    parts = media_parts(images, sounds)
    endpoint = find_endpoint(stack, url)
    if endpoint.planned:
        plan = endpoint.planned.plan
        check_with_plan(plan, images=len(images), sounds=len(sounds), tools=tools is not None, adapter=adapter)
    member = find_member(endpoint, slice_name)
    messages = [{"role": "system", "content": system}] if system else []
    try:
        request = wishes.request(adapter or endpoint.model, [*messages, user_turn(question, parts)])
        heard = hear(endpoint.client(member), request, endpoint.name, show)
    except AnswerError as error:
        raise explained(error, fetches=any("://" in source for source in images)) from None
    notes = [*_notes(endpoint, wishes, f"{system or ''} {question}"), *_notes_on(heard, wishes)]
    return _as_answer(endpoint, member.name if member else "", request.model, heard, wishes, notes)


def show_ask(ask: Callable[[Show], AskAnswer], *, as_json: bool) -> int:
    """Print the answer of `ask` while it is written, and its statistics on standard error; or all of it as JSON. Returns the
    exit code."""
    live = LiveAnswer()
    try:
        answer = ask((lambda _: None) if as_json else live.show)
    except KeyboardInterrupt:
        tell("stopped before an answer came")
        return INTERRUPTED
    except BaseException:
        live.end()
        raise
    if as_json:
        print_answer(answer)
    else:
        live.end(answer.tool_calls)
        tell(*_below(answer))
    return INTERRUPTED if answer.interrupted else FAILED if answer.problem else 0


def question_from(typed: str) -> str:
    """Return the question: what was typed, or standard input where that is `-`. Raises SettingsError."""
    if typed != "-":
        return typed
    try:
        text = sys.stdin.read(MOST_CHARACTERS + 1)
    except UnicodeDecodeError:
        raise SettingsError.of(
            "question", "standard input is not text in UTF-8.", "", "Attach images with --image."
        ) from None
    if len(text) > MOST_CHARACTERS:
        fact = f"standard input is longer than {MOST_CHARACTERS:,} characters."
        raise SettingsError.of("question", fact, "No context holds that.", "Send a part of it.")
    return text.strip()


def _notes(endpoint: Endpoint, wishes: AnswerWishes, prompt: str) -> Iterator[str]:
    """Yield what is worth knowing of the question."""
    if fields := wishes.unexplained_fields(prompt):
        listed = ", ".join(fields)
        yield f"the question does not name {listed}: the model is held to the schema but does not see it"
    if wishes.think and endpoint.planned and not endpoint.planned.plan.settings.serving.reasoning:
        yield "serving.reasoning is false, so what the model thinks stands within its answer"


def _notes_on(heard: HeardAnswer, wishes: AnswerWishes) -> Iterator[str]:
    """Yield what is worth knowing of the answer."""
    answer = heard.answer
    if answer.finish_reason == "length":
        limit = f"--max-tokens {wishes.max_tokens}" if wishes.max_tokens else "the end of the context"
        yield f"the answer was cut at {limit}"
    if not (answer.content.strip() or answer.tool_calls or heard.interrupted):
        yield "the model ended its answer without text"


def _as_answer(
    endpoint: Endpoint, member: str, model: str, heard: HeardAnswer, wishes: AnswerWishes, notes: list[str]
) -> AskAnswer:
    answer, timing = heard.answer, heard.timing
    parsed = _as_json(answer.content) if wishes.schema else None
    speed = timing.decode_tokens_per_second
    return AskAnswer(
        endpoint=endpoint.name,
        slice=member,
        model=model,
        content=answer.content,
        reasoning=answer.reasoning,
        tool_calls=[_call(call) for call in answer.tool_calls],
        parsed=parsed,
        problem=_problem(answer, parsed) if wishes.schema and not heard.interrupted else "",
        notes=notes,
        finish_reason=answer.finish_reason,
        interrupted=heard.interrupted,
        prompt_tokens=timing.prompt_tokens,
        output_tokens=timing.output_tokens,
        reasoning_tokens=answer.reasoning_tokens,
        first_token_s=round(timing.ttft_s, 4),
        tokens_per_second=None if speed is None else round(speed, 2),
        total_s=round(timing.total_s, 4),
    )


def _problem(answer: ChatAnswer, parsed: Any) -> str:
    """Return why an answer is not JSON although a schema was given; empty where it is."""
    if parsed is not None or answer.content.strip() == "null":
        return ""
    why = ", because it was cut" if answer.finish_reason == "length" else ""
    return f"the answer is not JSON{why}, although a schema was given"


def _below(answer: AskAnswer) -> Iterator[str]:
    """Yield the lines below an answer."""
    yield from (f"note: {note}" for note in answer.notes)
    if answer.problem:
        yield f"failed: {answer.problem}"
    if answer.interrupted:
        yield "stopped; the server stops too. What came until then:"
    yield statistics(
        first_token_s=answer.first_token_s,
        tokens_per_second=answer.tokens_per_second,
        prompt_tokens=answer.prompt_tokens,
        output_tokens=answer.output_tokens,
        reasoning_tokens=answer.reasoning_tokens,
        total_s=answer.total_s,
    )


def _call(call: ToolCall) -> ToolCallData:
    arguments = _as_json(call.arguments)
    return ToolCallData(id=call.id, name=call.name, arguments=call.arguments if arguments is None else arguments)


def _as_json(text: str) -> Any:
    """Return the data that a text holds as JSON; None where it is not JSON, or null."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
