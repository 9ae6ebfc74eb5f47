"""`gemma4 logs`: what a stack's servers, gateway and weights copy wrote to Cloud Logging, once or as it comes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

from infra.errors import GoogleError, SettingsError
from infra.google.api_errors import is_transient
from infra.google.logs import LogEntry, LogFollower, LogQuery, newest_entries
from infra.google.session import GoogleSession
from infra.google.times import moment_ms
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.log_answers import LogLine, Logs
from infra.ops.google_access import stack_session
from infra.ops.log_sources import log_sources
from infra.ops.plan_inputs import plan_stack
from infra.ops.terminal.progress import waiting
from infra.planning.units import parse_duration

POLL_S = 5.0
"""Between two looks while following: Google allows 60 reads of logs a minute and project."""
MOST = 1000
"""Entries in one answer."""
_KEPT = 2000
"""Characters of one entry: a traceback in one piece is longer than anybody reads."""


def logs_answer(
    stack: str | None = None,
    url: str | None = None,
    since: str = "1h",
    errors: bool = False,
    slice_name: str | None = None,
    limit: int = 100,
    revision: str | None = None,
) -> Logs:
    """Return the newest entries of a stack's log. Raises SettingsError, and GoogleError where Google does not hand it out."""
    session, query, since_s = _asked(stack, url, since, errors, slice_name, revision)
    with waiting("reading the log"):
        found, older = newest_entries(session, query, since=moment_ms(since_s), limit=min(limit, MOST))
    return Logs(stack=stack or "", since=moment_ms(since_s), older=older, entries=[_line(entry) for entry in found])


def show_logs(
    stack: str | None = None,
    url: str | None = None,
    since: str = "1h",
    errors: bool = False,
    slice_name: str | None = None,
    limit: int = 100,
    revision: str | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Print what `logs_answer` returns, an entry a line where the output is no terminal."""
    answer = logs_answer(stack, url, since, errors, slice_name, limit, revision)
    if as_json:
        print_answer(answer)
        return
    if answer.older:
        _note(f"older entries since {answer.since} are left out: raise --limit to see more than {len(answer.entries)}")
    if not answer.entries:
        what = "failures" if errors else "entries"
        _note(f"no {what} since {answer.since}; write --since 1d to go further back")
    _print(answer.entries)


def follow_logs(
    stack: str | None = None,
    url: str | None = None,
    since: str = "1h",
    errors: bool = False,
    slice_name: str | None = None,
    limit: int = 100,
    revision: str | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Print entries as they come, until the process is interrupted: first the newest `limit`, then each new one once."""
    session, query, since_s = _asked(stack, url, since, errors, slice_name, revision)
    follower = LogFollower(session, query, since_s=since_s)
    first = True
    for entries in _looks(session, follower):
        lines = [_line(entry) for entry in (entries[-limit:] if first else entries)]
        first = False
        if as_json:
            for line in lines:
                print(json.dumps(line.model_dump(mode="json", by_alias=True)))
        else:
            _print(lines)
        sys.stdout.flush()


def _looks(session: GoogleSession, follower: LogFollower) -> Iterator[list[LogEntry]]:
    """Yield what each look finds. A look that fails for now is made up for by the next one; any other raises GoogleError."""
    answered = silent = False
    while True:
        try:
            yield follower.new_entries()
            answered, silent = True, False
        except GoogleError as error:
            if not (answered and is_transient(error)):
                raise
            if not silent:
                _note(f"no answer from Cloud Logging, asking again: {error}")
            silent = True
        session.sleep(POLL_S)


def _asked(
    stack: str | None, url: str | None, since: str, errors: bool, slice_name: str | None, revision: str | None
) -> tuple[GoogleSession, LogQuery, float]:
    """Return the session, the query, and the moment that --since means in seconds since 1970. Raises SettingsError."""
    if url is not None:
        fix = "Name the stack, or read the log where that server runs; gemma4 diagnose --log FILE explains a saved one."
        raise SettingsError.of("--url", "is an address alone: whose log it is, it does not say.", "", fix)
    if stack is None:
        raise SettingsError.of("stack", "is missing.", "There is no log to show.", "Name a stack, e.g. l4.")
    try:
        seconds = parse_duration(since)
    except ValueError as error:
        raise SettingsError.of("--since", f"{since!r} {error}.", "Nothing was read.") from None
    planned = plan_stack(stack)
    sources = log_sources(planned.plan, slice_name=slice_name, revision=revision)
    session = stack_session(planned.file)
    session.gcp.required_project()
    return session, LogQuery(sources, errors), session.clock() - seconds


def _line(entry: LogEntry) -> LogLine:
    text = entry.text if len(entry.text) <= _KEPT else f"{entry.text[:_KEPT]}…"
    return LogLine(at=entry.at, severity=entry.severity, source=entry.source, text=text)


def _print(lines: Sequence[LogLine]) -> None:
    """Print entries: moment in UTC, severity, source, text. The further lines of an entry stand below it on a terminal, and
    after `\\n` in the same line elsewhere, so that other tools get an entry a line."""
    further = "\n    " if sys.stdout.isatty() else "\\n"
    for line in lines:
        severity = "" if line.severity == "DEFAULT" else line.severity
        text = line.text.replace("\r", "\n").replace("\n", further)
        print(f"{_moment(line.at)}  {severity:8}  {line.source:8}  {text}")


def _moment(at: str) -> str:
    """Return the moment to the millisecond; the Z at its end says that it is UTC."""
    head, dot, rest = at.removesuffix("Z").partition(".")
    return f"{head}{dot}{rest[:3]}Z" if at.endswith("Z") else at


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
