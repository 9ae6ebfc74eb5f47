"""What kind of no Google said. Its words are the same in an HTTP error, in a failed operation and in the record of a
failed request, so that one function reads all three.

The sentences are those that were seen: Google documents none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MESSAGE_KEPT = 500  # characters of Google's own words


class Refusal(StrEnum):
    """Kinds that ask for different things: more quota, another place, another time. The value is the error's reason."""

    QUOTA = "QUOTA_EXCEEDED"
    UNSUPPORTED = "UNSUPPORTED_ZONE"
    CAPACITY = "NO_CAPACITY"
    OTHER = ""


@dataclass(frozen=True)
class Cause:
    """`message` is Google's own, on one line; `quota` has the keys quota, limit and place where a quota is used up."""

    kind: Refusal
    message: str
    quota: Mapping[str, str | None] = field(default_factory=dict)


# Wordings seen for an exhausted quota: TPU API (the error, and its violation), Compute Engine, Cloud Run.
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
    # The same words with "per minute" are a rate, which time heals.
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
"""Reason beside a 403 for a zone that this project may not use, or that does not exist."""

STOCKOUT = re.compile(r"no more capacity in the zone|GCE_STOCKOUT|ZONE_RESOURCE_POOL_EXHAUSTED")


def cause_of(error: Mapping[str, Any]) -> Cause:
    """The kind of a `google.rpc.Status`: of an HTTP error's body, an operation or a failed request."""
    message = _line(str(error.get("message") or ""))
    texts = [message, *_violations(error)]
    for text in texts:
        quota = next((match for match in (pattern.search(text) for pattern in QUOTAS) if match), None)
        if quota:
            return Cause(Refusal.QUOTA, message, quota.groupdict())
    if any(UNSUPPORTED.search(text) for text in texts) or error_info(error).get("reason") == LOCATION_POLICY:
        return Cause(Refusal.UNSUPPORTED, message)
    if any(STOCKOUT.search(text) for text in texts):
        return Cause(Refusal.CAPACITY, message)
    return Cause(Refusal.OTHER, message)


def error_info(error: Mapping[str, Any]) -> dict[str, str]:
    """Reason and metadata of the google.rpc.ErrorInfo among the details, flattened."""
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
