"""Turns Google's error bodies into one GoogleError each: what was refused, why, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.errors import GoogleError
from infra.google.refusals import Refusal, RefusalKind, error_info, refusal_of

NO_ADDRESS = "NO_ADDRESS"  # the reason where a proxy or a custom endpoint is not a valid address
NOT_SENT = "NOT_SENT"  # the reason of an error after which the request certainly did nothing
FAILED = "FAILED"  # the reason of an operation that ended without success
TRANSIENT_STATUS = frozenset({0, 429, 500, 502, 503, 504})
LASTING = frozenset({*(kind.value for kind in RefusalKind if kind is not RefusalKind.OTHER), "NO_PROJECT", NO_ADDRESS})
"""Reasons with which the same request fails again within minutes, whatever the status."""
NO_ANSWER = frozenset({NO_ADDRESS, NOT_SENT, "UNREACHABLE"})
"""Reasons of errors where no server answered."""

# The smallest predefined role for each permission that these clients need, by the prefix of the permission in lower case:
# Google spells the same permission in two ways.
ROLES = {
    "artifactregistry.": "roles/artifactregistry.reader",
    "cloudquotas.": "roles/cloudquotas.viewer",
    "compute.instance": "roles/compute.instanceAdmin.v1",
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
class ApiCall:
    """The call that an error is about: `what` in words (`GET queuedResources/blue`), the service, and the project."""

    what: str
    service: str
    project: str


def error_from_answer(status: int, payload: Any, call: ApiCall) -> GoogleError:
    """Return the error for an answer that was not 2xx. `payload` is its parsed body, None where it was not JSON."""
    error = payload.get("error") if isinstance(payload, Mapping) else None
    error = error if isinstance(error, Mapping) else {}
    refusal = refusal_of(error)
    message = refusal.message or f"HTTP {status}"
    canonical = str(error.get("status") or "")
    info = error_info(error)
    if info.get("reason") == "SERVICE_DISABLED" or "has not been used in project" in message:
        return _disabled(status, info, call)
    if info.get("reason") == "BILLING_DISABLED":
        return GoogleError(
            f"Project {call.project} has no active billing account, so {call.what} was refused; link one at "
            f"https://console.cloud.google.com/billing/linkedaccount?project={call.project}",
            status=status,
            reason="BILLING_DISABLED",
        )
    if status == 401:
        return credentials_expired(call)
    if refusal.kind is not RefusalKind.OTHER:
        return _refused(status, refusal, call)
    if status == 403:
        return _permission(message, info, call)
    if status in TRANSIENT_STATUS:
        return _transient(status, message, canonical, call)
    return GoogleError(f"{call.service} refused {call.what}: {message}", status=status, reason=canonical)


def error_from_operation(error: Mapping[str, Any], call: ApiCall) -> GoogleError:
    """Return the error for an operation that Google accepted and then gave up, from its `google.rpc.Status`."""
    refusal = refusal_of(error)
    if refusal.kind is not RefusalKind.OTHER:
        return _refused(400, refusal, call)
    why = refusal.message.rstrip(".") or f"code {error.get('code', 'unknown')}, without a reason"
    return GoogleError(f"{call.service} gave up {call.what}: {why}.", reason=FAILED)


def credentials_expired(call: ApiCall, why: str = "") -> GoogleError:
    """Return the error for credentials that Google does not accept, or accepts no longer."""
    return GoogleError(
        f"Google no longer accepts these credentials{f' ({why})' if why else ''}, so {call.what} was not done; run "
        "`gcloud auth application-default login`, or renew the access token if gcp:accessToken or "
        "GOOGLE_OAUTH_ACCESS_TOKEN is set: such a token is never renewed by itself, and a new gcp:accessToken reaches "
        "refresh and destroy by `pulumi up --refresh=false`.",
        status=401,
        reason="UNAUTHENTICATED",
    )


def unreachable(call: ApiCall, why: str) -> GoogleError:
    """Return the error for a request without an answer: whether a change was carried out is unknown."""
    if call.what.startswith("GET "):
        lost, again = "so nothing is known", "run the command again"
    else:
        lost = "so it may or may not have been done"
        again = "run the command again, which goes on where this one stopped"
    return GoogleError(
        f"{call.service} did not answer {call.what} ({why}), {lost}; check the network and {again}.",
        reason="UNREACHABLE",
    )


def bad_address(call: ApiCall, why: str, proxy_variable: str) -> GoogleError:
    """Return the error for a custom endpoint, or a proxy from `proxy_variable`, that is not a valid address."""
    what, good = f"the custom endpoint that is set for {call.service}", "https://host/v1/"
    if proxy_variable:
        what, good = f"what {proxy_variable} holds", "http://proxy.example.com:3128"
    return GoogleError(
        f"{call.what} was not sent to {call.service}, because {what} is not an address ({why}); "
        f"write it like {good}, or unset it.",
        reason=NO_ADDRESS,
    )


def not_sent(call: ApiCall, why: str) -> GoogleError:
    """Return the error for a request that was never sent: no connection, or no access token. Nothing was done."""
    return GoogleError(
        f"{call.what} was not sent to {call.service} ({why}); check the network and run the command again.",
        reason=NOT_SENT,
    )


def is_transient(error: GoogleError) -> bool:
    """Return whether the same request may succeed within minutes by itself; False for a used-up quota or no capacity."""
    return error.status in TRANSIENT_STATUS and error.reason not in LASTING


def is_ambiguous(error: GoogleError) -> bool:
    """Return whether a failed POST may have been carried out: no answer, a server error, or an earlier attempt like that."""
    return error.maybe_done or error.reason == "UNREACHABLE" or error.status >= 500


def maybe_done_error(error: GoogleError) -> GoogleError:
    """Return the error of a repeated request, saying that an earlier attempt may have been carried out."""
    if is_ambiguous(error):
        return error  # its message says so
    message = f"{error} An earlier attempt was left without an answer, so it may have been done all the same."
    return GoogleError(message, status=error.status, reason=error.reason, maybe_done=True)


def _refused(status: int, refusal: Refusal, call: ApiCall) -> GoogleError:
    """Return the error for a refusal of known kind: quota, place, capacity."""
    if refusal.kind is RefusalKind.QUOTA:
        return _quota(status, refusal.quota, call)
    why = "there is no capacity left for now" if refusal.kind is RefusalKind.CAPACITY else "it is not offered there"
    message = f"{call.service} refused {call.what}, since {why}. Google says: {refusal.message.rstrip('.')}."
    return GoogleError(message, status=status, reason=refusal.kind.value)


def _disabled(status: int, info: Mapping[str, str], call: ApiCall) -> GoogleError:
    service = info.get("service") or call.service
    return GoogleError(
        f"The API {service} is not enabled in project {call.project}, so {call.what} was refused; enable it with "
        f"`gcloud services enable {service} --project {call.project}` and try again a minute later.",
        status=status,
        reason="SERVICE_DISABLED",
    )


def _quota(status: int, found: Mapping[str, str | None], call: ApiCall) -> GoogleError:
    place = f" in {found['place']}" if found.get("place") else ""
    ended = " (FAILED and SUSPENDED queued resources still do: `gemma4 tpu ended`)" if "tpu" in call.service else ""
    return GoogleError(
        f"The quota {found['quota']} of project {call.project} is used up{place} (limit {found['limit']}), so "
        f"{call.what} was refused; delete what holds it{ended} or ask for more at "
        f"https://console.cloud.google.com/iam-admin/quotas?project={call.project}&service={call.service}",
        status=status,
        reason=RefusalKind.QUOTA.value,
    )


def _permission(message: str, info: Mapping[str, str], call: ApiCall) -> GoogleError:
    named = re.search(r"[Pp]ermission '?([a-z]\w*(?:\.\w+)+)'?|Required '([a-z]\w*(?:\.\w+)+)' permission", message)
    permission = info.get("permission") or (named.group(1) or named.group(2) if named else "")
    role = next((role for prefix, role in ROLES.items() if permission.lower().startswith(prefix)), "")
    if not permission:
        fix = "ask an owner of the project for a role that allows it"
    else:
        fix = f"the caller lacks the permission {permission}; grant {role or 'a role that holds it'}"
    return GoogleError(
        f"{call.service} refused {call.what} in project {call.project}: {fix}. Google says: {message}",
        status=403,
        reason="PERMISSION_DENIED",
    )


def _transient(status: int, message: str, canonical: str, call: ApiCall) -> GoogleError:
    limited = status == 429
    cause = "limits how often it is asked" if limited else f"has trouble of its own (HTTP {status})"
    return GoogleError(
        f"{call.service} {cause} and did not do {call.what}; wait some minutes and run the command again. "
        f"Google says: {message}",
        status=status,
        reason="RATE_LIMITED" if limited else canonical or "UNAVAILABLE",
    )
