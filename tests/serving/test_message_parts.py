"""Parts of messages: a file is what its first bytes say, whatever its name is."""

from __future__ import annotations

import pytest

from infra.serving.message_parts import image_data_part, image_format, sound_data_part, sound_format
from infra.serving.samples import audio_part, image_part, png, wav

RIFF = b"RIFF\x24\x00\x00\x0a"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(2, 0.5), "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (RIFF + b"WEBPVP8 ", "image/webp"),
        (RIFF + b"WAVEfmt ", None),
        (b"\0\0\0\x18ftypheic", None),
        (b"%PDF-1.7", None),
        (b"", None),
    ],
)
def test_an_image_is_known_by_its_first_bytes(data: bytes, kind: str | None) -> None:
    assert image_format(data) == kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (wav(0.01), "wav"),
        (b"ID3\x04", "mp3"),
        (b"\xff\xfb\x90", "mp3"),
        (b"fLaC", "flac"),
        (b"OggS", "ogg"),
        (RIFF + b"WEBPVP8 ", None),
        (b"\xff\xd8\xff\xe0", None),
    ],
)
def test_a_sound_is_known_by_its_first_bytes(data: bytes, kind: str | None) -> None:
    assert sound_format(data) == kind


def test_the_samples_of_the_check_are_what_a_file_would_be() -> None:
    assert image_part() == image_data_part(png(96, 0.5), "image/png")
    assert audio_part() == sound_data_part(wav(1.0), "wav")
