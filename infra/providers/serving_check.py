"""Checks a deployed server through the URL that its users call, and keeps what it measured in its own state.

It runs again when the server or its specification changed, never on a refresh, which must not wake a server that has scaled
to zero. Its measurements are not stack outputs, since a failed check would then leave the stack without any output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import GoogleError, ServingError
from infra.google.identity_tokens import IdentityTokens, outlast_fresh_grants
from infra.google.session import GoogleSession
from infra.providers.base import DynamicResource, Progress, Provider, changed, fail, in_place, progress_on
from infra.providers.server_context import log_tail, platform_reason
from infra.serving.check import CheckExpectation, run_check
from infra.serving.client import ServingClient

_TRIGGERS = ("url", "path", "generation", "expected")


@dataclass(frozen=True)
class ServingCheckArgs:
    """`url` is the service's base URL, `path` the prefix of one slice behind a gateway, else empty.

    `generation` names the server: a new revision or node is checked again. `skipped` says why there is no check, if so.
    """

    url: pulumi.Input[str]
    path: pulumi.Input[str]
    generation: pulumi.Input[str]
    expected: Mapping[str, Any]
    """What the server must show: fields of `CheckExpectation`."""
    predicted_kv_tokens: Sequence[int]
    """Low, likely, high. Neither a new prediction nor another `ready_timeout_s` alone is a reason to check again."""
    ready_timeout_s: float
    invoker: pulumi.Input[str]
    log: Mapping[str, pulumi.Input[str]]
    """Where the server logs: kind (service or machine), name, location."""
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
            tail = partial(log_tail, session, props["log"])
            reason = partial(platform_reason, session, props["log"])
            result = run_check(client, expectation(props), progress=progress, log_tail=tail, platform=reason)
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
