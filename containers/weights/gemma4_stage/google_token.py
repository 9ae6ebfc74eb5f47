"""The Google access token of the job's service account, or one that the environment gives."""

from __future__ import annotations

from containers.shared.access_token import METADATA_HEADERS, TOKEN_PATH, AccessToken

from .connections import Connections
from .exit_codes import CopyFailure, ExitCode
from .job_log import hide
from .retries import Retries, retry

ANSWER_S = 10.0


class GoogleToken:
    """One token, shared by all threads."""

    def __init__(self, fixed: str, metadata_endpoint: str, retries: Retries) -> None:
        url, connections = metadata_endpoint + TOKEN_PATH, Connections(ANSWER_S)
        self._fixed = fixed
        self._token = AccessToken(lambda: retry(retries, lambda: connections.call("GET", url, METADATA_HEADERS)).body)

    def headers(self) -> dict[str, str]:
        """Return the header that a request to the bucket needs. Raises CopyFailure where there is no token."""
        try:
            token = self._fixed or self._token.value()
        except (CopyFailure, ValueError) as error:
            fact = "The metadata server gives no Google access token. Does the job have a service account? "
            fix = "Outside Google Cloud, set GOOGLE_OAUTH_ACCESS_TOKEN."
            raise CopyFailure(ExitCode.BUCKET, fact + fix) from error
        hide(token)
        return {"Authorization": f"Bearer {token}"}

    def renew(self) -> bool:
        """Drop a token that was refused; returns False where there can be no other."""
        self._token.forget()
        return not self._fixed
