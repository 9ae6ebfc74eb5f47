"""Makes small inputs for a server, so that nothing has to be downloaded: an image, a sound, a video, unique prompts."""

from __future__ import annotations

import base64
import io
import math
import random
import struct
import wave
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from infra.serving.message_parts import image_data_part, sound_data_part

_PIXELS = 96
_FRAMES = 4
_SAMPLE_RATE = 16_000
_SYLLABLES = ("ba", "co", "di", "fu", "ge", "hy", "ka", "lo", "mi", "nu", "pe", "ra", "so", "te", "vo", "za")


def image_part() -> Mapping[str, Any]:
    """Return an image of two colours, as a part of a chat message."""
    return image_data_part(png(_PIXELS, 0.5), "image/png")


def audio_part() -> Mapping[str, Any]:
    """Return one second of a 440 Hz tone, as a part of a chat message."""
    return sound_data_part(wav(1.0), "wav")


def video_part() -> Mapping[str, Any]:
    """Return a video of four frames, as a part of a chat message.

    vLLM takes frames joined by commas as video/jpeg and decodes each by its own header, so PNG works (tried on 0.32.0). A
    real video format would need a codec.
    """
    frames = ",".join(
        base64.b64encode(png(_PIXELS, (number + 1) / (_FRAMES + 1))).decode() for number in range(_FRAMES)
    )
    return {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{frames}"}}


def prompt_of(words: int, chance: random.Random | None = None) -> str:
    """Return random words: no two prompts share a prefix, so that no prefix cache answers for the model. The same `chance`
    makes the same words again."""
    choose = random.choices if chance is None else chance.choices
    return " ".join("".join(choose(_SYLLABLES, k=3)) for _ in range(words))


def png(pixels: int, share: float) -> bytes:
    """Return a PNG of `pixels` by `pixels`: red above `share` of its height, blue below."""
    top = round(pixels * share)
    return png_of([bytes((200, 40, 40) if row < top else (40, 40, 200)) * pixels for row in range(pixels)])


def png_of(rows: Sequence[bytes]) -> bytes:
    """Return a PNG of rows from top to bottom, each of three bytes (red, green, blue) a pixel."""
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))  # each row begins with its filter: none
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def wav(seconds: float) -> bytes:
    """Return a tone as WAV: mono, 16 bit, 16 kHz."""
    count = round(seconds * _SAMPLE_RATE)
    tone = (round(8000 * math.sin(2 * math.pi * 440 * number / _SAMPLE_RATE)) for number in range(count))
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(_SAMPLE_RATE)
        sound.writeframes(struct.pack(f"<{count}h", *tone))
    return buffer.getvalue()
