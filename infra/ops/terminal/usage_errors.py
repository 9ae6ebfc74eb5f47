"""Corrects mistyped command lines: one fault for each way of mistyping one, with what to type instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer
from typer.exceptions import TyperException

from infra.errors import Fault
from infra.ops.plan_inputs import project_root
from infra.planning.settings.stackfile import stack_names
from infra.suggestions import did_you_mean

_ELSEWHERE = {
    "up": "Deploying is Pulumi's part: pulumi up -s {stack}",
    "preview": "Ask: gemma4 plan {stack} --diff OTHER; or with the cloud: pulumi preview -s {stack}",
    "destroy": "Taking a stack away is Pulumi's part: pulumi destroy -s {stack}",
    "log": "Type: gemma4 logs {stack}",
    "init": "Copy a stack file to Pulumi.mine.yaml, then: pulumi stack init mine",
    "set": "Try a value with: gemma4 plan {stack} --set KEY=VALUE; keep it with: pulumi config set -s {stack} gemma4:KEY VALUE",
    "list": "Type: gemma4 stacks",
    "model": "Type: gemma4 models",
    "machine": "Type: gemma4 machines",
    "price": "The plan prices a stack: gemma4 plan {stack}; all of them: gemma4 stacks",
    "validate": "Type: gemma4 plan {stack}",
    "test": "Type: gemma4 check {stack}",
    "settings": "Type: gemma4 explain",
    "version": "Type: gemma4 --version",
    "question": 'Type: gemma4 ask {stack} "Why is the sky blue?"',
    "ended": "Type: gemma4 tpu ended",
}
_SYNONYMS = {
    **dict.fromkeys(("deploy", "apply", "create", "start", "run", "serve", "launch"), "up"),
    **dict.fromkeys(("diff", "compare"), "preview"),
    **dict.fromkeys(("down", "delete", "remove", "stop"), "destroy"),
    **dict.fromkeys(("tail", "journal"), "log"),
    **dict.fromkeys(("query", "prompt", "generate", "complete"), "question"),
    **dict.fromkeys(("new", "add"), "init"),
    **dict.fromkeys(("config",), "set"),
    **dict.fromkeys(("ls", "stack"), "list"),
    **dict.fromkeys(("accelerators", "accelerator", "gpus", "gpu", "tpus"), "machine"),
    **dict.fromkeys(("prices", "costs"), "price"),
    **dict.fromkeys(("show",), "validate"),
    **dict.fromkeys(("setting", "options"), "settings"),
}
_OPTIONS = {
    "-s": "The stack stands without an option: {command} {stack}",
    "--stack": "The stack stands without an option: {command} {stack}",
    "-o": "Data is printed with --json, a comment for a pull request with --markdown.",
    "--output": "Data is printed with --json, a comment for a pull request with --markdown.",
    "--accelerator": "Plan another one with: gemma4 plan {stack} --set accelerator=rtx-pro-6000",
    "--project": "The project is the stack's gcp:project, or GOOGLE_CLOUD_PROJECT in the environment.",
}


def usage_fault(error: TyperException, words: Sequence[str]) -> Fault:
    """Return the fault behind an error of the command line's parser; `words` are what was typed."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else " ".join(["gemma4", *words[:1]])
    stacks = _stacks()
    likeliest = "l4" if "l4" in stacks else next(iter(stacks), "STACK")
    stack = next((word for word in words if word in stacks), likeliest)
    if isinstance(error, typer.BadParameter):
        return _bad_value(error, words)
    if option := getattr(error, "option_name", ""):
        return _option(str(option), error, command, stack)
    if found := re.match(r"No such command '(.*?)'\.", error.message):
        return _command(found[1], error, command, stack)
    if found := re.search(r"unexpected extra arguments? ?(?:\(s\))? ?\((.*)\)", error.message):
        two = command == "gemma4 plan" and found[1] in stacks
        fix = f"Compare two stacks with: gemma4 plan {stack} --diff {found[1]}" if two else "Take it out."
        if command == "gemma4 ask":
            fix = f'Put the question in quotes: gemma4 ask {stack} "Why is the sky blue?"'
        return Fault(found[1], "is one argument too many.", fix=fix)
    return Fault(command, error.format_message())


