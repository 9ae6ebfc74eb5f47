"""The Hugging Face side: which files a revision has, and their bytes."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from containers.shared.manifest import MANIFEST, SHA256, is_file_name
from containers.shared.web import TRANSIENT_ERRORS, TransientError

from .connections import REDIRECTS, Connections, origin, raise_unless_content, skip_to
from .exit_codes import CopyFailure, ExitCode
from .retries import Retries, retry

MD5 = "md5"
"""Key of the checksum that Cloud Storage keeps of the objects of another bucket."""
GIT_SHA1 = "git-sha1"
"""Key of git's blob id, in the manifest and in the metadata of objects."""

# What vLLM never reads. Weights in another format are dropped only where the same repository has safetensors.
SKIPPED_FOLDERS = ("original/", "onnx/", "gguf/", "litert/", ".")
SKIPPED_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".mp4", ".pdf")
OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".tflite", ".task", ".litertlm")


class ListedFile(NamedTuple):
    """One file as its source lists it. `algorithm` is SHA256 for LFS files of the Hub, GIT_SHA1 for all others there, MD5 in a
    bucket."""

    name: str
    size: int
    algorithm: str
    digest: str


class Hub:
    """One repository. For one thread."""

    def __init__(
        self, endpoint: str, repo: str, token: str, timeout_s: float, retries: Callable[[str], Retries]
    ) -> None:
        self._connections, self._endpoint, self._repo = Connections(timeout_s), endpoint, repo
        self._token, self._retries = token, retries

    def listing(self, revision: str) -> tuple[str, list[ListedFile]]:
        """Return the commit that `revision` stands for, and those of its files that serving needs."""
        url = f"{self._endpoint}/api/models/{quote(self._repo)}/revision/{quote(revision, safe='')}?blobs=true"

        def ask() -> Any:
            # All bytes are judged by the checksums of this list: only the Hub itself may give them.
            response, _ = self._connections.get(url, self._headers(), leaves=False)
            self._raise_refusal(response, f"revision {revision}")
            try:
                return json.loads(self._connections.read(response))
            except (ValueError, RecursionError):
                raise TransientError("an answer that is not JSON") from None

        answer = retry(self._retries("file list from Hugging Face"), ask)
        try:
            files = [listed_file(row) for row in needed_for_serving(check_names(answer["siblings"]))]
            commit = str(answer.get("sha") or revision)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            fact = f"{self._repo}: the Hub's file list does not have the expected form ({type(error).__name__})."
            raise CopyFailure(
                ExitCode.DISTRUST, f"{fact} Nothing was copied; is HF_ENDPOINT a Hugging Face Hub?"
            ) from None
        if not files:
            raise CopyFailure(ExitCode.NOT_FOUND, f"{self._repo} at {revision} has no files that could be served.")
        return commit, files

    def check_access(self, revision: str, file: ListedFile) -> None:
        """Ask for one byte of `file`, without following redirects. Raises CopyFailure where it may not be read."""

        def ask() -> None:
            headers = {**self._headers(), "Range": "bytes=0-0"}
            response = self._connections.send("GET", self._url(revision, file), headers)
            self._connections.close()  # unread: a server that ignores Range would send the whole file
            if response.status not in REDIRECTS:
                self._raise_refusal(response, file.name)

        retry(self._retries("access check at Hugging Face"), ask)

    def read(
        self, revision: str, file: ListedFile, room: Callable[[], memoryview], wrote: Callable[[memoryview], None]
    ) -> None:
        """Read a whole file into the memory that `room` returns, and go on where a connection broke off."""
        retries, offset = self._retries(f"{file.name}: download"), 0
        while offset < file.size:
            try:
                response = self._open(revision, file, offset)
                while offset < file.size:
                    view = room()
                    count = response.readinto(view)
                    if not count:
                        raise TransientError("the connection ended early")
                    wrote(view[:count])
                    offset += count
                    retries.progressed()
            except TRANSIENT_ERRORS as error:
                self._connections.close()
                retries.wait_after(error, f" at byte {offset}")

    def start_of(self, revision: str, file: ListedFile, size: int) -> bytes:
        """Return the first `size` bytes of a file, fewer where it has fewer."""

        def ask() -> bytes:
            response = self._open(revision, file, 0)
            try:
                start = response.read(min(size, file.size))
            finally:
                self._connections.close()  # the rest is not wanted
            if len(start) < min(size, file.size):
                raise TransientError("the connection ended early")
            return start

        return retry(self._retries(f"{file.name}: its first bytes"), ask)

    def _open(self, revision: str, file: ListedFile, offset: int) -> http.client.HTTPResponse:
        """Return the response with the content of `file` from `offset` on."""
        headers = {**self._headers(), **({"Range": f"bytes={offset}-"} if offset else {})}
        # Always from the Hub's own address: what it redirects to is signed and expires.
        response, final = self._connections.get(self._url(revision, file), headers)
        if response.status == 416:
            fact = f"{file.name}: size expected {file.size}, got {offset}: the source ends there. It was not stored."
            raise CopyFailure(ExitCode.MISMATCH, fact)
        if origin(final) == origin(self._endpoint):
            self._raise_refusal(response, file.name)
        raise_unless_content(response)
        return skip_to(response, offset)

    def _url(self, revision: str, file: ListedFile) -> str:
        return f"{self._endpoint}/{quote(self._repo)}/resolve/{quote(revision, safe='')}/{quote(file.name)}"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _raise_refusal(self, response: http.client.HTTPResponse, what: str) -> None:
        """Raise CopyFailure: a wrong token, a missing licence or a missing repository, as far as the Hub tells them apart."""
        status, why = response.status, response.getheader("X-Error-Code", "")
        if status in (200, 206):
            return
        self._connections.close()
        page = f"https://huggingface.co/{self._repo}"
        if status == 401 and self._token:
            code = ExitCode.TOKEN
            text = "Hugging Face does not accept the token: wrong, expired or revoked. Make one with read access."
        elif status == 403 and self._token:
            code = ExitCode.GATED
            text = "the model is gated, and the account of this token (which is valid) has no access to it. Accept the "
            text += f"licence at {page} with that account; a fine-grained token must also allow gated repositories."
        elif status == 403 or (status == 401 and why == "GatedRepo"):
            code = ExitCode.GATED
            text = f"the model is gated, and no token was given. Accept the licence at {page} and set HF_TOKEN."
        elif status in (401, 404):
            code = ExitCode.NOT_FOUND
            text = f"{what} not found on the Hub. Check the spelling of repository and revision."
            text += "" if self._token else " If it is private or gated, set HF_TOKEN."
        else:
            raise_unless_content(response)
            return
        raise CopyFailure(code, f"{self._repo}: {text} (HTTP {status}{why and f', {why}'})")


