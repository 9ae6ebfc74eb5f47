"""Cloud Logging: reads what services, executions of jobs and TPU slices wrote, once or as it comes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession
from infra.google.times import moment_ms
from infra.redaction import without_secrets

MACHINE_LOG = "gemma4-log"
"""The attribute that says under which names a machine writes to Cloud Logging."""

_LOUD = r"\b(?:ERROR|CRITICAL|FATAL)\b|\b\w*(?:Error|Exception): |Traceback \(most recent call last\)"
"""What a server's line of an error holds. Servers print without severities, so most of their errors have none."""
_PAGE = 500
_NEWEST_FIRST, _OLDEST_FIRST = "timestamp desc", "timestamp asc"
_OVERLAP_S, _LATEST_S, _LATE_EVERY = 60.0, 600.0, 12
"""Entries can be read some seconds after they were written, and an agent that had no network brings them minutes late: each
look goes back one minute, and one in twelve goes back ten."""


@dataclass(frozen=True)
class LogSource:
    """Which entries: by type and labels of the monitored resource, by labels of the entries, and by fields of their payload."""

    resource: str
    resource_labels: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    payload: Mapping[str, str] = field(default_factory=dict)
    matching: str = ""
    """A pattern (RE2) that the text of an entry holds; empty: any text."""

    @classmethod
    def service(cls, name: str, region: str, revision: str = "") -> LogSource:
        """Return the source for a Cloud Run service, or for one revision of it by its short name."""
        labels = {"service_name": name, "location": region} | ({"revision_name": revision} if revision else {})
        return cls("cloud_run_revision", labels)

    @classmethod
    def job(cls, name: str, region: str, execution: str = "") -> LogSource:
        """Return the source for a Cloud Run job, or for one execution of it by its short name."""
        labels = {"run.googleapis.com/execution_name": execution} if execution else {}
        return cls("cloud_run_job", {"job_name": name, "location": region}, labels)

    @classmethod
    def machine(cls, node_id: str, location: str) -> LogSource:
        """Return the source for a machine by its name: what its supervisor writes, the lines that the server prints among them.

        `location` is a zone, or the region of a machine that Google may put into any of its zones.
        """
        return cls("generic_node", {"namespace": "gemma4", "node_id": node_id, "location": location})

    def attribute(self, project: str, stack: str, name: str) -> str:
        """Return the attribute `MACHINE_LOG` of a machine that has this log, called `name` in the settings of its stack."""
        return json.dumps({"project_id": project, **self.resource_labels, "stack": stack, "machine": name})

    def query(self, since: str = "") -> str:
        """Return the filter in the logging query language; `since` is an RFC 3339 timestamp."""
        terms = [f'resource.type="{self.resource}"']
        terms += [f'resource.labels.{key}="{_escaped(value)}"' for key, value in self.resource_labels.items()]
        terms += [f'labels."{key}"="{_escaped(value)}"' for key, value in self.labels.items()]
        terms += [f'jsonPayload.{key}="{_escaped(value)}"' for key, value in self.payload.items()]
        if self.matching:
            pattern = _escaped(self.matching)
            terms.append(f'(textPayload=~"{pattern}" OR jsonPayload.message=~"{pattern}")')
        terms += [f'timestamp>="{since}"'] if since else []
        return " AND ".join(terms)

    def command(self, project: str) -> str:
        """Return the command that shows the newest entries of the last day."""
        fields = "value(timestamp,severity,jsonPayload.message)"
        return (
            f"gcloud logging read '{self.query()}' --project {project} --freshness 1d --limit 100 --format '{fields}'"
        )

    def wrote(self, raw: Mapping[str, Any]) -> bool:
        """Return whether an entry of the API is of this source, as far as its resource tells."""
        resource = raw.get("resource", {})
        labels = resource.get("labels", {})
        same = all(labels.get(key) == value for key, value in self.resource_labels.items())
        return resource.get("type") == self.resource and same


@dataclass(frozen=True)
class LogEntry:
    """One entry with text. `at` is its moment (RFC 3339, UTC), `source` the name under which its source was asked for,
    `severity` Google's word (`DEFAULT` where the writer gave none). Secrets are removed from `text`."""

    at: str
    severity: str
    source: str
    text: str
    key: tuple[str, str]
    """Moment and insert id: the same for one entry that is read twice."""


