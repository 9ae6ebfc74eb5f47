"""Explains why a server refused a question: which option or file of the command is at fault, and what to write instead.

The words are vLLM's, each as version 0.32.0 answered it, but for those of adapters and tools, which stand in its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from infra.errors import Gemma4Error, SettingsError
from infra.serving.server_errors import AnswerError, FailureKind, sentence


@dataclass(frozen=True)
class Refusal:
    """What a server says where `key` is at fault. `fact` and `fix` may quote the groups of `pattern`."""

    pattern: str
    key: str
    fact: str
    fix: str


TOO_LONG = Refusal(
    r"maximum context length is (?P<most>\d+) tokens\. However, your prompt"
    r"|exceeds model's maximum context length \((?P<length>\d+)\)",
    "question",
    "with all that is sent before it, it does not fit into the server's context of {most} tokens.",
    "Shorten it, or deploy with a higher serving.maxModelLen.",
)
_REFUSALS = (
    TOO_LONG,
    Refusal(
        r"max_tokens=(?P<given>\d+) cannot be greater than max_model_len=(?P<most>\d+)",
        "--max-tokens",
        "{given} is more than the server's whole context of {most} tokens.",
        "Write fewer, or leave it out: then the answer may take what the question leaves.",
    ),
    Refusal(
        r"Audio input was provided|At most 0 audio",
        "--audio",
        "the server takes no sounds: its model has no audio tower, or it was started without it.",
        "Leave it out, or deploy a model with an audio tower and serving.modalities.audio: 1.",
    ),
    Refusal(
        r"At most 0 image|not a multimodal model",
        "--image",
        "the server takes text only.",
        "Leave out images and sounds, or deploy with serving.modalities: {{image: 1}}.",
    ),
    Refusal(
        r"At most (?P<most>\d+) image",
        "--image",
        "the server takes at most {most} in one request, all messages of a conversation together.",
        "Send fewer, or deploy with a higher serving.modalities.image.",
    ),
    Refusal(
        r"At most (?P<most>\d+) audio",
        "--audio",
        "the server takes at most {most} in one request, all messages of a conversation together.",
        "Send fewer, or deploy with a higher serving.modalities.audio.",
    ),
    Refusal(
        r"Failed to load image|Failed to load the media|cannot identify image",
        "--image",
        "the server cannot read it as an image.",
        "Save it anew as PNG or JPEG.",
    ),
    Refusal(
        r"tool choice requires|requires --tool-call-parser",
        "--tools",
        "the server was started without a tool parser.",
        "Deploy with serving.tools: true; elsewhere start it with --enable-auto-tool-choice --tool-call-parser gemma4.",
    ),
    Refusal(
        r"Grammar error: (?P<why>.*)|(?P<other>.*json.?schema.*)",
        "--schema",
        "the server cannot hold an answer to this schema: {why}.",
        "Mend it: plain types, enum, required, items and properties work.",
    ),
    Refusal(
        r"The model `(?P<name>.*)` does not exist\.(?: Valid aliases: (?P<known>.*?)\.?$)?",
        "--adapter",
        "the server serves nothing under the name {name}.",
        "It serves: {known}.",
    ),
    Refusal(r"body\.tools|'tools'", "--tools", "the server does not take these tools: {words}", "Mend the file."),
    Refusal(r"temperature must", "--temperature", "the server does not take this temperature.", "Write 0 to 2."),
)
_TOO_LARGE = 413
_FETCH = "Cannot connect to host|ClientResponseError|ClientConnector|404, message|403, message|domain"


def explained(error: AnswerError, *, keys: Mapping[str, str] | None = None, fetches: bool = False) -> Gemma4Error:
    """Return what a user reads of a refused question: a fault of one option where the server's words tell which one it is,
    else the error as it is. `keys` renames options, e.g. to the words of a conversation; `fetches` says that the server
    had to fetch an image."""
    if fetches and re.search(_FETCH, error.words):
        fact = f"the server could not fetch it: {sentence(error.words)}"
        return _fault("--image", fact, "Name a file instead: it is sent along.", keys)
    if error.kind is FailureKind.UNREACHABLE:
        message = f"{str(error).rstrip('.')}; look at the address, and whether the server runs."
        return AnswerError(message, kind=error.kind)
    if error.status == _TOO_LARGE:
        fact = "with all images and sounds it is larger than one request may be (on Cloud Run 32 MiB)."
        return _fault("question", fact, "Send fewer or smaller ones; a conversation sends earlier ones again.", keys)
    if error.kind not in (FailureKind.REJECTED, FailureKind.NOT_FOUND):
        return error
    for refusal in _REFUSALS:
        if found := re.search(refusal.pattern, error.words):
            groups = {name: text for name, text in found.groupdict().items() if text}
            said = {
                "most": groups.get("length", ""),
                "why": groups.get("other", "").rstrip("."),
                "known": "see /v1/models",
                "words": error.words,
                **groups,
            }
            return _fault(refusal.key, refusal.fact.format(**said), refusal.fix.format(**said), keys)
    return error


def is_too_long(error: AnswerError) -> bool:
    """Return whether the server refused the question because it is longer than the context."""
    return error.kind is FailureKind.REJECTED and bool(re.search(TOO_LONG.pattern, error.words))


def most_images(error: AnswerError) -> int | None:
    """Return how many images the server takes in a request, where it refused a request for having more and takes any."""
    found = re.search(r"At most (\d+) image", error.words) if error.kind is FailureKind.REJECTED else None
    return int(found[1]) or None if found else None


def _fault(key: str, fact: str, fix: str, keys: Mapping[str, str] | None) -> SettingsError:
    return SettingsError.of((keys or {}).get(key, key), fact, "The server refused it and generated nothing.", fix)
