"""The metadata server: attributes of the node and their changes, access tokens, and the guest attributes to report by."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from containers.shared.access_token import METADATA_HEADERS, AccessToken
from containers.shared.web import Reply, TransientError, backoff, call

from .log import Log
from .supervisor_settings import SupervisorSettings

SPEC = "attributes/gemma4-spec"
SUPERVISOR = "attributes/gemma4-supervisor"
LOG = "attributes/gemma4-log"
MEMBER = "attributes/gemma4-member"
DRAIN = "attributes/gemma4-drain"
MAINTENANCE = "upcoming-maintenance?alt=json&recursive=true"
ADDRESS = "network-interfaces/0/ip"
REPORT = "guest-attributes/gemma4/status"
ANSWER_S = 10.0

T = TypeVar("T")
OnMainThread = Callable[[Callable[[], None]], None]
"""Has a function called on the main thread."""


class MetadataServer:
    """Reads and writes what stands below `instance/`. All threads share it."""

    def __init__(self, settings: SupervisorSettings, log: Log) -> None:
        self._root = f"http://{settings.metadata_host}/computeMetadata/v1/instance/"
        self._log = log
        self._token = AccessToken(lambda: self._ask("GET", "service-accounts/default/token", ANSWER_S).body)

    def read(self, path: str) -> str | None:
        """Return the value at `path`, None where there is none. Raises TransientError."""
        reply = self._ask("GET", path, ANSWER_S)
        return None if reply.status == 404 else reply.text

    def wait(self, path: str, etag: str, wait_s: float) -> tuple[str | None, str]:
        """Return value and etag once the etag is not the given one any more, or after `wait_s`. Raises TransientError."""
        question = f"wait_for_change=true&last_etag={quote(etag)}&timeout_sec={max(1, round(wait_s))}"
        reply = self._ask("GET", f"{path}{'&' if '?' in path else '?'}{question}", wait_s + ANSWER_S)
        return (None, "NONE") if reply.status == 404 else (reply.text, reply.headers.get("etag", "NONE"))

    def token(self) -> str:
        """Return an access token of the machine's service account, good for some minutes. Raises TransientError."""
        try:
            return self._log.hide(self._token.value())
        except ValueError:
            raise TransientError("the metadata server gives no token: has the node a service account?") from None

    def forget_token(self) -> None:
        """Drop a token that was refused; the next one is fresh."""
        self._token.forget()

    def ask_google(self, method: str, url: str, *, timeout_s: float, body: Any = None) -> Reply:
        """Send a request to an API of Google as the machine's service account, `body` as JSON. Raises TransientError.

        A token that was refused is forgotten: the next request has a fresh one.
        """
        headers = {"Authorization": f"Bearer {self.token()}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        reply = call(method, url, timeout_s=timeout_s, headers=headers, body=data)
        if reply.status == 401:
            self.forget_token()
        return reply

    def address(self) -> str:
        """Return the machine's address in the VPC. Raises TransientError."""
        address = self.read(ADDRESS)
        if not address:
            raise TransientError("the metadata server names no address of this machine")
        return address.strip()

    def publish(self, text: str) -> None:
        """Write the status into the guest attributes. Raises TransientError, also where these are switched off."""
        reply = self._ask("PUT", REPORT, ANSWER_S, text.encode())
        if reply.status not in (200, 202, 204):
            raise TransientError(f"guest attributes answer HTTP {reply.status}; are they enabled on the node?")

    def _ask(self, method: str, path: str, timeout_s: float, body: bytes | None = None) -> Reply:
        reply = call(method, self._root + path, timeout_s=timeout_s, headers=METADATA_HEADERS, body=body)
        if method == "GET" and reply.status not in (200, 404):
            raise TransientError(f"the metadata server answers HTTP {reply.status}")
        if reply.status == 200 and reply.headers.get("metadata-flavor") != "Google":
            raise TransientError("what answers is not the metadata server")
        return reply


class AttributeWatch(threading.Thread):
    """Has `changed` called with a value, None where there is none: at first, and after every change.

    Has `trouble` called with a sentence when the server cannot be reached, with "" when it can again. With `forgets`, a value
    that cannot be read counts as none meanwhile.
    """

    def __init__(
        self, settings: SupervisorSettings, metadata: MetadataServer, on_main_thread: OnMainThread, path: str,
        changed: Callable[[str | None], None], trouble: Callable[[str], None] = lambda text: None,
        forgets: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name=f"watch {path}", daemon=True)
        self._settings, self._metadata, self._path = settings, metadata, path
        self._on_main_thread, self._changed, self._trouble = on_main_thread, changed, trouble
        self._forgets = forgets

    def run(self) -> None:
        """Watch for ever."""
        etag, known, failures = "NONE", "", 0
        while True:
            try:
                value, etag = self._metadata.wait(self._path, etag, self._settings.watch_s)
            except TransientError as error:
                failures, etag = failures + 1, "NONE"
                self._tell(self._trouble, str(error))
                if self._forgets and known != "absent":
                    known = "absent"
                    self._tell(self._changed, None)
                time.sleep(backoff(self._settings.retry_s, 30, failures))
                continue
            if failures:
                failures = 0
                self._tell(self._trouble, "")
            mark = "absent" if value is None else f"={value}"
            is_new, known = mark != known, mark
            if is_new:
                self._tell(self._changed, value)
            if value is None or not is_new:
                # The change of an absent attribute cannot be waited for, and nobody says so of announced maintenance.
                time.sleep(self._settings.retry_s)

    def _tell(self, act: Callable[[T], None], value: T) -> None:
        self._on_main_thread(lambda: act(value))


def announced(text: str | None) -> str | None:
    """Return the maintenance that Google announces, None where the value of MAINTENANCE announces nothing.

    Then the server answers 404, 503 with an error, `NONE` or an empty object. None of these means that anything is wrong.
    """
    try:
        notice = json.loads(text or "null")
    except ValueError:
        return None
    return json.dumps(notice) if isinstance(notice, dict) and notice and "error" not in notice else None
