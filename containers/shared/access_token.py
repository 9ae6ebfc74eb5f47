"""The access token that Google's metadata server gives for the service account of a machine or job."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105  a place, not a token
METADATA_HEADERS = {"Metadata-Flavor": "Google"}
SPARE_S = 300.0
"""A token is renewed so long before it ends."""


class AccessToken:
    """One token, fetched when it is first needed and again before it ends. Shared by all threads.

    `fetch` returns the metadata server's answer, a JSON object with `access_token` and `expires_in`.
    """

    def __init__(self, fetch: Callable[[], bytes]) -> None:
        self._fetch, self._lock = fetch, threading.Lock()
        self._token, self._ends = "", 0.0

    def value(self) -> str:
        """Return a token that is good for some minutes. Raises what `fetch` raises, ValueError for another answer."""
        with self._lock:
            if time.monotonic() >= self._ends:
                try:
                    answer = json.loads(self._fetch())
                    self._token, lasts_s = str(answer["access_token"]), float(answer["expires_in"])
                except (KeyError, TypeError):
                    raise ValueError("an answer without a token") from None
                self._ends = time.monotonic() + lasts_s - SPARE_S
            return self._token

    def forget(self) -> None:
        """Drop a token that was refused; the next one is fresh."""
        with self._lock:
            self._ends = 0.0
