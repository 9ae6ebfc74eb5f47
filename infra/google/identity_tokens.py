"""Identity tokens for a service behind IAM, for every kind of credential that people and pipelines have.

Impersonating the stack's invoker account comes first: it works for a person, a service account and workload identity
federation alike. Then the caller's own identity, then gcloud. All of them use the service's base URL as the audience.
The invoker's grant may be minutes old and not count yet: until `GRACE_S` after it was first refused, it is tried again now
and then. After a refused token call `forget`: the next one is tried the first way again at once.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

from infra.errors import GoogleError
from infra.google.api_errors import is_transient
from infra.google.credentials import key_info
from infra.google.provider_settings import Api
from infra.google.session import GoogleSession

RENEW_BEFORE_S = 300  # tokens live an hour; one with less than this left is not handed out
GRACE_S = 300.0  # a fresh grant may take minutes to count
PAUSE_S = 10.0
CREATOR_ROLE = "roles/iam.serviceAccountOpenIdTokenCreator"


class IdentityTokens:
    """`own` and `gcloud` make a token for an audience or raise GoogleError; tests put their own in."""

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
        self._refused_since: float | None = None
        """When impersonation was refused first; None before that, and once it has worked."""
        self._refused_at = 0.0
        self.way = ""
        """How the last token was made and what failed before, in words; empty before the first."""

    def token(self, audience: str) -> str:
        """A token for a service's base URL, good for five more minutes at least; GoogleError names the missing role."""
        kept = self._kept.get(audience)
        if not kept or expiry(kept) - self._session.clock() <= RENEW_BEFORE_S:
            kept = self._made(audience)
        elif self._may_count_by_now():
            kept = self._better(audience) or kept
        self._kept[audience] = kept
        return kept

    def forget(self) -> None:
        """Drop all tokens, so that the next one is made by whatever is allowed by then."""
        self._kept.clear()

    def _may_count_by_now(self) -> bool:
        """Whether a grant for the invoker may have come to count since impersonation was refused last."""
        now = self._session.clock()
        return (
            self._refused_since is not None
            and now - self._refused_since <= GRACE_S
            and now - self._refused_at >= PAUSE_S
        )

    def _better(self, audience: str) -> str | None:
        """The invoker's token, None where impersonation is refused still."""
        try:
            token = self._impersonated(audience)
        except GoogleError:
            return None
        self.way = f"made acting as {self._invoker}"
        return token

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
        """A service account's key and a machine inside Google Cloud can; a person's or a federated login cannot."""
        from google.auth import exceptions
        from google.auth.transport.requests import Request
        from google.oauth2 import id_token, service_account

        access = self._session.access
        if access.access_token or access.impersonate:
            raise GoogleError("an access token alone cannot be turned into an identity token.")
        request = Request()
        try:
            if access.credentials:
                made = service_account.IDTokenCredentials.from_service_account_info(  # type: ignore[no-untyped-call]
                    key_info(access.credentials), target_audience=audience
                )
            else:
                made = id_token.fetch_id_token_credentials(audience, request)  # type: ignore[no-untyped-call]
            made.refresh(request)
        except (exceptions.GoogleAuthError, ValueError) as error:
            # The message of a malformed key file may quote it.
            raise GoogleError(f"these credentials make none ({type(error).__name__}).") from None
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
    """When a token ends, in seconds since 1970; 0 where it does not say. The signature is not checked."""
    try:
        part = token.split(".")[1]
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def gcloud_token(audience: str) -> str:
    """gcloud's own identity token. Only a service account's can carry an audience; a person's is taken as it is."""
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
    """Ask again while the HTTP status is 401 or 403, each time with a fresh token, for at most `grace_s`.

    IAM needs minutes to act on a new grant. Returns the last status.
    """
    deadline = clock() + grace_s
    while (status := ask()) in (401, 403) and clock() + pause_s <= deadline:
        sleep(pause_s)
        tokens.forget()
    return status
