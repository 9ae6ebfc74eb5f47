"""A finding with its evidence, the places that were looked at, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from infra.catalog.failures import KnownFailure, ShownIn
from infra.redaction import without_secrets
from infra.serving.failure_search import find_failures
from infra.suggestions import printable

Sure = Literal["sure", "likely", "guess", "vague"]
"""How sure a finding is: its own message says so; a message that others report for it; concluded from a figure or from what
usually lies behind it; only that something failed."""

_SURE: dict[str, Sure] = {
    "exact": "sure",
    "documented": "sure",
    "measured": "sure",
    "reported": "likely",
    "inferred": "guess",
}
_KEPT = 240
"""Characters of a line that is quoted."""


@dataclass(frozen=True)
class Line:
    """A line of a log, an answer or a condition, with its moment (RFC 3339, or as the log has it; empty where unknown)."""

    text: str
    at: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `id` is the row of the catalog of failures, or a name of its own."""

    id: str
    where: str
    cause: str
    fix: str
    sure: Sure
    evidence: str
    """The line, without secrets."""
    at: str = ""
    """Moment of that line."""
    times: int = 1
    """How many lines show it."""
    past: bool = False
    """Whether the server has started since."""
    thread: str = ""
    """Address of a public report of it."""


@dataclass(frozen=True)
class Look:
    """A place that was looked at with what was seen there in some words, or `trouble`: why it could not be looked at."""

    what: str
    seen: str = ""
    trouble: str = ""


@dataclass
class Diagnosis:
    """Everything that was looked at and found."""

    looks: list[Look] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    """What the model may be shown beside the findings: the newest lines of failures."""

    def ordered(self) -> list[Finding]:
        """Return each finding once: what holds now before what is past; general ones only where nothing exact holds."""
        merged: dict[tuple[str, str], Finding] = {}
        for one in self.findings:
            merged.setdefault((one.id, one.where), one)
        found = sorted(merged.values(), key=lambda one: one.past)
        exact = any(one.sure != "vague" and not one.past for one in found)
        return [one for one in found if not (exact and one.sure == "vague")]

    @property
    def healthy(self) -> bool:
        """Whether everything could be looked at and nothing is wrong now."""
        return not any(look.trouble for look in self.looks) and all(one.past for one in self.findings)


def findings_in(lines: Sequence[Line], where: str, *places: ShownIn, started_at: int = -1) -> list[Finding]:
    """Return the known failures that show in `lines`, in order of precedence.

    `started_at` is the number of the line with which the server was last up: what shows only before it is past.
    """
    texts = [line.text for line in lines]
    return [
        of_failure(
            found.failure,
            where,
            lines[found.quoted],
            times=len(found.lines),
            past=found.lines[-1] < started_at,
        )
        for found in find_failures(texts, *places)
    ]


def of_failure(failure: KnownFailure, where: str, line: Line, *, times: int = 1, past: bool = False) -> Finding:
    """Return the finding of a known failure that a line shows."""
    return Finding(
        id=failure.id,
        where=where,
        cause=failure.cause,
        fix=failure.fix,
        sure="vague" if failure.general else _SURE[failure.source.confidence],
        evidence=quoted(line.text),
        at=line.at,
        times=times,
        past=past,
        thread=failure.thread,
    )


def quoted(text: str, kept: int = _KEPT) -> str:
    """Return a line as it may be shown: without secrets, on one line, no longer than `kept` characters."""
    line = " ".join(printable(without_secrets(text)).split())
    return line if len(line) <= kept else f"{line[:kept]}…"


def split_lines(entries: Iterable[Line]) -> list[Line]:
    """Return each line of the entries with the entry's moment; a progress bar that overwrites itself is several lines."""
    return [
        Line(part, entry.at) for entry in entries for part in entry.text.replace("\r", "\n").split("\n") if part.strip()
    ]
