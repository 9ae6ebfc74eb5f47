"""Recognises why Google refused a request: quota, place or capacity.

Google uses the same sentences in an HTTP error, in a failed operation and in a failed queued resource, so one function
reads all three. The patterns match sentences that were seen; Google documents none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MESSAGE_KEPT = 500  # characters of Google's own words


class RefusalKind(StrEnum):
    """What helps is different for each kind: more quota, another place, another time. The value is the error's reason."""

    QUOTA = "QUOTA_EXCEEDED"
    UNSUPPORTED = "UNSUPPORTED_ZONE"
    CAPACITY = "NO_CAPACITY"
    OTHER = ""


@dataclass(frozen=True)
class Refusal:
    """`message` is Google's own, on one line. `quota` has the keys quota, limit and place where a quota is used up."""

    kind: RefusalKind
    message: str
    quota: Mapping[str, str | None] = field(default_factory=dict)


# Sentences seen for an exhausted quota: TPU API (the error, and its violation), Compute Engine, Cloud Run.
QUOTAS = (
    re.compile(
        r"Quota limit '(?P<quota>[^']+)' has been exceeded\. Limit: (?P<limit>[\d.,]+)"
        r"(?: in (?:region|zone) (?P<place>[\w-]+))?"
    ),
    re.compile(
        r"Quota '(?P<quota>[^']+)' exhausted\.\s+Limit:? (?P<limit>[\d.,]+)(?: in (?:region|zone) (?P<place>[\w-]+))?"
    ),
    re.compile(
        r"Quota '(?P<quota>[^']+)' exceeded\.\s+Limit: (?P<limit>[\d.,]+)(?: in (?:region|zone) (?P<place>[\w-]+))?"
    ),
    re.compile(r"Quota violated: (?P<quota>\w+) requested: \S+ allowed: (?P<limit>\d+)"),
    # The same words with "per minute" are a rate limit, which passes by itself.
    re.compile(
        r"Quota exceeded for quota metric '(?P<quota>[^']+)' and limit '(?P<limit>(?:(?!per (?:minute|second))[^'])+)'"
    ),
)
UNSUPPORTED = re.compile(
    r'requested zone "[^"]*" is not supported'
    r"|requested accelerator configuration .* could not be found"
    r"|provisioning model is not supported for accelerator type"
)
LOCATION_POLICY = "LOCATION_POLICY_VIOLATED"
"""The reason in a 403 for a zone that does not exist or that this project may not use."""

STOCKOUT = re.compile(r"no more capacity in the zone|GCE_STOCKOUT|ZONE_RESOURCE_POOL_EXHAUSTED")


def refusal_of(error: Mapping[str, Any]) -> Refusal:
    """Return the refusal that a `google.rpc.Status` tells: from an HTTP error's body, an operation or a queued resource."""
    message = _line(str(error.get("message") or ""))
    texts = [message, *_violations(error)]
    for text in texts:
        quota = next((match for match in (pattern.search(text) for pattern in QUOTAS) if match), None)
        if quota:
            return Refusal(RefusalKind.QUOTA, message, quota.groupdict())
    if any(UNSUPPORTED.search(text) for text in texts) or error_info(error).get("reason") == LOCATION_POLICY:
        return Refusal(RefusalKind.UNSUPPORTED, message)
    if any(STOCKOUT.search(text) for text in texts):
        return Refusal(RefusalKind.CAPACITY, message)
    return Refusal(RefusalKind.OTHER, message)


def error_info(error: Mapping[str, Any]) -> dict[str, str]:
    """Return reason and metadata of the `google.rpc.ErrorInfo` among the details, in one dictionary."""
    for detail in _details(error):
        if str(detail.get("@type", "")).endswith("ErrorInfo"):
            return {**detail.get("metadata", {}), "reason": detail.get("reason", "")}
    return {}


def _violations(error: Mapping[str, Any]) -> Iterator[str]:
    for detail in _details(error):
        for violation in detail.get("violations") or ():
            if isinstance(violation, Mapping):
                yield _line(str(violation.get("description") or ""))


def _details(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (detail for detail in error.get("details") or () if isinstance(detail, Mapping))


def _line(text: str) -> str:
    return " ".join(text.split())[:MESSAGE_KEPT]
