"""A folder of another bucket as the source, in place of a repository: its files, and their bytes."""

from __future__ import annotations

import hashlib
import http.client
from collections.abc import Callable, Mapping
from urllib.parse import quote

from containers.shared.manifest import MANIFEST
from containers.shared.web import Reply, TransientError, headers_of

from .bucket import DestinationBucket
from .connections import raise_unless_content, skip_to
from .exit_codes import CopyFailure, ExitCode
from .google_token import GoogleToken
from .hub import MD5, Hub, ListedFile, check_names
from .retries import Retries


class ReadBucket(DestinationBucket):
    """A bucket that is only read."""

    role = "roles/storage.objectViewer"


class SourceFolder(Hub):
    """One folder. Its revision is a checksum of what it lists. For one thread."""

    def __init__(
        self, endpoint: str, bucket: str, prefix: str,
        token: GoogleToken, timeout_s: float, retries: Callable[[str], Retries],
    ) -> None:  # fmt: skip
        super().__init__(endpoint, f"gs://{bucket}/{prefix}".rstrip("/"), "", timeout_s, retries)
        self._objects = f"{endpoint}/storage/v1/b/{bucket}/o"
        self._bucket = ReadBucket(endpoint, bucket, prefix, token, timeout_s, retries)
        self._prefix, self._google_token = prefix, token
        self._generations: Mapping[str, str] = {}

    def listing(self, revision: str) -> tuple[str, list[ListedFile]]:
        """Return a checksum of the folder as it is now, and the files that lie in it: not those of folders below, and not the
        manifest of an earlier copy into it."""
        found = self._bucket.objects()
        rows = check_names([{"rfilename": name} for name in found if "/" not in name and name not in ("", MANIFEST)])
        files = [
            ListedFile(row["rfilename"], found[row["rfilename"]].size, MD5, found[row["rfilename"]].md5) for row in rows
        ]
        if not files:
            fact = f"{self._repo} holds no files."
            raise CopyFailure(ExitCode.NOT_FOUND, f"{fact} Check the spelling of bucket and folder.")
        self._generations = {file.name: found[file.name].generation for file in files}
        content = "".join(f"{file.name} {file.size} {file.digest}\n" for file in sorted(files))
        return hashlib.sha256(content.encode()).hexdigest()[:40], files

    def check_access(self, revision: str, file: ListedFile) -> None:
        """Read one byte of `file`. Raises CopyFailure where it may not be read, or its copy could not be judged."""
        self.start_of(revision, file, 1)

    def _open(self, revision: str, file: ListedFile, offset: int) -> http.client.HTTPResponse:
        if not file.digest:
            fact = f"{self._repo}/{file.name} was put together from parts, and Cloud Storage keeps no MD5 of such an object."
            fix = "Upload it in one piece: gcloud config set storage/parallel_composite_upload_enabled False, then copy again."
            raise CopyFailure(ExitCode.NOT_FOUND, f"{fact} {fix}")
        generation = self._generations.get(file.name, "")
        url = f"{self._objects}/{quote(self._prefix + file.name, safe='')}?alt=media"
        url += f"&generation={generation}" if generation else ""
        headers = {**self._google_token.headers(), **({"Range": f"bytes={offset}-"} if offset else {})}
        response, _ = self._connections.get(url, headers, leaves=False)
        if response.status == 401 and self._google_token.renew():
            self._connections.close()
            raise TransientError("the access token had expired")
        if response.status in (401, 403, 404):
            raise self._bucket.refusal(Reply(response.status, headers_of(response), self._connections.read(response)))
        raise_unless_content(response)
        return skip_to(response, offset)
