"""What the command line and the environment ask for, checked, with the clients that carry it out."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

from .adapter_files import AdapterRules
from .bucket import DestinationBucket
from .exit_codes import CopyFailure, ExitCode
from .google_token import GoogleToken
from .hub import Hub
from .job_log import hide
from .retries import Retries
from .source_folder import SourceFolder

MEMORY_MIB = 192
"""All windows together. The interpreter needs about 30 MiB beside them."""


class CopyRequest:
    """One model, one prefix of a bucket, and how to get at both."""

    def __init__(self, options: argparse.Namespace, environ: Mapping[str, str]) -> None:
        place = re.fullmatch(r"(?:gs://)?([a-z0-9][a-z0-9._-]+)(?:/(.*?))?/*", options.destination)
        if not place:
            fact = f"--destination {options.destination!r} does not have the form gs://BUCKET/PREFIX."
            raise CopyFailure(ExitCode.USAGE, fact)
        self.options = options
        self.repo, self.revision = (options.repo or "").strip("/"), options.revision or "main"
        self.is_pinned = re.fullmatch(r"[0-9a-f]{40}", self.revision) is not None
        self.adapter: AdapterRules | None = None
        if options.adapter_rank:
            self.adapter = AdapterRules(
                options.adapter_rank, options.adapter_base, options.adapter_layers, options.adapter_hidden,
                options.adapter_experts == "yes",
            )  # fmt: skip
        self.bucket_name, self.prefix = place[1], f"{place[2]}/" if place[2] else ""
        self.place = f"gs://{self.bucket_name}/{self.prefix}".rstrip("/")
        storage = environ.get("STORAGE_ENDPOINT") or environ.get("STORAGE_EMULATOR_HOST") or "storage.googleapis.com"
        self._storage_endpoint = _endpoint(storage).removesuffix("/storage/v1")
        self._hub_endpoint = _endpoint(environ.get("HF_ENDPOINT") or "huggingface.co")
        self._hub_token = _checked_token(environ.get("HF_TOKEN", ""))
        self._google_token = GoogleToken(
            _checked_token(environ.get("GOOGLE_OAUTH_ACCESS_TOKEN", "")),
            _endpoint(environ.get("GCE_METADATA_HOST") or "metadata.google.internal", "http"),
            Retries("metadata server", 4, options.backoff_seconds),
        )

    def hub(self) -> Hub:
        """Return a client of the Hub, or of the folder of a bucket that is the source instead; for one thread."""
        if self.repo.startswith("gs://"):
            bucket, _, folder = self.repo[len("gs://") :].partition("/")
            return SourceFolder(
                self._storage_endpoint, bucket, f"{folder}/", self._google_token, self.options.timeout_seconds, self._retries,
            )  # fmt: skip
        return Hub(self._hub_endpoint, self.repo, self._hub_token, self.options.timeout_seconds, self._retries)

    def bucket(self) -> DestinationBucket:
        """Return a client of the bucket, for one thread."""
        return DestinationBucket(
            self._storage_endpoint, self.bucket_name, self.prefix,
            self._google_token, self.options.timeout_seconds, self._retries,
        )  # fmt: skip

    def _retries(self, what: str) -> Retries:
        return Retries(what, self.options.retries, self.options.backoff_seconds)


def _endpoint(text: str, scheme: str = "https") -> str:
    """Return an address without its last slash; where it names no scheme, with `scheme`, or http on this machine."""
    scheme = "http" if text.startswith(("127.", "localhost")) else scheme
    return (text if "://" in text else f"{scheme}://{text}").rstrip("/")


def _checked_token(token: str) -> str:
    """Return a token without the line end that secrets tend to have, after hiding it from the log."""
    token = token.strip()
    if not re.fullmatch(r"[!-~]*", token):
        fact = "A token holds blanks or other characters that no token has."
        raise CopyFailure(ExitCode.TOKEN, f"{fact} Store it again, without them.")
    hide(token)
    return token
