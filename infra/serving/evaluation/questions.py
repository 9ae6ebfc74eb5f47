"""Turns a task into the request that asks it: temperature 0, a fixed seed, no thinking."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from infra.serving.client import ChatRequest
from infra.serving.evaluation.pictures import picture_part
from infra.serving.evaluation.task_set import Task, TaskSet

SEED = 7
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "strings": {"type": "array", "items": {"type": "string"}},
    "string or null": {"type": ["string", "null"]},
}
_IN_WORDS = {"strings": "list of strings"}


def request_of(task: Task, questions: TaskSet, model: str) -> ChatRequest:
    """Return the request that asks the task of a served model."""
    kind = questions.kinds[task.kind]
    extra: dict[str, Any] = {"seed": SEED, "chat_template_kwargs": {"enable_thinking": False}}
    if task.keys and task.enforced:
        schema = {
            "type": "object",
            "properties": {key: _TYPES[name] for key, name in task.keys.items()},
            "required": list(task.keys),
            "additionalProperties": False,
        }
        extra["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    on = task.kind == "tools"
    return ChatRequest(
        model,
        _messages(task, kind.wording),
        kind.max_tokens,
        temperature=0,
        tools=_offered(questions) if on else (),
        tool_choice="auto" if on else None,
        extra=extra,
    )


def digest(request: ChatRequest) -> str:
    """Return a short name of all that is asked, the model's name aside: answers are compared only where it agrees."""
    asked = request.body() | {"model": ""}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


def _messages(task: Task, wording: str) -> list[Mapping[str, Any]]:
    keys = ", ".join(f"{key} ({_IN_WORDS.get(name, name)})" for key, name in task.keys.items())
    text = wording.replace("{keys}", keys).replace("{prompt}", task.prompt)
    content: Any = [picture_part(task.picture), {"type": "text", "text": text}] if task.picture else text
    messages: list[Mapping[str, Any]] = [{"role": "system", "content": task.system}] if task.system else []
    messages.append({"role": "user", "content": content})
    if task.called:
        function = {"name": task.called.name, "arguments": json.dumps(task.called.arguments)}
        call = {"id": "call-1", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "call-1", "content": task.called.result})
    return messages


def _offered(questions: TaskSet) -> list[Mapping[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": tool.description,
                "parameters": {
                    "type": "object",
                    "properties": tool.parameters,
                    "required": list(tool.parameters),
                    "additionalProperties": False,
                },
            },
        }
        for name, tool in questions.tools.items()
    ]
