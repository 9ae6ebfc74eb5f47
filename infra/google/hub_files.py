"""A repository on Hugging Face: its commit, which files it has, and ranges of their bytes.

The token goes to the Hub's own scheme, host and port, never to what the Hub redirects to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from infra.errors import GoogleError
from infra.google.session import keep_authorization
from infra.google.upstream_versions import HUGGING_FACE

if TYPE_CHECKING:
    import requests

_TIMEOUT = (5, 30)
_MOST_REDIRECTS = 5
_MOST_LISTING_BYTES = 16 * 1024**2
_REDIRECTS = (301, 302, 303, 307, 308)


class HubRepository:
    """One commit of a repository. `sizes` are its files' by name; `closed` says that only a token gets them."""

    def __init__(self, name: str, revision: str = "main", *, token: str = "", hub: str = HUGGING_FACE) -> None:
        import requests

        self._name, self._token, self._hub = name, token, hub.rstrip("/")
        self._http = requests.Session()
        self._http.auth = keep_authorization
        url = f"{self._hub}/api/models/{quote(name)}/revision/{quote(revision, safe='')}?blobs=true"
        listing = self._read(url, f"revision {revision}", most=_MOST_LISTING_BYTES, byte_range="")
        try:
            import json

            answer = json.loads(listing)
            self.commit = str(answer["sha"])
            self.sizes = {str(row["rfilename"]): int(row["size"]) for row in answer["siblings"]}
            self.closed = bool(answer.get("gated")) or bool(answer.get("private"))
        except (ValueError, KeyError, TypeError, AttributeError):
            fact = f"{self._hub} does not list the files of {name} in a form that is known."
            raise GoogleError(f"{fact} Try again later; is it a Hugging Face Hub?") from None

    def read(self, file: str, start: int, length: int) -> bytes:
        """Return `length` bytes of a file from `start` on, fewer where it ends before. Raises GoogleError."""
        url = f"{self._hub}/{quote(self._name)}/resolve/{self.commit}/{quote(file)}"
        content = self._read(
            url, file, most=start + length, byte_range=f"bytes={start}-{start + length - 1}", start=start
        )
        return content[:length]

    def _read(self, url: str, what: str, *, most: int, byte_range: str, start: int = 0) -> bytes:
        """Return the body of a GET, of a whole file only what `byte_range` asks for. Reads no more than `most` bytes."""
        import requests

        try:
            response = self._answer(url, what, {"Range": byte_range} if byte_range else {})
            with response:
                skipped = 0 if response.status_code == 206 else start  # the server ignores ranges: read up to there
                wanted, content = most - start + skipped, bytearray()
                for piece in response.iter_content(64 * 1024):
                    content += piece
                    if len(content) >= wanted:
                        break
                return bytes(content[skipped:wanted])
        except requests.RequestException as error:
            reason = f"{self._hub} could not be reached ({type(error).__name__}); this needs the internet."
            raise GoogleError(reason, reason="UNREACHABLE") from None

    def _answer(self, url: str, what: str, headers: Mapping[str, str]) -> requests.Response:
        for _ in range(_MOST_REDIRECTS + 1):
            own = _origin(url) == _origin(self._hub)
            authorization = {"Authorization": f"Bearer {self._token}"} if self._token and own else {}
            response = self._http.get(
                url,
                headers={**headers, **authorization, "Accept-Encoding": "identity"},
                timeout=_TIMEOUT,
                allow_redirects=False,
                stream=True,
            )
            if response.status_code not in _REDIRECTS:
                self._refuse(response, what)
                return response
            response.close()
            url = urljoin(url, response.headers.get("Location", ""))
            if urlsplit(url).scheme != urlsplit(self._hub).scheme:
                raise GoogleError(f"{self._hub} sends {what} to an address without https. It was not followed.")
        raise GoogleError(f"{self._hub} redirects {what} again and again. Try again later.")

    def _refuse(self, response: requests.Response, what: str) -> None:
        """Raise what keeps the file from being read: a missing or wrong token, a licence, a missing repository."""
        status, page = response.status_code, f"https://huggingface.co/{self._name}"
        if status in (200, 206):
            return
        why = response.headers.get("X-Error-Code", "")
        response.close()
        if status == 401 and self._token and why not in ("RepoNotFound", "GatedRepo"):
            text = "Hugging Face does not accept HF_TOKEN: it is wrong, expired or revoked. Make one with read access"
        elif status == 403 or why == "GatedRepo":
            text = f"{self._name} is gated: accept the licence at {page}, and set HF_TOKEN to a token of that account"
        elif status in (401, 404):
            text = f"there is no {what} of {self._name} on Hugging Face, or it is private: check the spelling"
            text += "" if self._token else ", or set HF_TOKEN to a token that may read it"
        else:
            text = f"Hugging Face answered {status} for {what} of {self._name}; try again later"
        raise GoogleError(f"{text}.", status=status)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
