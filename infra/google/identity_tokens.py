"""Makes identity tokens for a Cloud Run service, from every kind of credential that people and pipelines have.

Impersonating the stack's invoker account comes first: it works for a person, a service account and workload identity
federation alike. Then comes the caller's own identity, then gcloud. The audience is always the service's base URL.
A fresh grant on the invoker may not count yet: impersonation is tried again from time to time, until `GRACE_S` after it
was first refused. After the service refused a token, call `forget`: the next token starts with impersonation again.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from infra.errors import GoogleError
from infra.google.api_errors import is_transient
from infra.google.credentials import key_info
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession

RENEW_BEFORE_S = 300  # a token is valid for an hour; with less than this left it is replaced
GRACE_S = 300.0  # a fresh grant may take minutes to count
PAUSE_S = 10.0
CREATOR_ROLE = "roles/iam.serviceAccountOpenIdTokenCreator"


class IdentityTokens:
    """Tokens by audience. `own` and `gcloud` make one or raise GoogleError; tests replace them."""

    def __init__(
        self,
        session: GoogleSession,
        *,
        invoker: str = "",
        own: Callable[[str], str] | None = None,
        gcloud: Callable[[str], str] | None = None,
    ) -> None:
        self._session = session
        self._invoker = invoker
        self._own = own or self._own_identity
        self._gcloud = gcloud or gcloud_token
        self._kept: dict[str, str] = {}
        self._making = threading.Lock()
        self._refused_since: float | None = None
        """When impersonation was first refused; None before that, and after it has worked."""
        self._refused_at = 0.0
        self.way = ""
        """How the last token was made and what failed before it, in words; empty before the first token."""

    def token(self, audience: str) -> str:
        """Return a token for a base URL, valid for five minutes or more. Threads take turns: the session behind it is for one
        at a time. Raises GoogleError that names the missing role."""
        with self._making:
            return self._token(audience)

    def _token(self, audience: str) -> str:
        kept = self._kept.get(audience)
        if not kept or expiry(kept) - self._session.clock() <= RENEW_BEFORE_S:
            kept = self._made(audience)
        elif self._should_impersonate_again():
            with suppress(GoogleError):
                kept = self._impersonated(audience)
                self.way = f"made acting as {self._invoker}"
        self._kept[audience] = kept
        return kept

    def forget(self) -> None:
        """Drop all tokens, so that the next one is made anew."""
        self._kept.clear()

    def _should_impersonate_again(self) -> bool:
        """Return whether a grant on the invoker may count by now, although impersonation was refused before."""
        now = self._session.clock()
        return (
            self._refused_since is not None
            and now - self._refused_since <= GRACE_S
            and now - self._refused_at >= PAUSE_S
        )

    def _made(self, audience: str) -> str:
        refusals: list[str] = []
        for way, make in (
            (f"acting as {self._invoker}", self._impersonated if self._invoker else None),
            ("with the caller's own identity", self._own),
            ("with gcloud", self._gcloud),
        ):
            if make is None:
                continue
            try:
                token = make(audience)
            except GoogleError as error:
                if is_transient(error) and error.status:
                    raise
                refusals.append(f"{way}: {error}")
            else:
                self.way = "; ".join((f"made {way}", *(f"not made {refusal}" for refusal in refusals)))
                return token
        raise self._nobody_can(audience, refusals)

    def _impersonated(self, audience: str) -> str:
        path = f"projects/-/serviceAccounts/{self._invoker}:generateIdToken"
        body = {"audience": audience, "includeEmail": True}
        try:
            token = str(self._session.post(Api.IAM_CREDENTIALS, path, body, repeatable=True)["token"])
        except GoogleError:
            self._refused_at = self._session.clock()
            self._refused_since = self._refused_at if self._refused_since is None else self._refused_since
            raise
        self._refused_since = None
        return token

    def _own_identity(self, audience: str) -> str:
        """Make a token from a service account's key or on a machine of Google Cloud; other logins cannot make one."""
        from google.auth import exceptions
        from google.auth.transport.requests import Request
        from google.oauth2 import id_token, service_account

        gcp = self._session.gcp
        if gcp.access_token or gcp.impersonate:
            raise GoogleError("an access token alone cannot be turned into an identity token.")
        request = Request()
        try:
            if gcp.credentials:
                made = service_account.IDTokenCredentials.from_service_account_info(  # type: ignore[no-untyped-call]
                    key_info(gcp.credentials), target_audience=audience
                )
            else:
                made = id_token.fetch_id_token_credentials(audience, request)  # type: ignore[no-untyped-call]
            made.refresh(request)
        except (exceptions.GoogleAuthError, ValueError) as error:
            # The message of a malformed key file may quote it.
            raise GoogleError(f"these credentials cannot make one ({type(error).__name__}).") from None
        return str(made.token)

    def _nobody_can(self, audience: str, refusals: list[str]) -> GoogleError:
        account = self._invoker or "the stack's invoker account"
        return GoogleError(
            f"No identity token for {audience} could be made, so the service cannot be asked. Grant {CREATOR_ROLE} on "
            f"{account} to the caller (setting access.deployers does), or sign in with a service account that has "
            f"roles/run.invoker on the service. Tried {'; '.join(refusals)}",
            status=403,
            reason="NO_IDENTITY_TOKEN",
        )


def expiry(token: str) -> float:
    """Return when a token expires, in seconds since 1970; 0 where it does not say. The signature is not checked."""
    try:
        part = token.split(".")[1]
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def gcloud_token(audience: str) -> str:
    """Return gcloud's identity token. A service account's carries the audience; a person's cannot."""
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        raise GoogleError("it is not installed.")
    why = "it gave none."
    for audiences in ([f"--audiences={audience}"], []):
        try:
            done = subprocess.run(  # noqa: S603 - a fixed command, no shell
                [gcloud, "auth", "print-identity-token", *audiences],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GoogleError("it did not answer within 60 s.") from None
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
        why = " ".join(done.stderr.split())[:300] or why
    raise GoogleError(why)


def outlast_fresh_grants(
    ask: Callable[[], int],
    *,
    tokens: IdentityTokens,
    grace_s: float = GRACE_S,
    pause_s: float = PAUSE_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Call `ask` until its HTTP status is neither 401 nor 403, each time with a new token, for at most `grace_s`.

    IAM needs minutes to act on a new grant. Returns the last status.
    """
    deadline = clock() + grace_s
    while (status := ask()) in (401, 403) and clock() + pause_s <= deadline:
        sleep(pause_s)
        tokens.forget()
    return status
