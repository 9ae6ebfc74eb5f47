"""What travels between the fake and its callers: one request, one answer, and Google's way to say no."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Canonical names that Google writes beside an HTTP status.
CANONICAL = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


@dataclass(frozen=True)
class Request:
    """`path` is raw (percent escapes kept, no query); header names are lower case and never hold the authorization."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    host: str
    token: str = ""

    def json(self) -> dict[str, Any]:
        if not self.body:
            return {}
        try:
            parsed = json.loads(self.body)
        except ValueError:
            raise ErrorAnswer(400, "Invalid JSON payload received.") from None
        if not isinstance(parsed, dict):
            raise ErrorAnswer(400, "Invalid JSON payload received. The root must be an object.")
        return parsed


@dataclass(frozen=True)
class Response:
    """`body` is sent as JSON unless it is bytes already."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def payload(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class ErrorAnswer(Exception):
    """An answer that is not 2xx, with the body Google would send."""

    def __init__(self, status: int, message: str, *, canonical: str = "", details: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(status, message, canonical=canonical, details=details)


def error_body(status: int, message: str, *, canonical: str = "", details: Sequence[Any] = ()) -> dict[str, Any]:
    error: dict[str, Any] = {
        "code": status,
        "message": message,
        "status": canonical or CANONICAL.get(status, "UNKNOWN"),
    }
    if details:
        error["details"] = list(details)
    return {"error": error}


def error_info(reason: str, **metadata: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": metadata,
    }


def not_found(name: str) -> ErrorAnswer:
    return ErrorAnswer(404, f"Resource '{name}' was not found")


def already_exists(name: str) -> ErrorAnswer:
    return ErrorAnswer(409, f"Resource '{name}' already exists")


def expired_token() -> ErrorAnswer:
    return ErrorAnswer(
        401,
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential.",
        details=[error_info("ACCESS_TOKEN_EXPIRED", service="googleapis.com")],
    )


def permission_denied(permission: str, resource: str) -> ErrorAnswer:
    return ErrorAnswer(
        403,
        f"Permission '{permission}' denied on resource '{resource}' (or it may not exist).",
        details=[error_info("IAM_PERMISSION_DENIED", permission=permission, resource=resource)],
    )


def service_disabled(service: str, project: str) -> ErrorAnswer:
    return ErrorAnswer(
        403,
        f"{service} has not been used in project {project} before or it is disabled.",
        details=[error_info("SERVICE_DISABLED", service=service, consumer=f"projects/{project}")],
    )


def quota_exceeded(limit: str, place: str, allowed: int = 0) -> ErrorAnswer:
    """The TPU API's own wordings, seen in the field in 2025-08 and 2025-09: one in the message, one in the details."""
    where = f"in {'zone' if 'PerZone' in limit else 'region'} {place}"
    violation = {
        "subject": "project:123456789012",
        "description": f"Quota '{limit}' exhausted. Limit {allowed} {where}",
    }
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}]
    return ErrorAnswer(429, f"Quota limit '{limit}' has been exceeded. Limit: {allowed} {where}.", details=details)


def resource_in_use(name: str, user: str) -> ErrorAnswer:
    refusal = ErrorAnswer(400, f"The resource '{name}' is already being used by '{user}'")
    refusal.body["error"]["errors"] = [{"reason": "resourceInUseByAnotherResource", "message": str(refusal)}]
    return refusal


def fingerprint(token: str) -> str:
    """Tells two bearers apart without keeping either."""
    return hashlib.sha256(token.encode()).hexdigest()[:12]
