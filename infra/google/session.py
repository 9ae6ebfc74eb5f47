"""One way to call a Google API: endpoint, credentials, time-outs, and repetition only where it is safe.

GET, PUT and DELETE are repeated on 429 (a rate, not a quota), 500, 502, 503, 504 and a broken connection, with growing
pauses or the one that `Retry-After` asks for. POST and PATCH are sent once, unless the caller gives a request id, which
Google recognises, or says that repeating does no harm. What was certainly never sent may always be tried again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infra.errors import GoogleError
from infra.google.api_errors import (
    NO_ANSWER,
    NOT_SENT,
    Asked,
    after_silence,
    explain,
    is_ambiguous,
    is_transient,
    no_address,
    not_sent,
    unreachable,
)
from infra.google.credentials import Credentials
from infra.google.provider_settings import Access, Api

if TYPE_CHECKING:
    import requests

IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})


@dataclass(frozen=True)
class Retry:
    """Pauses grow from `first_s` by doubling up to `cap_s`, each shortened by up to half at random."""

    attempts: int = 6
    first_s: float = 1.0
    cap_s: float = 30.0
    retry_after_cap_s: float = 60.0

    def pause_s(self, attempt: int, asked_s: float | None, chance: float) -> float:
        """`attempt` counts from 1, `asked_s` is what the server wants, `chance` lies in [0, 1)."""
        if asked_s is not None:
            return min(asked_s, self.retry_after_cap_s)
        return min(self.first_s * 2.0 ** (attempt - 1), self.cap_s) * (1 - chance / 2)


@dataclass(frozen=True)
class Timeouts:
    """Seconds to connect to each address of a host, and between two bytes of an answer. Where nothing at all has answered
    for `silence_s`, all attempts together, nothing more is asked; None asks on."""

    connect_s: float = 10.0
    read_s: float = 60.0
    silence_s: float | None = None


QUICK, ONCE_MORE = Timeouts(connect_s=3.0, read_s=10.0, silence_s=10.0), Retry(attempts=2, first_s=0.5)
"""For a question that somebody waits for: without a network it is given up within seconds."""


@dataclass(frozen=True)
class _Call:
    method: str
    api: Api
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    repeatable: bool = False


@dataclass(frozen=True)
class _Failure:
    """`answered`: the API itself said no, rather than nobody or the token server."""

    error: GoogleError
    answered: bool = False
    retry_after_s: float | None = None


class GoogleSession:
    """`sleep` and `clock` (seconds since 1970) are the tests' way not to wait. Not for several threads at once."""

    def __init__(
        self,
        access: Access,
        *,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.access = access
        self.sleep = sleep
        self.clock = clock
        self._retry = retry or Retry()
        self.timeouts = timeouts or Timeouts()
        self._credentials = Credentials(access, None if self.timeouts.silence_s is None else self.timeouts.read_s)
        self._silent_s = 0.0
        self._answered: set[Api] = set()
        self._silent: set[Api] = set()  # have never answered, nor a call with all its attempts
        self._http: requests.Session | None = None

    @property
    def project(self) -> str:
        """The project that calls are made for; GoogleError where none is set."""
        return self.access.required_project()

    def get(self, api: Api, path: str, **params: str) -> dict[str, Any]:
        return _object(self._send(_Call("GET", api, path, params, repeatable=True)), api)

    def delete(self, api: Api, path: str, **params: str) -> dict[str, Any]:
        """A repeated DELETE whose first answer was lost meets a 404, which the caller takes for done."""
        return _object(self._send(_Call("DELETE", api, path, params, repeatable=True)), api)

    def patch(self, api: Api, path: str, body: Mapping[str, Any], **params: str) -> dict[str, Any]:
        """Sent once: what a second PATCH would overwrite, only the caller knows."""
        return _object(self._send(_Call("PATCH", api, path, params, body)), api)

    def post(
        self,
        api: Api,
        path: str,
        body: Mapping[str, Any],
        *,
        request_id: str = "",
        repeatable: bool = False,
        **params: str,
    ) -> dict[str, Any]:
        """`request_id`, the API's `requestId`, makes repeating safe; `repeatable` is for mere questions."""
        if request_id:
            params["requestId"] = request_id
        call = _Call("POST", api, path, params, body, repeatable=repeatable or bool(request_id))
        return _object(self._send(call), api)

    def download(self, api: Api, path: str, **params: str) -> bytes:
        """A GET whose answer is no JSON. The whole content is held in memory."""
        return self._send(_Call("GET", api, path, params, repeatable=True)).content

    def pages(self, api: Api, path: str, **params: str) -> Iterator[dict[str, Any]]:
        """Every page of a listing, one GET each."""
        token = ""
        while True:
            page = self.get(api, path, **params, **({"pageToken": token} if token else {}))
            yield page
            token = str(page.get("nextPageToken") or "")
            if not token:
                return

    def _send(self, call: _Call) -> requests.Response:
        doubts: list[GoogleError] = []
        try:
            return self._repeat(call, doubts)
        except GoogleError as error:
            raise after_silence(error) if doubts and "requestId" in call.params else error from None

    def _repeat(self, call: _Call, doubts: list[GoogleError]) -> requests.Response:
        """`doubts` gets what ended attempts before the last one that may have been carried out."""
        asked = Asked(_spoken(call), call.api.service, self.access.project or "(none)")
        renewed = False
        attempt = 1
        while True:
            outcome = self._attempt_in_time(call, asked)
            if not isinstance(outcome, _Failure):
                return outcome
            error = outcome.error
            if error.status == 401 and outcome.answered and not renewed and not self.access.access_token:
                renewed = True
                self._credentials.renew(asked)
                continue
            repeatable = call.repeatable or error.reason == NOT_SENT
            if not repeatable or not is_transient(error) or attempt >= self._retry.attempts or self._given_up(call.api):
                self._silent |= {call.api} - self._answered if error.reason in NO_ANSWER else set()
                raise error
            doubts += [error] if is_ambiguous(error) else []
            self.sleep(self._retry.pause_s(attempt, outcome.retry_after_s, random.random()))  # noqa: S311
            attempt += 1

    def _given_up(self, api: Api) -> bool:
        """Whether to ask no more: where silence is bounded, after an API that did not answer, or after too long a time in
        which none did. One that has answered may leave single questions open: a zone of Google's may be ill."""
        bound_s = self.timeouts.silence_s
        return bound_s is not None and (api in self._silent or (not self._answered and self._silent_s >= bound_s))

    def _attempt_in_time(self, call: _Call, asked: Asked) -> requests.Response | _Failure:
        if self._given_up(call.api):
            return _Failure(not_sent(asked, "nothing answered before"))
        began = self.clock()
        outcome = self._attempt(call, asked)
        if isinstance(outcome, _Failure) and outcome.error.reason in NO_ANSWER:
            self._silent_s += self.clock() - began
        else:
            self._answered.add(call.api)
        return outcome

    def _attempt(self, call: _Call, asked: Asked) -> requests.Response | _Failure:
        import requests

        try:
            response = self._session().request(
                call.method,
                self.access.url(call.api, call.path),
                params=dict(call.params),
                json=call.body,
                headers=self._headers(asked),
                timeout=(self.timeouts.connect_s, self.timeouts.read_s),
                allow_redirects=False,
            )
        except (
            requests.exceptions.InvalidURL,
            requests.exceptions.InvalidSchema,
            requests.exceptions.MissingSchema,
        ) as error:
            return _Failure(no_address(asked, type(error).__name__, _proxy_variable()))
        except requests.exceptions.ProxyError:  # the tunnel to Google never came about
            return _Failure(not_sent(asked, f"no way through the proxy of {_proxy_variable() or 'the system'}"))
        except requests.RequestException as error:
            why = type(error).__name__
            return _Failure(not_sent(asked, why) if _never_connected(error) else unreachable(asked, why))
        except GoogleError as error:
            return _Failure(error)
        if response.ok and not response.is_redirect:
            return response
        refusal = explain(response.status_code, _parsed(response), asked)
        return _Failure(refusal, answered=True, retry_after_s=_retry_after_s(response, self.clock()))

    def _headers(self, asked: Asked) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        self._credentials.apply(headers, asked)
        if self.access.quota_project:
            headers["x-goog-user-project"] = self.access.quota_project
        return headers

    def _session(self) -> requests.Session:
        if self._http is None:
            import requests

            self._http = requests.Session()
            self._http.auth = keep_authorization
        return self._http


def keep_authorization(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """The request as it is, for `requests`' argument `auth`: without one, an entry of ~/.netrc would replace our token."""
    return request


def _never_connected(error: requests.RequestException) -> bool:
    """Whether no connection came about, as opposed to one that broke with the request under way."""
    from requests import ConnectTimeout
    from urllib3.exceptions import NewConnectionError

    cause = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, ConnectTimeout) or isinstance(cause, NewConnectionError)


def _proxy_variable() -> str:
    """The environment variable that names a proxy, never its value: that may hold a password."""
    names = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")
    return next((name for name in names if os.environ.get(name)), "")


def _spoken(call: _Call) -> str:
    """`DELETE queuedResources/blue` for a path of six segments."""
    return f"{call.method} {'/'.join(call.path.split('/')[-2:])}"


def _parsed(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _object(response: requests.Response, api: Api) -> dict[str, Any]:
    if not response.content:
        return {}
    parsed = _parsed(response)
    if not isinstance(parsed, dict):
        raise GoogleError(
            f"{api.service} answered with something that is no JSON object, so its answer cannot be used; "
            "a proxy or a custom endpoint may stand in between.",
            status=response.status_code,
            reason="NOT_JSON",
            maybe_done=True,
        )
    return parsed


def _retry_after_s(response: requests.Response, now: float) -> float | None:
    """Seconds that the server asks to wait: the header holds a number or a date."""
    value = response.headers.get("Retry-After", "").strip()
    if not value or value.isdecimal():
        return float(value) if value else None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None