@dataclass(frozen=True)
class LogQuery:
    """Which entries of several sources, by their names. `errors`: only those of failures, by severity or by their words."""

    sources: Mapping[str, LogSource]
    errors: bool = False

    def filter(self, since: str) -> str:
        """Return the filter in the logging query language; `since` is an RFC 3339 timestamp."""
        terms = ["(" + " OR ".join(f"({source.query()})" for source in self.sources.values()) + ")"]
        if self.errors:
            loud = _escaped(_LOUD)
            terms.append(f'(severity>="ERROR" OR textPayload=~"{loud}" OR jsonPayload.message=~"{loud}")')
        return " AND ".join([*terms, f'timestamp>="{since}"'])

    def entries(self, raws: Iterable[Mapping[str, Any]]) -> list[LogEntry]:
        """Return the entries of an answer that have text, in its order."""
        return [entry for raw in raws if (entry := self._entry(raw)) is not None]

    def _entry(self, raw: Mapping[str, Any]) -> LogEntry | None:
        text = _told(raw)
        if not text:
            return None
        source = next((name for name, one in self.sources.items() if one.wrote(raw)), "")
        at = str(raw.get("timestamp") or "")
        key = (at, str(raw.get("insertId") or text))
        return LogEntry(at, str(raw.get("severity") or "DEFAULT"), source, without_secrets(text), key)


def newest_entries(session: GoogleSession, query: LogQuery, *, since: str, limit: int) -> tuple[list[LogEntry], bool]:
    """Return the newest `limit` entries since a moment (RFC 3339), oldest first, and whether there are older ones since then.

    Raises GoogleError.
    """
    found: list[LogEntry] = []
    page_token = ""
    while len(found) <= limit:
        answer = _list(session, query.filter(since), _NEWEST_FIRST, min(limit + 1, _PAGE), page_token)
        found += query.entries(answer.get("entries", ()))
        page_token = str(answer.get("nextPageToken") or "")
        if not page_token:
            break
    return sorted(found[:limit], key=lambda entry: entry.key), len(found) > limit


class LogFollower:
    """Reads entries as they come, each once. An entry that comes late is handed on when it comes, after younger ones."""

    def __init__(self, session: GoogleSession, query: LogQuery, *, since_s: float) -> None:
        """`since_s`: in seconds since 1970."""
        self._session, self._query, self._since_s = session, query, since_s
        self._seen: dict[tuple[str, str], float] = {}
        self._looks = 0
        self._asked_at = since_s
        """When Google last answered, in seconds since 1970."""

    def new_entries(self) -> list[LogEntry]:
        """Return the entries that were not read before, oldest first. Raises GoogleError; the next call reads them then."""
        now = self._session.clock()
        back_s = _LATEST_S if self._looks % _LATE_EVERY == 0 else _OVERLAP_S
        since = moment_ms(max(self._since_s, self._asked_at - back_s))
        fresh: list[LogEntry] = []
        page_token = ""
        while True:
            answer = _list(self._session, self._query.filter(since), _OLDEST_FIRST, _PAGE, page_token)
            fresh += [entry for entry in self._query.entries(answer.get("entries", ())) if entry.key not in self._seen]
            page_token = str(answer.get("nextPageToken") or "")
            if not page_token:
                break
        self._looks += 1
        self._asked_at = now
        fresh = sorted({entry.key: entry for entry in fresh}.values(), key=lambda entry: entry.key)
        self._seen |= dict.fromkeys((entry.key for entry in fresh), now)
        self._seen = {key: read for key, read in self._seen.items() if now - read < 2 * _LATEST_S}
        return fresh


def last_lines(session: GoogleSession, source: LogSource, *, limit: int = 20, since: str = "") -> tuple[str, ...]:
    """Return the text of the newest `limit` entries, oldest first, without secrets.

    Entries can be read some seconds after they were written. Entries without text (request logs) are left out.
    """
    answer = _list(session, source.query(since), _NEWEST_FIRST, limit, "")
    lines = (_text(entry) for entry in reversed(answer.get("entries", ())))
    return tuple(without_secrets(line) for line in lines if line)


def _list(session: GoogleSession, query: str, order: str, limit: int, page_token: str) -> dict[str, Any]:
    body = {
        "resourceNames": [f"projects/{session.project}"],
        "filter": query,
        "orderBy": order,
        "pageSize": limit,
    }
    body |= {"pageToken": page_token} if page_token else {}
    return session.post(Api.LOGGING, "entries:list", body, repeatable=True)


def _text(entry: Mapping[str, Any]) -> str:
    if "textPayload" in entry:
        return str(entry["textPayload"]).rstrip()
    if "jsonPayload" in entry:
        payload = entry["jsonPayload"]
        return str(payload.get("message") or json.dumps(payload, sort_keys=True)).rstrip()
    status = entry.get("protoPayload", {}).get("status", {})
    return str(status.get("message", "")).rstrip()


def _told(entry: Mapping[str, Any]) -> str:
    """Return the text of an entry; of a request that Cloud Run or the gateway logged, the request in a line before it."""
    said: Mapping[str, Any] = entry.get("httpRequest") or {}
    if not said.get("requestMethod"):
        return _text(entry)
    address, _, _ = str(said.get("requestUrl", "")).partition("?")  # a query may hold a secret
    path = re.sub(r"^https?://[^/]+", "", address)
    request = " ".join(str(said[key]) for key in ("status", "latency") if key in said)
    message = _text(entry) if entry.get("textPayload") or entry.get("jsonPayload", {}).get("message") else ""
    return ": ".join(filter(None, (f"{said['requestMethod']} {path} {request}".rstrip(), message)))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
