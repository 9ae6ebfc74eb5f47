"""Looks for known failures in the log of a stack, or in one that was saved."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.errors import GoogleError, SettingsError
from infra.google.logs import LogEntry, LogQuery, LogSource, newest_entries
from infra.google.session import GoogleSession
from infra.ops.diagnosing.findings import Diagnosis, Line, Look, findings_in, split_lines
from infra.planning.units import counted
from infra.serving.failure_search import is_quiet
from infra.serving.loading_log import current_activity

_NEWEST, _LOUD = 1000, 500
"""Entries that are read: the newest of all, and the newest of failures, which a busy server's lines would push out."""
_SHOWN = 40
"""Lines of failures that the model may see."""
_FILE_BYTES = 32 * 1024 * 1024
_STARTED = re.compile(r"Application startup complete")
_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b|Error\b|Exception\b|failed|denied|exceeded", re.IGNORECASE)
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|\b\d\d-\d\d \d\d:\d\d:\d\d")


def look_at_logs(
    diagnosis: Diagnosis, session: GoogleSession, sources: Mapping[str, LogSource], *, since: str
) -> dict[str, int]:
    """Look at what each source wrote since a moment (RFC 3339). Returns how many entries each has."""
    try:
        entries = _entries(session, sources, since)
    except GoogleError as error:
        diagnosis.looks.append(Look("the log", trouble=str(error)))
        return {}
    counts = dict.fromkeys(sources, 0)
    for name in sources:
        own = [entry for entry in entries if entry.source == name]
        counts[name] = len(own)
        lines = split_lines(Line(entry.text, entry.at) for entry in own)
        _look(
            diagnosis,
            f"log of {name}",
            lines,
            f"{len(own):,} entries",
        )
    return counts


def look_at_file(diagnosis: Diagnosis, name: str) -> None:
    """Look at a saved log, `-` for standard input. Raises SettingsError where it cannot be read."""
    if name == "-":
        raw = sys.stdin.buffer.read(_FILE_BYTES)
    else:
        try:
            with Path(name).open("rb") as file:
                file.seek(max(0, Path(name).stat().st_size - _FILE_BYTES))
                raw = file.read()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            fix = "Name a file, or - for standard input."
            raise SettingsError.of("--log", f"{name!r} cannot be read: {why}.", "Nothing was looked at.", fix) from None
    text = raw.decode("utf-8", errors="replace")
    lines = [Line(line, _stamp(line)) for line in re.split(r"[\r\n]+", text) if line.strip()]
    where = "standard input" if name == "-" else name
    if not lines:
        diagnosis.looks.append(Look(where, trouble="it holds no line"))
        return
    _look(diagnosis, where, lines, counted(len(lines), "line"))


def _look(diagnosis: Diagnosis, where: str, lines: Sequence[Line], seen: str) -> None:
    started_at = max((number for number, line in enumerate(lines) if _STARTED.search(line.text)), default=-1)
    doing = current_activity([line.text for line in lines[-200:]])
    diagnosis.looks.append(Look(where, ", ".join(filter(None, (seen, f"last: {doing}" if doing else "")))))
    diagnosis.findings += findings_in(lines, where, "log", started_at=started_at)
    loud = [line for line in lines if _ERROR.search(line.text) and not is_quiet(line.text)]
    diagnosis.lines = [*diagnosis.lines, *loud[-_SHOWN:]][-_SHOWN:]


def _entries(session: GoogleSession, sources: Mapping[str, LogSource], since: str) -> list[LogEntry]:
    loud, _ = newest_entries(session, LogQuery(sources, errors=True), since=since, limit=_LOUD)
    newest, _ = newest_entries(session, LogQuery(sources), since=since, limit=_NEWEST)
    return sorted({entry.key: entry for entry in (*loud, *newest)}.values(), key=lambda entry: entry.key)


def _stamp(line: str) -> str:
    """Return the moment that a line of a saved log begins with, as it stands there; empty for none."""
    found = _STAMP.search(line[:120])
    return found.group() if found else ""
