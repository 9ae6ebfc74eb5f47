"""Where the files of a checkpoint lie: on Hugging Face, in a bucket, in a folder. Each lists them and reads byte ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from infra.errors import Gemma4Error
from infra.google.storage import Bucket, StoredObject


class CheckpointSource(Protocol):
    """The files of a checkpoint."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name below the checkpoint's own folder."""

    def read(self, file: str, start: int, length: int) -> bytes:
        """Return `length` bytes of a file from `start` on, fewer where it ends before."""


@dataclass(frozen=True)
class FolderSource:
    """A folder on this machine."""

    folder: Path

    @property
    def sizes(self) -> Mapping[str, int]:
        if not self.folder.is_dir():
            raise Gemma4Error(f"{self.folder} is no folder on this machine; name the one that config.json lies in.")
        files = (path for path in self.folder.rglob("*") if path.is_file())
        named = ((path.relative_to(self.folder).as_posix(), path.stat().st_size) for path in files)
        return {name: size for name, size in named if not any(part.startswith(".") for part in name.split("/"))}

    def read(self, file: str, start: int, length: int) -> bytes:
        with (self.folder / file).open("rb") as content:
            content.seek(start)
            return content.read(length)


class BucketSource:
    """The objects below a prefix of a bucket."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        start = f"{prefix.strip('/')}/"
        self._objects: dict[str, StoredObject] = {
            stored.name.removeprefix(start): stored for stored in bucket.objects(start) if stored.name != start
        }
        self.sizes: Mapping[str, int] = {name: stored.size_bytes for name, stored in self._objects.items()}

    def read(self, file: str, start: int, length: int) -> bytes:
        return self._bucket.read_range(self._objects[file], start, length)
