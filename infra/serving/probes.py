"""The requests that the serving check sends: small, unlike each other, and made here so that nothing is downloaded."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from collections.abc import Mapping
from typing import Any

TOOL = "report_state"
TOOL_GRAMMAR = f'root ::= "<|tool_call>call:{TOOL}{{state:<|\\"|>ready<|\\"|>}}<tool_call|>"'
"""The forced call in Gemma 4's own syntax, for a model that does not write it by itself."""
_SYLLABLES = (
    "ba",
    "co",
    "di",
    "fu",
    "ge",
    "hy",
    "ka",
    "lo",
    "mi",
    "nu",
    "pe",
    "qui",
    "ra",
    "so",
    "te",
    "vo",
    "wy",
    "za",
)


def ask(text: str) -> list[Mapping[str, Any]]:
    """A conversation of one user message."""
    return [{"role": "user", "content": text}]


def with_image() -> list[Mapping[str, Any]]:
    """A question about a small picture."""
    return _with({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_encoded(png(64))}"}})


def with_audio() -> list[Mapping[str, Any]]:
    """A question about half a second of sound."""
    return _with({"type": "input_audio", "input_audio": {"data": _encoded(wav(8000)), "format": "wav"}})


def tool_call() -> dict[str, Any]:
    """Options that force a call of one tool with one of two values."""
    state = {"type": "string", "enum": ["ready", "busy"]}
    schema = {"type": "object", "properties": {"state": state}, "required": ["state"], "additionalProperties": False}
    function = {"name": TOOL, "description": "Report the state of the server.", "parameters": schema}
    return {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": TOOL}},
    }


def unlike(words: int) -> str:
    """Random words: two prompts share no prefix, so that no cache answers for the model."""
    return " ".join("".join(random.choices(_SYLLABLES, k=3)) for _ in range(words))  # noqa: S311 not a secret


def png(size: int) -> bytes:
    """A square picture of two colours, `size` pixels wide."""
    rows = b"".join(b"\0" + _row(size, y) for y in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _piece(b"IHDR", header) + _piece(b"IDAT", zlib.compress(rows)) + _piece(b"IEND", b"")


def wav(samples: int, rate: int = 16_000) -> bytes:
    """Mono silence with a click in the middle, 16 bit."""
    data = b"".join(struct.pack("<h", 12_000 if i == samples // 2 else 0) for i in range(samples))
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _with(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [{"role": "user", "content": [item, {"type": "text", "text": "What is this? One word."}]}]


def _row(size: int, y: int) -> bytes:
    return b"".join(bytes((200, 40, 40) if x < y else (40, 40, 200)) for x in range(size))


def _piece(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
