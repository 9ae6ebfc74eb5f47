"""The commands of a chat: lines that begin with a slash."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from infra.errors import SettingsError
from infra.ops.conversation.attached_files import media_parts
from infra.ops.conversation.dialogue import Dialogue
from infra.ops.conversation.live_answer import statistics, tell
from infra.planning.units import counted
from infra.suggestions import did_you_mean


@dataclass(frozen=True)
class SlashCommand:
    """What is typed, what it means, and what it does with the rest of its line."""

    usage: str
    meaning: str
    act: Callable[[Dialogue, str], None]


def obey(dialogue: Dialogue, line: str) -> None:
    """Do what a line that begins with a slash says. Raises SettingsError."""
    name, _, rest = line[1:].partition(" ")
    if name not in COMMANDS:
        fix = did_you_mean(f"/{name}", [f"/{one}" for one in COMMANDS])
        fix = fix or "/help lists them; begin a question with // where it starts with /."
        raise SettingsError.of(f"/{name}", "is not a command.", "", fix)
    COMMANDS[name].act(dialogue, rest.strip())


def _clear(dialogue: Dialogue, _: str) -> None:
    dialogue.history.clear()
    dialogue.attached.clear()
    tell("a new conversation")


def _set_system(dialogue: Dialogue, text: str) -> None:
    dialogue.history.system = text
    tell("the model is told this before the conversation" if text else "nothing is told before the conversation")


def _attach(dialogue: Dialogue, path: str) -> None:
    if not path:
        raise SettingsError.of("/image", "needs a file or an address.", "", "Write for example /image sign.jpg.")
    most = dialogue.history.most_images
    if most is not None and len(dialogue.attached) >= most:
        fact = f"{dialogue.who} takes {counted(most, 'image')} in a question."
        fix = "Ask about those first, or deploy it with a higher serving.modalities.image."
        raise SettingsError.of("/image", fact, "The server would refuse more.", fix)
    dialogue.attached += media_parts([path], [], keys=("/image", ""))
    tell(f"{counted(len(dialogue.attached), 'image')} to go with the next question")


def _set_thinking(dialogue: Dialogue, word: str) -> None:
    if word not in ("on", "off"):
        now = "on" if dialogue.wishes.think else "off"
        raise SettingsError.of("/think", f"takes on or off; it is {now}.", "", "Write /think on.")
    dialogue.wishes = replace(dialogue.wishes, think=word == "on")
    tell(f"thinking is {word}")


def _save(dialogue: Dialogue, path: str) -> None:
    fix = "Write for example /save talk.json."
    if not path:
        raise SettingsError.of("/save", "needs a file.", "", fix)
    text = json.dumps(dialogue.history.as_data(dialogue.model), indent=2, ensure_ascii=False)
    try:
        with Path(path).expanduser().open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    except FileExistsError:
        raise SettingsError.of("/save", f"{path} exists.", "What it holds would be lost.", fix) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have that name"
        raise SettingsError.of("/save", f"{path} cannot be written: {reason}.", "", fix) from None
    tell(f"saved {counted(len(dialogue.history.turns), 'turn')} as {path}, in the form of a request to the API")


def _show_statistics(dialogue: Dialogue, _: str) -> None:
    history, heard = dialogue.history, dialogue.heard
    left_out = f", the oldest {history.first_sent} not sent any more" if history.first_sent else ""
    size = f" of {history.context_tokens:,}" if history.context_tokens else ""
    tell(f"{counted(len(history.turns), 'turn')}{left_out}; {history.used_tokens:,}{size} tokens of context in use")
    if not heard:
        return
    prompt = sum(one.timing.prompt_tokens for one in heard)
    output = sum(one.timing.output_tokens for one in heard)
    tell(f"all answers: {prompt:,} prompt + {output:,} output tokens")
    last = heard[-1]
    line = statistics(
        first_token_s=last.timing.ttft_s,
        tokens_per_second=last.timing.decode_tokens_per_second,
        prompt_tokens=last.timing.prompt_tokens,
        output_tokens=last.timing.output_tokens,
        reasoning_tokens=last.answer.reasoning_tokens,
        total_s=last.timing.total_s,
    )
    tell(f"the last: {line}")


def _show_help(_: Dialogue, __: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    tell(*(f"{command.usage:{width}}  {command.meaning}" for command in COMMANDS.values()))
    tell("A line that ends in \\ goes on in the next; // begins a question with a slash.")


def _end(dialogue: Dialogue, _: str) -> None:
    dialogue.ended = True


COMMANDS: Mapping[str, SlashCommand] = {
    "clear": SlashCommand("/clear", "forget the conversation; the system's text stays", _clear),
    "system": SlashCommand("/system TEXT", "tell the model TEXT before the conversation", _set_system),
    "image": SlashCommand("/image FILE_OR_URL", "send an image with the next question", _attach),
    "think": SlashCommand("/think on|off", "let the model think before it answers", _set_thinking),
    "save": SlashCommand("/save FILE", "write the conversation as JSON", _save),
    "stats": SlashCommand("/stats", "tokens and speed so far", _show_statistics),
    "help": SlashCommand("/help", "list the commands", _show_help),
    "exit": SlashCommand("/exit", "end the chat, as Ctrl-D does", _end),
}
"""By name, in the order of the help."""
