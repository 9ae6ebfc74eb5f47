"""Reads one catalog file into rows and reports everything that is wrong with it at once.

A file is TOML: a `[sources.<id>]` table for each source, then keyed tables (`[models.<id>]`) or lists (`[[prices]]`).
A row names its source by id, so that the origin of a figure is written once. Refused: a section nobody reads, a row
that its schema refuses, a source that is not defined, a source that no row uses.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from infra.catalog.schema import Row
from infra.errors import CatalogError
from infra.suggestions import similar

RowT = TypeVar("RowT", bound=Row)

DATA = Path(__file__).parent
"""Where the data files lie that ship with this program."""


class CatalogFile:
    """One parsed file. Read each section once, check its references, then `finish`, which raises every fault found."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._faults: list[str] = []
        self._used_sources: set[str] = set()
        try:
            self._tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise CatalogError(f"{self.name} cannot be read: {error}") from error
        self._sources = self._tables.pop("sources", {})

    def keyed(self, section: str, row: type[RowT]) -> dict[str, RowT]:
        """Return the rows of `[section.<id>]` tables by id; the key becomes the row's `id`."""
        rows: dict[str, RowT] = {}
        for key, table in self._take(section, dict).items():
            parsed = self._row(f"{section}.{key}", row, {"id": key}, table)
            if parsed is not None:
                rows[key] = parsed
        return rows

    def listed(self, section: str, row: type[RowT]) -> tuple[RowT, ...]:
        """Return the rows of a `[[section]]` list, in the order of the file."""
        tables = enumerate(self._take(section, list), start=1)
        rows = (self._row(f"{section}[{number}]", row, {}, table) for number, table in tables)
        return tuple(parsed for parsed in rows if parsed is not None)

    def refer(self, where: str, value: str, known: Collection[str]) -> None:
        """Note a fault if `value` is not one of the `known` ids."""
        if value not in known:
            self.fault(where, f"there is no {value!r}{nearest(value, known)}")

    def fault(self, where: str, fact: str) -> None:
        self._faults.append(f"{where}: {fact}")

    def finish(self) -> None:
        """Raise CatalogError with all faults of this file, one a line."""
        for section in self._tables:
            self.fault(section, "no such section")
        for source in self._sources.keys() - self._used_sources:
            self.fault(f"sources.{source}", "no row uses it")
        if self._faults:
            raise CatalogError("\n".join(f"{self.name}: {fault}" for fault in self._faults))

    def _take(self, section: str, kind: type[Any]) -> Any:
        tables = self._tables.pop(section, None)
        if isinstance(tables, kind):
            return tables
        self.fault(section, "the section is missing" if tables is None else f"must be a {kind.__name__} of tables")
        return kind()

    def _row(self, where: str, row: type[RowT], identity: Mapping[str, str], table: object) -> RowT | None:
        if not isinstance(table, dict):
            self.fault(where, "must be a table")
            return None
        source = table.get("source")
        if isinstance(source, str) and source in self._sources:
            self._used_sources.add(source)
            source = self._sources[source]
        try:
            return row.model_validate({**table, **identity, "source": source})
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_context=False):
                path = ".".join(str(part) for part in detail["loc"])
                self.fault(f"{where}.{path}", f"{detail['msg']} (found {_shortened(detail['input'])})")
            return None


def nearest(value: str, known: Collection[str]) -> str:
    """Return half a sentence that offers the ids closest to `value`; empty where none is close."""
    near = similar(value, known)
    return f"; nearest: {', '.join(near)}" if near else ""


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