def _stacks() -> list[str]:
    try:
        return stack_names(project_root())
    except Exception:  # the fault at hand counts, not what else is wrong
        return []


def _option(option: str, error: TyperException, command: str, stack: str) -> Fault:
    if "does not take a value" in error.message:
        return Fault(option, "is a switch and takes no value.", fix=f"Write {option} alone, or leave it out.")
    if "requires an argument" in error.message:
        return Fault(option, "needs a value after it.", fix=f"See the examples: {command} --help")
    meant = sorted(getattr(error, "possibilities", None) or ())
    fix = f"Did you mean {meant[0]}?" if meant else f"List them with: {command} --help"
    if option in _OPTIONS:
        fix = _OPTIONS[option].format(command=command, stack=stack)
    return Fault(option, f"is not an option of `{command}`.", fix=fix)


def _command(word: str, error: TyperException, command: str, stack: str) -> Fault:
    known = list(getattr(error, "ctx").command.commands)  # noqa: B009  a group, which alone says this
    fact = f"is not a command of `{command}`."
    elsewhere = _ELSEWHERE.get(_SYNONYMS.get(word.lower(), word.lower()))
    if elsewhere and command == "gemma4":
        return Fault(word, fact, fix=elsewhere.format(stack=stack))
    if word in _stacks():
        return Fault(word, "is a stack, not a command.", fix=f"Type: gemma4 plan {word}")
    fix = did_you_mean(word, known) or f"There are: {', '.join(known)}."
    return Fault(word, fact, fix=fix)


_VALUES = (
    (r"valid integer|integer got a number", "is not a whole number."),
    (r"valid number|finite number", "is not a number."),
    (r"greater than or equal to (\S+)", "is too small: at least {0}."),
    (r"less than or equal to (\S+)", "is too large: at most {0}."),
)


def _bad_value(error: Any, words: Sequence[str]) -> Fault:
    names = [*getattr(error.param, "opts", ())]
    if hasattr(error, "param_type"):
        key = names[0] if names and names[0].startswith("-") else str(error.param.name)
        fix = "Type it after the command."
        if key == "stack":
            fix = f"Name one of the stacks here: {', '.join(_stacks()) or 'none'}."
        return Fault(key, "is missing.", fix=fix)
    key = next((name for name in names if name.startswith("--")), str(error.param.name))
    value = _typed(key, words)
    if value.lower() in ("nan", "inf", "-inf", "infinity", "-infinity"):
        return Fault(key, f"{value!r} is not a finite number.", fix=f"Write for example {key} 2.")
    if found := re.search(r"is not one of (.+?)\.*$", error.message):
        choices = re.findall(r"'(.*?)'", found[1])
        return Fault(
            key, f"{_short(value)} is not known.", fix=did_you_mean(value, choices) or f"Write {_either(choices)}."
        )
    for pattern, fact in _VALUES:
        if found := re.search(pattern, error.message):
            bound = int(found[1]) if found.groups() and found[1].isdigit() else 0
            return Fault(
                key,
                f"{_short(value)} {fact.format(f'{bound:,}')}",
                fix=f"Write for example {key} {_good(value, error.param)}.",
            )
    return Fault(key, f"{_short(value)}: {error.message}.", fix="See --help.")


def _typed(key: str, words: Sequence[str]) -> str:
    """Return what stands after an option, where it was typed last."""
    value = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == key:
            value = following
        elif word.startswith(f"{key}="):
            value = word.partition("=")[2]
    return value


def _good(value: str, param: Any) -> str:
    """Return what a value may have meant: 32768 for 32k; else the default of the option, else 2."""
    if found := re.fullmatch(r"(\d{1,6})k", value.lower()):
        return str(1024 * int(found[1]))
    return str(getattr(param, "default", None) or 2)


def _either(choices: Sequence[str]) -> str:
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last


def _short(value: str) -> str:
    return repr(value) if len(value) <= 40 else f"{value[:37]!r}…"
