"""How an answer is wanted: what a request to the model carries beside its messages, checked against the plan of the stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.errors import Fault, SettingsError
from infra.ops.conversation.attached_files import AnswerSchema, read_schema, read_tools
from infra.planning.plan import Plan
from infra.serving.client import ChatRequest, Message
from infra.serving.message_parts import Part, text_part
from infra.suggestions import did_you_mean


@dataclass(frozen=True)
class AnswerWishes:
    """What one question, or every question of a conversation, asks of its answer. None leaves it to the server."""

    max_tokens: int | None = None
    """Without it an answer may fill what the prompt leaves of the context."""
    temperature: float | None = None
    think: bool = False
    tools: Sequence[Mapping[str, Any]] = ()
    schema: AnswerSchema | None = None

    @classmethod
    def read(
        cls, max_tokens: int | None, temperature: float | None, think: bool, tools: str | None, schema: str | None
    ) -> AnswerWishes:
        """Return the wishes of a command line, whose `tools` and `schema` are files. Raises SettingsError."""
        return cls(
            max_tokens,
            temperature,
            think,
            read_tools(tools) if tools is not None else (),
            read_schema(schema) if schema is not None else None,
        )

    def request(self, model: str, messages: Sequence[Message]) -> ChatRequest:
        """Return the request for the next answer to the messages."""
        extra: dict[str, Any] = {}
        if self.think:
            extra["chat_template_kwargs"] = {"enable_thinking": True}
        if self.schema:
            extra["response_format"] = self.schema.response_format()
        return ChatRequest(model, messages, self.max_tokens, self.temperature, tools=self.tools, extra=extra)

    def unexplained_fields(self, text: str) -> list[str]:
        """Return the fields of the schema that the prompt does not name. vLLM holds the model to the schema while it writes;
        the model itself does not see the schema."""
        return [name for name in self.schema.fields() if name.lower() not in text.lower()] if self.schema else []


def user_turn(text: str, parts: Sequence[Part] = ()) -> Message:
    """Return a message of the user: a text, with images and sounds before it."""
    return {"role": "user", "content": [*parts, text_part(text)] if parts else text}


def check_with_plan(plan: Plan, *, images: int, sounds: int, tools: bool, adapter: str | None) -> None:
    """Raise SettingsError with all that a server started as planned would refuse."""
    if faults := list(_refused(plan, images, sounds, tools, adapter)):
        raise SettingsError(faults)


def _refused(plan: Plan, images: int, sounds: int, tools: bool, adapter: str | None) -> Iterator[Fault]:
    serving, name = plan.settings.serving, plan.stack
    refuses = f"The server of {name} would refuse it."
    for key, noun, kind, given in (("--image", "image", "image", images), ("--audio", "sound", "audio", sounds)):
        most = getattr(serving.modalities, kind)
        if given <= most:
            continue
        setting = f"serving.modalities.{kind}"
        if kind not in plan.architecture.input_modalities:
            towers = "has no audio tower" if kind == "audio" else "takes no images"
            yield Fault(key, f"{plan.model.id} {towers}.", refuses, "Leave it out, or serve a model that has one.")
        elif most == 0:
            fact = f"{name} takes no {noun}s ({setting} is 0)."
            yield Fault(key, fact, refuses, f"Deploy it with {setting}: {given}, or ask another stack.")
        else:
            fact = f"{given} {noun}s are more than {name} takes in a request ({setting} is {most})."
            yield Fault(key, fact, refuses, f"Send {most}, or deploy it with {setting}: {given}.")
    if tools and not serving.tools:
        yield Fault(
            "--tools",
            f"{name} has no tool parser (serving.tools is false).",
            refuses,
            "Deploy it with serving.tools: true.",
        )
    known = [one.name for one in plan.adapters]
    if adapter is not None and adapter not in known:
        fix = did_you_mean(adapter, known) or (f"Name one of: {', '.join(known)}." if known else "Leave it out.")
        yield Fault("--adapter", f"{name} serves no adapter {adapter!r}.", refuses, fix)
