"""Makes the next `pulumi up` try again a Cloud Run revision that failed: Cloud Run makes one only for a changed template.

A server that did not come up, for want of a GPU, of a grant that counts, or of time, would stay down for ever if nothing
in its template changed. This resource stands before the service and remembers the newest revision that failed. The
service's template carries that name, so a new failure changes the template, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import GoogleError
from infra.google.cloud_run import CloudRun
from infra.google.session import ONCE_MORE, QUICK, GoogleSession
from infra.providers.base import DynamicResource, Provider, changed, in_place

_PLACE = ("project", "region", "service")


@dataclass(frozen=True)
class RevisionRetryArgs:
    """Which Cloud Run service."""

    project: str
    region: str
    service: str


class RevisionRetry(DynamicResource):
    """`failed_revision` is the revision that failed last, empty where none ever did; the service's template carries it."""

    failed_revision: pulumi.Output[str]

    def __init__(self, name: str, args: RevisionRetryArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(RevisionRetryProvider(), name, args, opts)


class RevisionRetryProvider(Provider):
    """Reads the live service, and nothing else."""

    def session(self) -> GoogleSession:
        """Return a session that gives up soon: a preview must not wait for a network that is not there."""
        return GoogleSession(self.gcp, retry=ONCE_MORE, timeouts=QUICK)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Remember a failed revision of a service that is there already; mostly there is none yet."""
        return CreateResult(props["service"], {**props, "failed_revision": self._failed(props)})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return a change where the newest revision failed and has not been tried again yet."""
        failed = self._failed(news)
        followed = not failed or failed == olds.get("failed_revision")
        return in_place([*changed(olds, news, _PLACE), *([] if followed else ["failed_revision"])])

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Remember the failed revision; without one, or a look at it, keep what was remembered."""
        return UpdateResult({**news, "failed_revision": self._failed(news) or olds.get("failed_revision") or ""})

    def _failed(self, props: Mapping[str, Any]) -> str:
        """Return the newest revision where Cloud Run has given it up, else an empty name, also where the service cannot be
        seen: a preview without credentials or network must not fail here, and the service's own row says what is wrong."""
        try:
            return CloudRun(self.session(), props["region"]).service(props["service"]).failed_revision
        except GoogleError:
            return ""
