"""Makes parts of a chat message from images and sounds, and tells from its first bytes of which format a file is."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

Part = Mapping[str, Any]

_IMAGES = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
)
_SOUNDS = (
    (rb"RIFF....WAVE", "wav"),
    (rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", "mp3"),
    (rb"fLaC", "flac"),
    (rb"OggS", "ogg"),
)


def image_format(data: bytes) -> str | None:
    """Return the media type of an image that vLLM reads and browsers show; None for anything else."""
    return _format(data, _IMAGES)


def sound_format(data: bytes) -> str | None:
    """Return the format of a sound by the name that OpenAI's API has for it; None for anything else."""
    return _format(data, _SOUNDS)


def text_part(text: str) -> Part:
    """Return a text as a part of a message."""
    return {"type": "text", "text": text}


def image_url_part(url: str) -> Part:
    """Return the address of an image as a part of a message: the server fetches it."""
    return {"type": "image_url", "image_url": {"url": url}}


def image_data_part(data: bytes, media_type: str) -> Part:
    """Return an image, sent along, as a part of a message."""
    return image_url_part(f"data:{media_type};base64,{_base64(data)}")


def sound_data_part(data: bytes, name: str) -> Part:
    """Return a sound, sent along, as a part of a message; `name` is its format, e.g. wav."""
    return {"type": "input_audio", "input_audio": {"data": _base64(data), "format": name}}


def _format(data: bytes, formats: tuple[tuple[bytes, str], ...]) -> str | None:
    return next((name for start, name in formats if re.match(start, data, re.DOTALL)), None)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
