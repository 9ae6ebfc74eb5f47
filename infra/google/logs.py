"""Cloud Logging: reads the last lines that a service, a job's execution or a TPU slice wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession

HUGGING_FACE_TOKEN = re.compile(r"hf_[A-Za-z0-9]{8,}")


@dataclass(frozen=True)
class LogSource:
    """Which entries: by type and labels of the monitored resource, by labels of the entries, and by fields of their payload."""

    resource: str
    resource_labels: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    payload: Mapping[str, str] = field(default_factory=dict)

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
    def slice(cls, node_id: str, zone: str) -> LogSource:
        """Return the source for a TPU slice by its node's name: the supervisor's own lines and those that the server prints.

        A TPU machine itself sends nothing to Cloud Logging.
        """
        return cls("generic_node", {"namespace": "gemma4", "node_id": node_id, "location": zone})

    def query(self, since: str = "") -> str:
        """Return the filter in the logging query language; `since` is an RFC 3339 timestamp."""
        terms = [f'resource.type="{self.resource}"']
        terms += [f'resource.labels.{key}="{_escaped(value)}"' for key, value in self.resource_labels.items()]
        terms += [f'labels."{key}"="{_escaped(value)}"' for key, value in self.labels.items()]
        terms += [f'jsonPayload.{key}="{_escaped(value)}"' for key, value in self.payload.items()]
        terms += [f'timestamp>="{since}"'] if since else []
        return " AND ".join(terms)

    def command(self, project: str) -> str:
        """Return the command that shows the newest entries of the last day."""
        fields = "value(timestamp,severity,jsonPayload.message)"
        return (
            f"gcloud logging read '{self.query()}' --project {project} --freshness 1d --limit 100 --format '{fields}'"
        )


def last_lines(session: GoogleSession, source: LogSource, *, limit: int = 20, since: str = "") -> tuple[str, ...]:
    """Return the newest `limit` entries as text, oldest first, with Hugging Face tokens removed.

    Entries can be read some seconds after they were written. Entries without text (request logs) are left out.
    """
    body = {
        "resourceNames": [f"projects/{session.project}"],
        "filter": source.query(since),
        "orderBy": "timestamp desc",
        "pageSize": limit,
    }
    answer = session.post(Api.LOGGING, "entries:list", body, repeatable=True)
    lines = (_text(entry) for entry in reversed(answer.get("entries", ())))
    return tuple(HUGGING_FACE_TOKEN.sub("hf_…", line) for line in lines if line)


def _text(entry: Mapping[str, Any]) -> str:
    if "textPayload" in entry:
        return str(entry["textPayload"]).rstrip()
    if "jsonPayload" in entry:
        payload = entry["jsonPayload"]
        return str(payload.get("message") or json.dumps(payload, sort_keys=True)).rstrip()
    status = entry.get("protoPayload", {}).get("status", {})
    return str(status.get("message", "")).rstrip()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
