"""Calls Google's APIs: endpoint, credentials, time-outs, and repetition only where it is safe.

GET and DELETE are repeated on 429 (a rate limit, not a quota), 500, 502, 503, 504 and a broken connection, with growing
pauses or the pause that `Retry-After` asks for. POST and PATCH are sent once, unless the caller gives a request id, which
Google recognises, or says that repeating does no harm. A request that was certainly never sent may always be repeated.
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
    ApiCall,
    bad_address,
    error_from_answer,
    is_ambiguous,
    is_transient,
    maybe_done_error,
    not_sent,
    unreachable,
)
from infra.google.credentials import Credentials
from infra.google.gcp_settings import Api, GcpSettings

if TYPE_CHECKING:
    import requests


@dataclass(frozen=True)
class Retry:
    """Pauses between attempts double from `first_s` up to `cap_s`; each is shortened by up to half at random."""

    attempts: int = 6
    first_s: float = 1.0
    cap_s: float = 30.0
    retry_after_cap_s: float = 60.0

    def pause_s(self, attempt: int, asked_s: float | None, chance: float) -> float:
        """Return the pause after an attempt, counted from 1. `asked_s` is what the server asks for; `chance` is in [0, 1)."""
        if asked_s is not None:
            return min(asked_s, self.retry_after_cap_s)
        return min(self.first_s * 2.0 ** (attempt - 1), self.cap_s) * (1 - chance / 2)


@dataclass(frozen=True)
class Timeouts:
    """Seconds to connect to each address of a host, and between two bytes of an answer.

    Once no API has answered for `silence_s`, all attempts together, no further request is sent; None sets no such limit.
    """

    connect_s: float = 10.0
    read_s: float = 60.0
    silence_s: float | None = None


QUICK, ONCE_MORE = Timeouts(connect_s=3.0, read_s=10.0, silence_s=10.0), Retry(attempts=2, first_s=0.5)
"""For a question that somebody waits for: without a network it fails within seconds."""


@dataclass(frozen=True)
class _Request:
    method: str
    api: Api
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    repeatable: bool = False
    byte_range: str = ""


@dataclass(frozen=True)
class _Failure:
    """`answered`: the API itself refused, rather than the token server; False where no server answered."""

    error: GoogleError
    answered: bool = False
    retry_after_s: float | None = None


class GoogleSession:
    """One thread's way to Google's APIs. Tests replace `sleep` and `clock` (seconds since 1970) in order not to wait."""

    def __init__(
        self,
        gcp: GcpSettings,
        *,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.gcp = gcp
        self.sleep = sleep
        self.clock = clock
        self._retry = retry or Retry()
        self.timeouts = timeouts or Timeouts()
        self._credentials = Credentials(gcp, None if self.timeouts.silence_s is None else self.timeouts.read_s)
        self._silent_s = 0.0
        self._answered: set[Api] = set()
        self._silent: set[Api] = set()  # APIs that never answered, although a request went through all its attempts
        self._http: requests.Session | None = None

    @property
    def project(self) -> str:
        """The project that calls are made for. Raises GoogleError where none is set."""
        return self.gcp.required_project()

    @property
    def caller(self) -> str:
        """Who calls, as grants name it; empty where the credentials do not tell. Raises GoogleError without credentials."""
        return self._credentials.member()

    def get(self, api: Api, path: str, **params: str) -> dict[str, Any]:
        return _object(self._send(_Request("GET", api, path, params, repeatable=True)), api)

    def delete(self, api: Api, path: str, **params: str) -> dict[str, Any]:
        """Send a DELETE. Where the first answer was lost, the repetition gets a 404, which the caller takes for done."""
        return _object(self._send(_Request("DELETE", api, path, params, repeatable=True)), api)

    def patch(self, api: Api, path: str, body: Mapping[str, Any], **params: str) -> dict[str, Any]:
        """Send a PATCH once: only the caller knows what a second one would overwrite."""
        return _object(self._send(_Request("PATCH", api, path, params, body)), api)

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
        """Send a POST. `request_id`, the API's `requestId`, makes repeating safe; `repeatable` says that it only reads."""
        if request_id:
            params["requestId"] = request_id
        request = _Request("POST", api, path, params, body, repeatable=repeatable or bool(request_id))
        return _object(self._send(request), api)

    def download(self, api: Api, path: str, *, byte_range: str = "", **params: str) -> bytes:
        """Return the content of a GET whose answer is not JSON, or a range of it such as `bytes=0-99`. All of it is held in
        memory."""
        return self._send(_Request("GET", api, path, params, repeatable=True, byte_range=byte_range)).content

    def pages(self, api: Api, path: str, **params: str) -> Iterator[dict[str, Any]]:
        """Yield every page of a listing, one GET each."""
        token = ""
        while True:
            page = self.get(api, path, **params, **({"pageToken": token} if token else {}))
            yield page
            token = str(page.get("nextPageToken") or "")
            if not token:
                return

    def _send(self, request: _Request) -> requests.Response:
        doubts: list[GoogleError] = []
        try:
            return self._repeat(request, doubts)
        except GoogleError as error:
            raise maybe_done_error(error) if doubts and "requestId" in request.params else error from None

    def _repeat(self, request: _Request, doubts: list[GoogleError]) -> requests.Response:
        """Send, and repeat where that is safe. `doubts` collects errors of attempts that may have been carried out."""
        words = f"{request.method} {'/'.join(request.path.split('/')[-2:])}"  # DELETE queuedResources/blue
        call = ApiCall(words, request.api.service, self.gcp.project or "(none)")
        renewed = False
        attempt = 1
        while True:
            outcome = self._attempt_in_time(request, call)
            if not isinstance(outcome, _Failure):
                return outcome
            error = outcome.error
            if error.status == 401 and outcome.answered and not renewed and not self.gcp.access_token:
                renewed = True
                self._credentials.renew(call)
                continue
            repeatable = request.repeatable or error.reason == NOT_SENT
            if (
                not repeatable
                or not is_transient(error)
                or attempt >= self._retry.attempts
                or self._given_up(request.api)
            ):
                self._silent |= {request.api} - self._answered if error.reason in NO_ANSWER else set()
                raise error
            doubts += [error] if is_ambiguous(error) else []
            self.sleep(self._retry.pause_s(attempt, outcome.retry_after_s, random.random()))  # noqa: S311
            attempt += 1

    def _given_up(self, api: Api) -> bool:
        """Return whether no further request goes to `api`: it never answered, or no API answered for `silence_s`.

        An API that has answered before is asked again, since a single zone of Google's may have a problem.
        """
        bound_s = self.timeouts.silence_s
        return bound_s is not None and (api in self._silent or (not self._answered and self._silent_s >= bound_s))

    def _attempt_in_time(self, request: _Request, call: ApiCall) -> requests.Response | _Failure:
        if self._given_up(request.api):
            return _Failure(not_sent(call, "nothing answered before"))
        began = self.clock()
        outcome = self._attempt(request, call)
        if isinstance(outcome, _Failure) and outcome.error.reason in NO_ANSWER:
            self._silent_s += self.clock() - began
        else:
            self._answered.add(request.api)
        return outcome

    def _attempt(self, request: _Request, call: ApiCall) -> requests.Response | _Failure:
        import requests

        headers = {"Accept": "application/json"}
        if self.gcp.quota_project:
            headers["x-goog-user-project"] = self.gcp.quota_project
        if request.byte_range:
            headers["Range"] = request.byte_range
        try:
            self._credentials.apply(headers, call)
            response = self._session().request(
                request.method,
                self.gcp.url(request.api, request.path),
                params=dict(request.params),
                json=request.body,
                headers=headers,
                timeout=(self.timeouts.connect_s, self.timeouts.read_s),
                allow_redirects=False,
            )
        except (
            requests.exceptions.InvalidURL,
            requests.exceptions.InvalidSchema,
            requests.exceptions.MissingSchema,
        ) as error:
            return _Failure(bad_address(call, type(error).__name__, _proxy_variable()))
        except requests.exceptions.ProxyError:  # the tunnel to Google was never made
            return _Failure(not_sent(call, f"no way through the proxy of {_proxy_variable() or 'the system'}"))
        except requests.RequestException as error:
            why = type(error).__name__
            return _Failure(not_sent(call, why) if _never_connected(error) else unreachable(call, why))
        except GoogleError as error:
            return _Failure(error)
        if response.ok and not response.is_redirect:
            return response
        refusal = error_from_answer(response.status_code, _parsed(response), call)
        return _Failure(refusal, answered=True, retry_after_s=_retry_after_s(response, self.clock()))

    def _session(self) -> requests.Session:
        if self._http is None:
            import requests

            self._http = requests.Session()
            self._http.auth = keep_authorization
        return self._http


def keep_authorization(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return the request unchanged, as `auth` of `requests`: without it an entry of ~/.netrc would replace the token."""
    return request


def _never_connected(error: requests.RequestException) -> bool:
    """Return whether no connection was made, as opposed to one that broke after the request was sent."""
    from requests import ConnectTimeout
    from urllib3.exceptions import NewConnectionError

    cause = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, ConnectTimeout) or isinstance(cause, NewConnectionError)


def _proxy_variable() -> str:
    """Return the name of the environment variable that sets a proxy, never its value, which may hold a password."""
    names = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")
    return next((name for name in names if os.environ.get(name)), "")


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
            f"{api.service} answered with something that is not a JSON object, so its answer cannot be used; "
            "a proxy or a custom endpoint may stand in between.",
            status=response.status_code,
            reason="NOT_JSON",
            maybe_done=True,
        )
    return parsed


def _retry_after_s(response: requests.Response, now: float) -> float | None:
    """Return the seconds that the server asks to wait, None where it does not: the header holds a number or a date."""
    value = response.headers.get("Retry-After", "").strip()
    if not value or value.isdecimal():
        return float(value) if value else None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None
