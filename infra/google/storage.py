"""Cloud Storage: lists the objects below a prefix, and reads a small object or a part of a large one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession

SMALL_BYTES = 4 * 1024 * 1024  # the most that `read` takes into memory
LISTED_FIELDS = "items(name,size,generation),nextPageToken"


@dataclass(frozen=True)
class StoredObject:
    """One object of a bucket. `generation` names this version of its content."""

    name: str
    size_bytes: int
    generation: str


class Bucket:
    """One bucket, by name."""

    def __init__(self, session: GoogleSession, name: str) -> None:
        self._session = session
        self.name = name

    def find(self, name: str) -> StoredObject | None:
        """Return the object's record; None where there is no such object or no such bucket."""
        try:
            return _stored(self._session.get(Api.STORAGE, self._path(name)))
        except GoogleError as error:
            if error.status == 404:
                return None
            raise

    def read(self, name: str) -> bytes | None:
        """Return the object's content; None where there is no such object. Raises GoogleError above 4 MiB."""
        found = self.find(name)
        if found is None:
            return None
        if found.size_bytes > SMALL_BYTES:
            raise GoogleError(
                f"gs://{self.name}/{name} has {found.size_bytes} bytes and was not read: "
                f"a manifest has at most {SMALL_BYTES}; check the name.",
                reason="TOO_LARGE",
            )
        # With the generation, the content is that of the record.
        return self._session.download(Api.STORAGE, self._path(name), alt="media", generation=found.generation)

    def read_range(self, found: StoredObject, start: int, length: int) -> bytes:
        """Return `length` bytes of an object from `start` on, fewer where it ends before."""
        wanted = f"bytes={start}-{start + length - 1}"
        path, generation = self._path(found.name), found.generation
        return self._session.download(Api.STORAGE, path, byte_range=wanted, alt="media", generation=generation)

    def read_json(self, name: str) -> Any:
        """Return the parsed content; None where there is no such object. Raises GoogleError where it is not JSON."""
        content = self.read(name)
        if content is None:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise GoogleError(
                f"gs://{self.name}/{name} is not JSON, so its content is unknown; write it again.", reason="NOT_JSON"
            ) from None

    def objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield every object below a prefix, in the order of names."""
        path = f"b/{quote(self.name, safe='')}/o"
        for page in self._session.pages(Api.STORAGE, path, prefix=prefix, fields=LISTED_FIELDS):
            yield from (_stored(raw) for raw in page.get("items", ()))

    def _path(self, name: str) -> str:
        return f"b/{quote(self.name, safe='')}/o/{quote(name, safe='')}"


def _stored(raw: dict[str, Any]) -> StoredObject:
    return StoredObject(
        name=raw["name"],
        size_bytes=int(raw.get("size", 0)),
        generation=raw.get("generation", ""),
    )
