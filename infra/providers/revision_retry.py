"""What makes the next `up` try a revision again that failed: Cloud Run makes one only for a template that changed.

A server that did not come up, for want of a GPU, of a grant that counts, or of time, would stay down for ever if nothing
in its template changed. This resource stands before the service and remembers the newest revision that failed; the
service's template carries that name, so a new failure is a new template, and everything else leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from infra.errors import GoogleError
from infra.google.cloud_run import CloudRun
from infra.google.session import ONCE_MORE, QUICK, GoogleSession
from infra.providers.base import Provider, changed, in_place, urn_under

KIND = "RevisionAttempt"
_PLACE = ("project", "region", "service")


@dataclass(frozen=True)
class RevisionAttemptInputs:
    """Which Cloud Run service."""

    project: str
    region: str
    service: str


class RevisionAttempt(Resource, module="gemma4", name=KIND):
    """The service must carry `after` in its template: the revision that failed last, empty where none ever did."""

    after: pulumi.Output[str]

    def __init__(self, name: str, args: RevisionAttemptInputs, opts: pulumi.ResourceOptions) -> None:
        urn = None if opts.parent is None else urn_under(opts.parent, KIND, name)
        super().__init__(RevisionAttemptProvider(), name, {**vars(args), "urn": urn, "after": None}, opts)


class RevisionAttemptProvider(Provider):
    """Looks at the live service, and at nothing else."""

    def session(self) -> GoogleSession:
        """One that gives up soon: a preview must not wait for a network that is not there."""
        return GoogleSession(self.access, retry=ONCE_MORE, timeouts=QUICK)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Remember a failed revision of a service that is there already; mostly there is none yet."""
        return CreateResult(props["service"], {**props, "after": self._failed(props)})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return a change where the newest revision failed and no attempt has followed it yet."""
        failed = self._failed(news)
        followed = not failed or failed == olds.get("after")
        return in_place([*changed(olds, news, _PLACE), *([] if followed else ["after"])])

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Remember the failed revision; without one, or a look at it, keep what was remembered."""
        return UpdateResult({**news, "after": self._failed(news) or olds.get("after") or ""})

    def _failed(self, props: Mapping[str, Any]) -> str:
        """Return the newest revision where Cloud Run has given it up, else an empty name, also where the service cannot be
        seen: a preview without credentials or network must not fail here, and the service's own row says what is wrong."""
        try:
            return CloudRun(self.session(), props["region"]).service(props["service"]).failed_revision
        except GoogleError:
            return ""
