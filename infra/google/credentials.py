"""google-auth's credentials, chosen as the gcp provider chooses them, and refreshed when they expire."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

from infra.errors import GoogleError
from infra.google.api_errors import ApiCall, credentials_expired, error_from_answer, not_sent
from infra.google.gcp_settings import Api, GcpSettings

KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
NO_CREDENTIALS = (
    "No Google credentials were found, so nothing can be asked of Google; "
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS or gcp:credentials."
)


class Credentials:
    """An access token that renews itself where it can. The credentials are loaded at the first request."""

    def __init__(self, gcp: GcpSettings, timeout_s: float | None = None) -> None:
        """`timeout_s` is the longest wait for a token; None leaves it to google-auth, which waits for two minutes."""
        self._gcp = gcp
        self._timeout_s = timeout_s
        self._loaded: Any = None
        self._transport: Any = None

    def apply(self, headers: MutableMapping[str, str], call: ApiCall) -> None:
        """Write into `headers` the authorization, and the quota project of a person's credentials."""
        loaded = self._load()
        if not loaded.valid:
            self.renew(call)
        # Not `before_request`: it would ask googleapis.com for access boundaries even where endpoints are overridden.
        loaded.apply(headers)

    def renew(self, call: ApiCall) -> None:
        """Get a new access token. Raises GoogleError: status 401 for expired credentials, 0 where no server answered."""
        from google.auth import exceptions

        try:
            self._load().refresh(self._request())
        except exceptions.TransportError as error:
            raise not_sent(call, f"no access token could be made: {type(error).__name__}") from None
        except exceptions.RefreshError as error:
            raise self._refusal(error, call) from None

    def member(self) -> str:
        """Return who calls, as grants name it: serviceAccount:app@project.iam.gserviceaccount.com; empty where the credentials
        do not tell, as an access token and most logins of people do not. Raises GoogleError without credentials."""
        if self._gcp.impersonate:
            return f"serviceAccount:{self._gcp.impersonate}"
        loaded = self._load()
        email = str(getattr(loaded, "service_account_email", "") or "")
        if "@" in email:  # on a machine of Google it is `default` until a token was made
            return f"serviceAccount:{email}"
        account = str(getattr(loaded, "account", "") or "")
        return f"user:{account}" if "@" in account else ""

    def _load(self) -> Any:
        if self._loaded is None:
            source = _source(self._gcp)
            self._loaded = _impersonated(source, self._gcp) if self._gcp.impersonate else source
        return self._loaded

    def _request(self) -> Any:
        if self._transport is None:
            from google.auth.transport.requests import Request

            request = Request()
            self._transport = request if self._timeout_s is None else partial(request, timeout=self._timeout_s)
        return self._transport

    def _refusal(self, error: Exception, call: ApiCall) -> GoogleError:
        if getattr(error, "retryable", False):
            return not_sent(call, "no access token could be made: the token server has a problem")
        body = _json(error.args[1]) if len(error.args) > 1 else None
        code = (body or {}).get("error")
        if self._gcp.impersonate and isinstance(code, dict):
            about = ApiCall(f"acting as {self._gcp.impersonate}", Api.IAM_CREDENTIALS.service, call.project)
            return error_from_answer(int(code.get("code", 403)), body, about)
        return credentials_expired(call, code if isinstance(code, str) else "")


def key_info(credentials: str) -> dict[str, Any]:
    """Return the content of `gcp:credentials`, given as JSON or as a path. Raises GoogleError if it is neither."""
    text = credentials
    if not credentials.lstrip().startswith("{"):
        try:
            text = Path(credentials).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            raise GoogleError(
                f"gcp:credentials names a file that cannot be read ({error.strerror}), so nobody is signed in; "
                "give the path of a key file, or its JSON."
            ) from None
    info = _json(text)
    if info is None:
        raise GoogleError(
            "gcp:credentials does not hold a JSON object, so nobody is signed in; give a key file or its JSON."
        )
    return info


def _source(gcp: GcpSettings) -> Any:
    from google.oauth2.credentials import Credentials as BearerOnly

    if gcp.access_token:
        return BearerOnly(token=gcp.access_token)  # type: ignore[no-untyped-call]
    info = key_info(gcp.credentials) if gcp.credentials else None
    # The library warns of key files from untrusted sources and of logins without a quota project: noise in a deployment.
    with warnings.catch_warnings(action="ignore"):
        return _from_files(info)


def _from_files(info: dict[str, Any] | None) -> Any:
    from google.auth import default, exceptions, load_credentials_from_dict

    named = os.environ.get(KEY_FILE, "")
    if info is None and named and not Path(named).is_file():
        raise GoogleError(
            f"{KEY_FILE} names {named}, and there is no such file, so nobody is signed in; name the file that is meant, "
            f"or unset it and run `gcloud auth application-default login`.",
            status=401,
            reason="UNAUTHENTICATED",
        )
    try:
        if info is not None:
            return load_credentials_from_dict(info, scopes=[SCOPE])[0]  # type: ignore[no-untyped-call]
        return default(scopes=[SCOPE])[0]
    except exceptions.DefaultCredentialsError:
        said = f"{KEY_FILE} names {named}, which holds no credentials. " if info is None and named else ""
        raise GoogleError(said + NO_CREDENTIALS, status=401, reason="UNAUTHENTICATED") from None


def _impersonated(source: Any, gcp: GcpSettings) -> Any:
    from google.auth.impersonated_credentials import Credentials as Impersonated

    path = f"projects/-/serviceAccounts/{gcp.impersonate}:generateAccessToken"
    return Impersonated(  # type: ignore[no-untyped-call]
        source_credentials=source,
        target_principal=gcp.impersonate,
        target_scopes=[SCOPE],
        iam_endpoint_override=gcp.url(Api.IAM_CREDENTIALS, path),
    )


def _json(text: Any) -> dict[str, Any] | None:
    if isinstance(text, dict):
        return text
    try:
        parsed = json.loads(text)
    except (TypeError, ValueError):
        return None
    return parsed if isinstance(parsed, dict) else None
