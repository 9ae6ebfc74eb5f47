"""Checks a deployed server through the URL that its users call, and keeps what it measured in its own state.

It runs again when the server or its specification changed, never on a refresh, which must not wake a server that has scaled
to zero. Its measurements are not stack outputs, since a failed check would then leave the stack without any output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import GoogleError, ServingError
from infra.google.cloud_run import CloudRun
from infra.google.identity_tokens import IdentityTokens, outlast_fresh_grants
from infra.google.logs import LogSource, last_lines
from infra.google.session import GoogleSession
from infra.providers.base import DynamicResource, Progress, Provider, changed, fail, in_place, progress_on
from infra.serving.check import CheckExpectation, run_check
from infra.serving.client import ServingClient
from infra.serving.server_errors import sentence

_TRIGGERS = ("url", "path", "generation", "expected")
_LOG_LINES = 15
_RECENT_S = 3600
"""How old an error of the supervisor may be to be shown: older ones are about an earlier server."""


@dataclass(frozen=True)
class ServingCheckArgs:
    """`url` is the service's base URL, `path` the prefix of one slice behind a gateway, else empty.

    `generation` names the server: a new revision or node is checked again. `skipped` says why there is no check, if so.
    """

    url: pulumi.Input[str]
    path: str
    generation: pulumi.Input[str]
    expected: Mapping[str, Any]
    """What the server must show: fields of `CheckExpectation`."""
    predicted_kv_tokens: Sequence[int]
    """Low, likely, high. Neither a new prediction nor another `ready_timeout_s` alone is a reason to check again."""
    ready_timeout_s: float
    invoker: pulumi.Input[str]
    log: Mapping[str, pulumi.Input[str]]
    """Where the server logs: kind (service or slice), name, location."""
    skipped: pulumi.Input[str] = ""


class ServingCheck(DynamicResource):
    """A server that passed its check. `result` holds what was measured."""

    result: pulumi.Output[Mapping[str, Any]]

    def __init__(self, name: str, args: ServingCheckArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(ServingCheckProvider(), name, args, opts)


class ServingCheckProvider(Provider):
    """Runs the check with identity tokens of the stack's invoker account."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Check the server. An error says the stage, the likely cause and the server's last log lines."""
        return CreateResult(f"{props['url']}{props['path']}", {**props, "result": self._checked(props)})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return an update where the server, its address or the expectation changed."""
        return in_place(changed(olds, news, _TRIGGERS))

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Check the server again."""
        return UpdateResult({**news, "result": self._checked(news)})

    def _checked(self, props: Mapping[str, Any]) -> dict[str, Any]:
        progress = progress_on(props.get("urn"))
        if props["skipped"]:
            progress(f"not checked: {props['skipped']}")
            return {"skipped": props["skipped"]}
        session = GoogleSession(self.gcp)
        tokens = IdentityTokens(session, invoker=props["invoker"])
        try:
            _first_token(tokens, props["url"], session, progress)
            client = ServingClient(
                props["url"],
                token=lambda: tokens.token(props["url"]),
                on_token_refused=tokens.forget,
                prefix=props["path"],
            )
            log_tail = partial(_log_tail, session, props["log"])
            platform = partial(_platform, session, props["log"])
            result = run_check(client, expectation(props), progress=progress, log_tail=log_tail, platform=platform)
            return result.to_dict()
        except GoogleError as error:
            fail(f"serving check, stage identity: {error}")
        except ServingError as error:
            fail(f"{error}\nThe token was {tokens.way}." if error.status in (401, 403) else str(error))


def _first_token(tokens: IdentityTokens, url: str, session: GoogleSession, progress: Progress) -> None:
    """Make a token before the server is asked anything, so that a missing role is reported first.

    The grant may be minutes old, and IAM needs minutes to act on it. Raises GoogleError after five minutes.
    """
    refusals: list[GoogleError] = []

    def ask() -> int:
        try:
            tokens.token(url)
        except GoogleError as error:
            refusals.append(error)
            progress("waiting for the permission to make an identity token; a new grant needs minutes to count")
            return error.status or 500
        return 200

    if outlast_fresh_grants(ask, tokens=tokens, clock=session.clock, sleep=session.sleep) != 200:
        raise refusals[-1]


def expectation(props: Mapping[str, Any]) -> CheckExpectation:
    """Return the check's expectation from the resource's inputs, whose numbers the engine gives back as floats."""
    return CheckExpectation.model_validate(
        {
            **props["expected"],
            "predicted_kv_tokens": props["predicted_kv_tokens"],
            "ready_timeout_s": props["ready_timeout_s"],
        }
    )


def _log_tail(session: GoogleSession, log: Mapping[str, str]) -> Sequence[str]:
    on_slice = log["kind"] == "slice"
    source = (LogSource.slice if on_slice else LogSource.service)(log["name"], log["location"])
    lines = last_lines(session, source, limit=_LOG_LINES) or ("(it has logged nothing yet)",)
    return (
        (*_supervisor_errors(session, source), *lines, f"(more: {source.command(session.project)})")
        if on_slice
        else lines
    )


def _supervisor_errors(session: GoogleSession, source: LogSource) -> Sequence[str]:
    """Return the last errors that a slice's supervisor reported, with the last log lines of a server that ended.

    The supervisor starts the server again, and the hundreds of lines of that start would hide why the last one ended.
    """
    since = datetime.fromtimestamp(session.clock() - _RECENT_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    errors = last_lines(session, replace(source, payload={"event": "trouble"}), limit=2, since=since)
    return [line for text in errors for line in text.splitlines()]


def _platform(session: GoogleSession, log: Mapping[str, str]) -> str:
    """Return why Cloud Run does not serve what was planned; empty for a slice, and where Cloud Run reports no problem."""
    if log["kind"] != "service":
        return ""
    name, region = log["name"], log["location"]
    try:
        service = CloudRun(session, region).service(name)
    except GoogleError:
        return ""
    if service.failed_revision:
        return (
            f"Cloud Run has given up on the newest revision: {sentence(service.problem)} The next `pulumi up` tries again with "
            "a new one."
        )
    if not service.ready:
        return f"Cloud Run is still starting it: {sentence(service.problem)} Run `pulumi up` again to go on waiting."
    if service.pinned_to:
        return (
            f"Somebody moved the traffic to {', '.join(service.pinned_to)}, and `pulumi up` does not change that: run "
            f"`gcloud run services update-traffic {name} --to-latest --region {region} --project {session.project}`."
        )
    return ""
