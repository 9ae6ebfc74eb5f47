"""Reads what goes with a question: images, sounds, a file of tools, a JSON schema. Whatever is wrong is found before anything
is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from infra.errors import Fault, SettingsError
from infra.serving.message_parts import (
    Part,
    image_data_part,
    image_format,
    image_url_part,
    sound_data_part,
    sound_format,
)

MOST_BYTES = 20 * 2**20
"""Of all images and sounds of a request: base64 makes them a third longer, and Cloud Run (HTTP/1) as well as the gateway
take requests of at most 32 MiB."""
MOST_JSON_BYTES = 2**20
_SCHEMA_WORDS = frozenset(
    {"type", "properties", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "allOf", "not", "$ref", "pattern"}
)
_SCHEMA_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOOL = '{"type": "function", "function": {"name": "…", "parameters": {…}}}'


@dataclass(frozen=True)
class AnswerSchema:
    """A JSON schema that an answer must have, under the name that OpenAI's API wants for it."""

    name: str
    schema: Mapping[str, Any]

    def response_format(self) -> Mapping[str, Any]:
        """Return the field of a request."""
        return {"type": "json_schema", "json_schema": {"name": self.name, "schema": dict(self.schema), "strict": True}}

    def fields(self) -> list[str]:
        """Return the names on the first level."""
        properties = self.schema.get("properties")
        return list(properties) if isinstance(properties, Mapping) else []


def media_parts(
    images: Sequence[str], sounds: Sequence[str], *, keys: tuple[str, str] = ("--image", "--audio")
) -> list[Part]:
    """Return images (files or web addresses) and sounds (files) as parts of a message. Raises SettingsError with every
    fault; `keys` are the options' names in it."""
    faults: list[Fault] = []
    parts: list[Part] = []
    room = MOST_BYTES
    readers = ((images, keys[0], _image), (sounds, keys[1], _sound))
    for source, key, read in ((source, key, read) for sources, key, read in readers for source in sources):
        try:
            part, size = read(source, key)
        except SettingsError as error:
            faults += error.faults
            continue
        parts.append(part)
        room -= size
        if room < 0 <= room + size:
            fact = f"with {source} there would be {_mib(MOST_BYTES - room)} MiB or more of images and sounds to send."
            fix = "Send fewer, or scale them down; the server scales an image down anyway."
            faults.append(Fault(key, fact, f"A request takes {_mib(MOST_BYTES)} MiB of them.", fix))
    if faults:
        raise SettingsError(faults)
    return parts


def read_tools(path: str, key: str = "--tools") -> list[Mapping[str, Any]]:
    """Return the tools that a file defines in the form of OpenAI's API: a list, or one alone. Raises SettingsError."""
    data = _json_file(path, key)
    tools = data if isinstance(data, list) else [data]
    faults = [Fault(key, f"{path}: {fact}", fix=f"Write each tool as {_TOOL}.") for fact in _tool_faults(tools)]
    if faults:
        raise SettingsError(faults)
    return tools


def read_schema(path: str, key: str = "--schema") -> AnswerSchema:
    """Return the JSON schema that a file holds. Raises SettingsError."""
    data = _json_file(path, key)
    fix = 'Write the schema alone, for example {"type": "object", "properties": {"city": {"type": "string"}}}.'
    if not isinstance(data, dict):
        raise SettingsError.of(key, f"{path} holds {_kind(data)}, not a JSON schema.", "", fix)
    if "json_schema" in data or ("schema" in data and not {"type", "properties", "$ref"} & set(data)):
        fact = f"{path} holds the field of a request around a schema."
        raise SettingsError.of(key, fact, "As a schema it would allow any answer.", fix)
    if not _is_schema(data):
        # An assistant may have been talked into naming a file of credentials: it would go to the server as it is.
        raise SettingsError.of(key, f"{path} holds no JSON schema.", "Nothing of it was sent.", fix)
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(data.get("title") or Path(path).stem))[:64]
    return AnswerSchema(name.strip("_") or "answer", data)


