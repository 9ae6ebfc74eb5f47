"""Cloud Storage, as far as a manifest needs it: list a prefix, read a small object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from infra.errors import GoogleError
from infra.google.provider_settings import Api
from infra.google.session import GoogleSession

SMALL_BYTES = 4 * 1024 * 1024  # what `read` takes into memory at most
LISTED_FIELDS = "items(name,size,md5Hash,updated,generation),nextPageToken"


@dataclass(frozen=True)
class StoredObject:
    """`md5` is base64, as Cloud Storage writes it, and empty for composite objects."""

    name: str
    size_bytes: int
    md5: str
    updated: str
    generation: str


class Bucket:
    """One bucket, by name."""

    def __init__(self, session: GoogleSession, name: str) -> None:
        self._session = session
        self.name = name

    def find(self, name: str) -> StoredObject | None:
        """The object's record, or None where there is no such object (or no such bucket)."""
        try:
            return _stored(self._session.get(Api.STORAGE, self._path(name)))
        except GoogleError as error:
            if error.status == 404:
                return None
            raise

    def read(self, name: str) -> bytes | None:
        """The object's content, or None where it is not there; GoogleError above 4 MiB."""
        found = self.find(name)
        if found is None:
            return None
        if found.size_bytes > SMALL_BYTES:
            raise GoogleError(
                f"gs://{self.name}/{name} has {found.size_bytes} bytes and was not read: "
                f"a manifest has at most {SMALL_BYTES}; check the name.",
                reason="TOO_LARGE",
            )
        # The generation makes sure that the bytes are those of the record.
        return self._session.download(Api.STORAGE, self._path(name), alt="media", generation=found.generation)

    def read_json(self, name: str) -> Any:
        """The parsed content, or None where the object is not there; GoogleError if it is no JSON."""
        content = self.read(name)
        if content is None:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise GoogleError(
                f"gs://{self.name}/{name} is no JSON, so what it says is unknown; write it anew.", reason="NOT_JSON"
            ) from None

    def objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Every object below a prefix, in the order of names."""
        path = f"b/{quote(self.name, safe='')}/o"
        for page in self._session.pages(Api.STORAGE, path, prefix=prefix, fields=LISTED_FIELDS):
            yield from (_stored(raw) for raw in page.get("items", ()))

    def _path(self, name: str) -> str:
        return f"b/{quote(self.name, safe='')}/o/{quote(name, safe='')}"


def _stored(raw: dict[str, Any]) -> StoredObject:
    return StoredObject(
        name=raw["name"],
        size_bytes=int(raw.get("size", 0)),
        md5=raw.get("md5Hash", ""),
        updated=raw.get("updated", ""),
        generation=raw.get("generation", ""),
    )
