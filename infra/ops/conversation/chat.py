"""`gemma4 chat`: a conversation with the model in a terminal, or one question a line from a pipe."""

from __future__ import annotations

import sys

from infra.errors import Gemma4Error
from infra.ops.conversation.answer_wishes import AnswerWishes, check_with_plan
from infra.ops.conversation.dialogue import Dialogue
from infra.ops.conversation.explained_refusals import explained
from infra.ops.conversation.history import History
from infra.ops.conversation.live_answer import tell
from infra.ops.conversation.slash_commands import COMMANDS, obey
from infra.ops.conversation.typed_lines import typed_lines
from infra.ops.endpoint.find_endpoint import find_endpoint, find_member
from infra.ops.terminal.error_output import FAILED
from infra.serving.server_errors import AnswerError


def show_chat(
    stack: str | None,
    url: str | None,
    *,
    system: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    think: bool = False,
    adapter: str | None = None,
    slice_name: str | None = None,
) -> int:
    """Hold a conversation until its end. Returns the exit code: 0, or 1 where a line from a pipe was not answered. Raises
    SettingsError and AnswerError where the conversation cannot begin."""
    endpoint = find_endpoint(stack, url)
    plan = endpoint.planned.plan if endpoint.planned else None
    if plan:
        check_with_plan(plan, images=0, sounds=0, tools=False, adapter=adapter)
    client = endpoint.client(find_member(endpoint, slice_name))
    try:
        models = client.models()
    except AnswerError as error:
        raise explained(error) from None
    length = next((one.max_model_len for one in models if one.max_model_len), None)
    most_images = plan.settings.serving.modalities.image if plan else None
    dialogue = Dialogue(
        client,
        endpoint.name,
        adapter or endpoint.model,
        AnswerWishes(max_tokens, temperature, think),
        History(length, most_images, system or ""),
    )
    interactive = sys.stdin.isatty()
    if interactive:
        room = f", {length:,} tokens of context" if length else ""
        tell(f"{dialogue.model}{room}", "/help lists commands; Ctrl-C ends an answer, Ctrl-D the chat.")
    failures = _hold(dialogue, interactive)
    if interactive and not dialogue.ended:
        tell("")  # where Ctrl-D was typed
    return FAILED if failures and not interactive else 0


_HINT = ("", "Ctrl-D or /exit ends the chat.")


def _hold(dialogue: Dialogue, interactive: bool) -> int:
    """Take lines until the end. Returns how many could not be answered or obeyed; each says why."""
    failures, names = 0, [f"/{name}" for name in COMMANDS]
    lines = typed_lines(names)
    while not dialogue.ended:
        try:
            line = next(lines)
            if line is None:
                tell(*_HINT)
            elif line.startswith("/") and not line.startswith("//"):
                obey(dialogue, line)
            elif line.strip():
                dialogue.ask(line[1:] if line.startswith("//") else line)
        except StopIteration:
            break
        except Gemma4Error as error:
            failures += 1
            tell(*str(error).splitlines())
        except KeyboardInterrupt:  # one that fell between the end of a line and the wait for the next
            if not interactive:
                raise
            tell(*_HINT)
            lines = typed_lines(names)
    return failures
