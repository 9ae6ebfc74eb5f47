"""What a server says that knows the answer to every question of `gemma4 evaluate`, and one that misses some.

`fake.says = Oracle()`; `Oracle(wrong={"tools"})` misses a kind, `Oracle(knows=lambda task: …)` decides for each question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from infra.serving.evaluation.task_set import (
    CallCheck,
    CopyCheck,
    FieldsCheck,
    NoCallCheck,
    NumberCheck,
    Task,
    TextCheck,
    WordCheck,
    task_set,
)

_CODE = re.compile(r"The access code of the (\w+) depot is (\d+)\.")
_ASKED_FOR = re.compile(r"What is the access code of the (\w+) depot\?")

Message = Mapping[str, Any]


def call(name: str, arguments: Mapping[str, Any]) -> Message:
    """Return a message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "chatcmpl-tool-1", "type": "function", "function": function}]}


def right(task: Task) -> Message:
    """Return a right answer, with words around it where the question leaves that free."""
    match task.check:
        case NumberCheck(value=value):
            return {"content": f"Half of 2 is 1.\nAnswer: {value:,.10g}."}
        case FieldsCheck(fields=fields, nulls=nulls):
            return {"content": f"```json\n{json.dumps(fields | dict.fromkeys(nulls))}\n```"}
        case CallCheck(name=name, arguments=arguments):
            return call(name, arguments)
        case NoCallCheck(words=words):
            return {"content": f"That would be {words[0]}."}
        case WordCheck(right=words):
            return {"content": f"**{words[0].capitalize()}**."}
        case TextCheck(accepted=texts):
            return {"content": texts[0]}
        case CopyCheck():
            return {"content": task.prompt}


class Oracle:
    """Says what is right; of kinds in `wrong`, and of questions that `knows` denies, says `mistake` instead."""

    def __init__(
        self,
        *,
        wrong: Collection[str] = (),
        knows: Callable[[str], bool] = lambda _: True,
        mistake: Message | None = None,
    ) -> None:
        self.wrong, self.knows = wrong, knows
        self.mistake = mistake or {"content": "I am not sure about that one."}

    def __call__(self, body: Any) -> Message | None:
        """Return what is said to a request; None of one that asks none of the questions."""
        text = _asked(body)
        if place := _ASKED_FOR.search(text):
            name = f"context-{place[1]}-{len(text)}"
            known = "context" not in self.wrong and self.knows(name)
            return {"content": dict(_CODE.findall(text))[place[1]]} if known else self.mistake
        task = next((task for task in task_set().tasks if task.prompt in text), None)
        if task is None:
            return None
        return right(task) if task.kind not in self.wrong and self.knows(task.id) else self.mistake


def _asked(body: Any) -> str:
    content = next(one["content"] for one in body["messages"] if one["role"] == "user")
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
