"""A page for each command, made from the command itself, and the table of all commands that leads to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from infra.ops.answers.all_answers import ANSWERS
from infra.ops.command_line.all_commands import whole_command
from infra.ops.command_line.root import SECTIONS
from infra.ops.mcp_server.tools import NO_TOOLS, TOOLS
from tests.projects import ROOT

INDEX = ROOT / "docs" / "commands.md"
FOLDER = ROOT / "docs" / "commands"


def commands(found: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words, in the order of the help."""
    found = whole_command() if found is None else found
    inner = getattr(found, "commands", None)
    if inner is None:
        yield words, found
    for name, one in (inner or {}).items():
        if not one.hidden:
            yield from commands(one, (*words, name))


def pages() -> dict[Path, str]:
    """Every page of a command, and what it should hold."""
    return {FOLDER / f"{'-'.join(words)}.md": "\n".join(_page(words, one)) + "\n" for words, one in commands()}


def table() -> str:
    """The table of all commands, by section."""
    listed: list[str] = []
    top: Any = whole_command().commands
    for section in SECTIONS:
        rows = [
            f"| [`gemma4 {' '.join(words)}`](commands/{'-'.join(words)}.md) | {_paragraphs(one.help)[0]} |"
            for words, one in commands()
            if section in (one.rich_help_panel, top[words[0]].rich_help_panel)
        ]
        if rows:
            listed += ["", f"### {section}", "", "| command | what it does |", "|---|---|", *rows]
    return "\n".join(listed[1:])


def _page(words: tuple[str, ...], one: Any) -> Iterator[str]:
    name = " ".join(words)
    yield f"# gemma4 {name}"
    yield ""
    yield "<!-- written by make golden from infra/ops/command_line/ -->"
    for paragraph in _paragraphs(one.help):
        yield from ("", paragraph)
    arguments = [parameter for parameter in one.params if parameter.param_type_name == "argument"]
    usage = [
        f"{parameter.name.upper()}" if parameter.required else f"[{parameter.name.upper()}]" for parameter in arguments
    ]
    yield from ("", "```text", " ".join(["gemma4", name, "[OPTIONS]", *usage]), "```")
    yield from ("", "| argument or option | meaning | default |", "|---|---|---|")
    yield from (_row(parameter) for parameter in one.params)
    if one.epilog:
        lines = [line.strip() for line in one.epilog.splitlines() if line.strip().startswith("gemma4 ")]
        yield from ("", "## Examples", "", "```sh", *lines, "```")
    if name in ANSWERS:
        schema = f"[JSON schema](../schemas/{'-'.join(words)}.json)"
        words_page = "../plan-schema.md" if name == "plan" else f"../json.md#gemma4-{'-'.join(words)}"
        yield from ("", "## JSON", "", f"`--json` prints [these keys]({words_page}); {schema}.")
    if tool := next((one for one in TOOLS if one.command == name), None):
        when = ", with `--allow-changes`: it answers with a preview first" if tool.applies else ""
        yield from (
            "",
            "## For assistants",
            "",
            f"The [MCP](../tasks/connect-an-assistant.md) tool `{tool.name}`{when}.",
        )
    elif name in NO_TOOLS:
        yield from (
            "",
            "## For assistants",
            "",
            f"Not an [MCP](../tasks/connect-an-assistant.md) tool: {NO_TOOLS[name]}.",
        )


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", (text or "").replace("\b", "").strip())]


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        written = f"`{parameter.name.upper()}`"
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or _kind(parameter.type_descriptor.annotation)}"
        names = [*parameter.opts, *parameter.secondary_opts]
        written = ", ".join(f"`{name}{value}`" for name in names)
    default = parameter.default
    shown = "*needed*" if parameter.required else "" if default in (None, False, "", ()) else f"`{default}`"
    meaning = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| {written} | {meaning} | {shown} |"


def _kind(annotation: Any) -> str:
    """What stands after an option: the words that there are, else what kind of value."""
    if get_origin(annotation) is Literal:
        return "\\|".join(map(str, get_args(annotation)))
    return "NUMBER" if annotation in (int, float) else "TEXT"