def check_names(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the listed files. Raises CopyFailure unless every name can be an object's name below the prefix, once."""
    seen = set()
    for row in rows:
        name = row["rfilename"]
        if not is_file_name(name) or name == MANIFEST or name in seen:
            why = (
                "is the manifest's" if name == MANIFEST else "is listed twice" if name in seen else "is not a file name"
            )
            fact = f"The Hub lists a file named {str(name)[:200]!r}, a name that {why}."
            raise CopyFailure(ExitCode.DISTRUST, f"{fact} Nothing was copied; is --repo the repository that you mean?")
        seen.add(name)
    return rows


def needed_for_serving(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return all but pictures, dot files, other tools' folders, and other formats of what is there as safetensors."""
    safetensors = any(row["rfilename"].endswith(".safetensors") for row in rows)
    endings = (*SKIPPED_ENDINGS, *(OTHER_WEIGHTS if safetensors else ()))
    return [r for r in rows if not r["rfilename"].startswith(SKIPPED_FOLDERS) and not r["rfilename"].endswith(endings)]


def listed_file(row: Mapping[str, Any]) -> ListedFile:
    """Return a row of the Hub's list as a value. Raises CopyFailure where size or checksum is missing or malformed."""
    name, lfs = row["rfilename"], row.get("lfs") or {}
    size, digest = lfs.get("size", row.get("size")), lfs.get("sha256") if lfs else row.get("blobId")
    if size is None or not digest:
        fact = f"{name}: the Hub lists no size or checksum, so a copy of it cannot be checked."
        raise CopyFailure(ExitCode.NOT_FOUND, fact)
    algorithm, digits = (SHA256, 64) if lfs else (GIT_SHA1, 40)
    if not isinstance(size, int) or size < 0 or not re.fullmatch(f"[0-9a-f]{{{digits}}}", str(digest).lower()):
        raise CopyFailure(ExitCode.DISTRUST, f"{name}: the Hub lists a malformed size or checksum. Nothing was copied.")
    return ListedFile(name, size, algorithm, str(digest).lower())
