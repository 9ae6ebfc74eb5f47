"""Google's error bodies, turned into one sentence: what was refused, why, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.errors import GoogleError
from infra.google.refusals import Cause, Refusal, cause_of, error_info

NO_ADDRESS = "NO_ADDRESS"  # the reason where a proxy or an endpoint is written so that nobody can be asked
NOT_SENT = "NOT_SENT"  # the reason of an error after which the request certainly did nothing
FAILED = "FAILED"  # the reason of an operation that ended without success
TRANSIENT_STATUS = frozenset({0, 429, 500, 502, 503, 504})
LASTING = frozenset({*(kind.value for kind in Refusal if kind is not Refusal.OTHER), "NO_PROJECT", NO_ADDRESS})
"""Reasons after which asking the same again within minutes is in vain, whatever the status."""
NO_ANSWER = frozenset({NO_ADDRESS, NOT_SENT, "UNREACHABLE"})
"""Reasons of errors that nobody answered."""

# The smallest predefined role that holds each permission our clients need; the prefix stands for its whole family. In
# lower case, since Google spells the same permission in two ways.
ROLES = {
    "artifactregistry.": "roles/artifactregistry.reader",
    "cloudquotas.": "roles/cloudquotas.viewer",
    "compute.": "roles/compute.networkAdmin",
    "iam.serviceaccounts.actas": "roles/iam.serviceAccountUser",
    "iam.serviceaccounts.getaccesstoken": "roles/iam.serviceAccountTokenCreator",
    "iam.serviceaccounts.getopenidtoken": "roles/iam.serviceAccountOpenIdTokenCreator",
    "logging.": "roles/logging.viewer",
    "monitoring.": "roles/monitoring.viewer",
    "run.": "roles/run.developer",
    "secretmanager.": "roles/secretmanager.secretAccessor",
    "serviceusage.services.use": "roles/serviceusage.serviceUsageConsumer",
    "storage.objects.": "roles/storage.objectViewer",
    "storage.": "roles/storage.admin",
    "tpu.": "roles/tpu.admin",
}


@dataclass(frozen=True)
class Asked:
    """What an error is about: `what` as a person says it (`GET queuedResources/blue`), and of which service."""

    what: str
    service: str
    project: str


def explain(status: int, payload: Any, asked: Asked) -> GoogleError:
    """The error for an answer that was not 2xx; `payload` is its parsed body, or None where it was no JSON."""
    error = payload.get("error") if isinstance(payload, Mapping) else None
    error = error if isinstance(error, Mapping) else {}
    cause = cause_of(error)
    message = cause.message or f"HTTP {status}"
    canonical = str(error.get("status") or "")
    info = error_info(error)
    if info.get("reason") == "SERVICE_DISABLED" or "has not been used in project" in message:
        return _disabled(status, info, asked)
    if info.get("reason") == "BILLING_DISABLED":
        return _billing(status, asked)
    if status == 401:
        return expired(asked)
    if cause.kind is not Refusal.OTHER:
        return _refused(status, cause, asked)
    if status == 403:
        return _permission(message, info, asked)
    if status in TRANSIENT_STATUS:
        return _transient(status, message, canonical, asked)
    return GoogleError(f"{asked.service} refused {asked.what}: {message}", status=status, reason=canonical)


def failed(error: Mapping[str, Any], asked: Asked) -> GoogleError:
    """The error for an operation that Google took and then gave up, from the `google.rpc.Status` in it."""
    cause = cause_of(error)
    if cause.kind is not Refusal.OTHER:
        return _refused(400, cause, asked)
    why = cause.message.rstrip(".") or f"code {error.get('code', 'unknown')}, without a reason"
    return GoogleError(f"{asked.service} gave up {asked.what}: {why}.", reason=FAILED)


def expired(asked: Asked, why: str = "") -> GoogleError:
    """Credentials that were good once, or never."""
    return GoogleError(
        f"Google no longer takes these credentials{f' ({why})' if why else ''}, so {asked.what} was not done; run "
        "`gcloud auth application-default login`, or renew the access token if gcp:accessToken or "
        "GOOGLE_OAUTH_ACCESS_TOKEN is set: such a token is never renewed by itself, and a new gcp:accessToken reaches "
        "refresh and destroy by `pulumi up --refresh=false`.",
        status=401,
        reason="UNAUTHENTICATED",
    )


def unreachable(asked: Asked, why: str) -> GoogleError:
    """No answer at all: whether a request that changes something was carried out is unknown."""
    if asked.what.startswith("GET "):
        lost, again = "so nothing is known", "run the command again"
    else:
        lost = "so it may or may not have been done"
        again = "run the command again, which goes on where this one stopped"
    return GoogleError(
        f"{asked.service} did not answer {asked.what} ({why}), {lost}; check the network and {again}.",
        reason="UNREACHABLE",
    )


def no_address(asked: Asked, why: str, proxy_variable: str) -> GoogleError:
    """An address that is none, of the API or of a proxy: asking again does not help."""
    what, good = f"the custom endpoint that is set for {asked.service}", "https://host/v1/"
    if proxy_variable:
        what, good = f"what {proxy_variable} holds", "http://proxy.example.com:3128"
    return GoogleError(
        f"{asked.what} was not sent to {asked.service}, because {what} is not an address ({why}); "
        f"write it like {good}, or unset it.",
        reason=NO_ADDRESS,
    )


def not_sent(asked: Asked, why: str) -> GoogleError:
    """Nobody could be reached, or no token be had, so nothing was done and everything may be tried again."""
    return GoogleError(
        f"{asked.what} was not sent to {asked.service} ({why}); check the network and run the command again.",
        reason=NOT_SENT,
    )


def is_transient(error: GoogleError) -> bool:
    """Whether the same request may succeed within minutes without anybody doing anything. A used-up quota and a zone
    without capacity do not."""
    return error.status in TRANSIENT_STATUS and error.reason not in LASTING


def is_ambiguous(error: GoogleError) -> bool:
    """Whether a refused POST may have been carried out all the same: no answer, a server's fault, or an earlier attempt
    that ended so."""
    return error.maybe_done or error.reason == "UNREACHABLE" or error.status >= 500


def after_silence(error: GoogleError) -> GoogleError:
    """The refusal of a repeated request whose earlier attempt may have been carried out."""
    if is_ambiguous(error):
        return error  # it says so itself
    message = f"{error} An earlier attempt was left without an answer, so it may have been done all the same."
    return GoogleError(message, status=error.status, reason=error.reason, maybe_done=True)


def _refused(status: int, cause: Cause, asked: Asked) -> GoogleError:
    """A no that concerns what was asked for, and where: quota, place, capacity."""
    if cause.kind is Refusal.QUOTA:
        return _quota(status, cause.quota, asked)
    why = "there is no capacity left for now" if cause.kind is Refusal.CAPACITY else "it is not offered there"
    message = f"{asked.service} refused {asked.what}, since {why}. Google says: {cause.message.rstrip('.')}."
    return GoogleError(message, status=status, reason=cause.kind.value)


def _disabled(status: int, info: Mapping[str, str], asked: Asked) -> GoogleError:
    service = info.get("service") or asked.service
    return GoogleError(
        f"The API {service} is not enabled in project {asked.project}, so {asked.what} was refused; enable it with "
        f"`gcloud services enable {service} --project {asked.project}` and try again a minute later.",
        status=status,
        reason="SERVICE_DISABLED",
    )


def _billing(status: int, asked: Asked) -> GoogleError:
    return GoogleError(
        f"Project {asked.project} has no active billing account, so {asked.what} was refused; link one at "
        f"https://console.cloud.google.com/billing/linkedaccount?project={asked.project}",
        status=status,
        reason="BILLING_DISABLED",
    )


def _quota(status: int, found: Mapping[str, str | None], asked: Asked) -> GoogleError:
    place = f" in {found['place']}" if found.get("place") else ""
    husks = " (FAILED and SUSPENDED queued resources still do: `gemma4 tpu ended`)" if "tpu" in asked.service else ""
    return GoogleError(
        f"The quota {found['quota']} of project {asked.project} is used up{place} (limit {found['limit']}), so "
        f"{asked.what} was refused; delete what holds it{husks} or ask for more at "
        f"https://console.cloud.google.com/iam-admin/quotas?project={asked.project}&service={asked.service}",
        status=status,
        reason=Refusal.QUOTA.value,
    )


def _permission(message: str, info: Mapping[str, str], asked: Asked) -> GoogleError:
    named = re.search(r"[Pp]ermission '?([a-z]\w*(?:\.\w+)+)'?|Required '([a-z]\w*(?:\.\w+)+)' permission", message)
    permission = info.get("permission") or (named.group(1) or named.group(2) if named else "")
    role = next((role for prefix, role in ROLES.items() if permission.lower().startswith(prefix)), "")
    if not permission:
        fix = "ask an owner of the project for a role that allows it"
    else:
        fix = f"the caller lacks the permission {permission}; grant {role or 'a role that holds it'}"
    return GoogleError(
        f"{asked.service} refused {asked.what} in project {asked.project}: {fix}. Google says: {message}",
        status=403,
        reason="PERMISSION_DENIED",
    )


def _transient(status: int, message: str, canonical: str, asked: Asked) -> GoogleError:
    limited = status == 429
    cause = "limits how often it is asked" if limited else f"has trouble of its own (HTTP {status})"
    return GoogleError(
        f"{asked.service} {cause} and did not do {asked.what}; wait some minutes and run the command again. "
        f"Google says: {message}",
        status=status,
        reason="RATE_LIMITED" if limited else canonical or "UNAVAILABLE",
    )