def _is_schema(data: Mapping[str, Any]) -> bool:
    """Return whether an object holds a word of JSON schema, and under `type` nothing but its types."""
    types = data.get("type", [])
    named = types if isinstance(types, list) else [types]
    return bool(_SCHEMA_WORDS & data.keys()) and all(isinstance(one, str) and one in _SCHEMA_TYPES for one in named)


def _image(source: str, key: str) -> tuple[Part, int]:
    scheme = urlsplit(source).scheme
    if scheme in ("http", "https"):
        return image_url_part(source), 0
    if scheme in ("gs", "s3", "file", "ftp", "data"):
        fact = f"{_brief(source)} is neither a file nor an address that the server fetches."
        raise SettingsError.of(key, fact, "", "Name a file, or an address with https://.")
    data = _bytes_of(source, key)
    found = image_format(data)
    if found is None:
        fact = f"{source} is not a PNG, JPEG, GIF or WebP image{_what_else(data)}."
        raise SettingsError.of(key, fact, "The server could not read it.", "Save it as PNG or JPEG.")
    return image_data_part(data, found), len(data)


def _sound(source: str, key: str) -> tuple[Part, int]:
    data = _bytes_of(source, key)
    found = sound_format(data)
    if found is None:
        fact = f"{source} is not a WAV, MP3, FLAC or Ogg sound{_what_else(data)}."
        raise SettingsError.of(key, fact, "The server could not read it.", "Save it as WAV or MP3.")
    return sound_data_part(data, found), len(data)


def _what_else(data: bytes) -> str:
    """Return what a file is that people often take for an image or a sound; empty where it is not one of these."""
    known: tuple[tuple[Callable[[bytes], bool], str], ...] = (
        (lambda data: not data, ", it is empty"),
        (
            lambda data: data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"mif1", b"avif"),
            ", it is a HEIC or AVIF",
        ),
        (lambda data: data[4:8] == b"ftyp", ", it is an MP4"),
        (lambda data: data.startswith(b"%PDF"), ", it is a PDF"),
        (lambda data: data.lstrip()[:5].lower() in (b"<svg ", b"<?xml"), ", it is a drawing (SVG)"),
    )
    return next((words for fits, words in known if fits(data)), "")


def _tool_faults(tools: list[Any]) -> Iterator[str]:
    """Yield what the server would refuse, one fault for each tool."""
    if not tools:
        yield "it defines no tool."
    names: list[str] = []
    for place, tool in enumerate(tools, 1):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            yield f"tool {place} is not a function tool."
        elif not isinstance(name := function.get("name"), str) or not _TOOL_NAME.fullmatch(name):
            yield f"tool {place} has no name of 1 to 64 letters, digits, - or _."
        elif not isinstance(function.get("parameters", {}), dict):
            yield f"the parameters of {name} are not a JSON schema."
        elif name in names:
            yield f"two tools are called {name}."
        else:
            names.append(name)


def _json_file(path: str, key: str) -> Any:
    data = _bytes_of(path, key, most=MOST_JSON_BYTES)
    try:
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        fact = f"{path} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
    except UnicodeDecodeError:
        fact = f"{path} is not JSON: it is not text in UTF-8."
    except RecursionError:
        fact = f"{path} is nested too deeply."
    raise SettingsError.of(key, fact, "", "Mend the file, or name another.")


def _bytes_of(path: str, key: str, most: int = MOST_BYTES) -> bytes:
    """Return a file's content, at most `most` bytes of it. Raises SettingsError."""
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have that name"
        fix = "Name a file that exists and that you may read."
        raise SettingsError.of(key, f"{_brief(path)} cannot be read: {reason}.", "", fix) from None
    if len(data) > most:
        raise SettingsError.of(key, f"{path} is larger than {_mib(most)} MiB.", "", "Name a smaller file.")
    return data


def _kind(data: Any) -> str:
    return "a list" if isinstance(data, list) else "null" if data is None else f"a {type(data).__name__}"


def _mib(count: int) -> str:
    return f"{count / 2**20:.0f}"


def _brief(source: str) -> str:
    return source if len(source) <= 80 else f"{source[:79]}…"
