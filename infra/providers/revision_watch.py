"""Shows the progress of the revision that an `up` makes, on a row of its own beside the service's.

The gcp provider waits for a new revision in silence, up to the whole start window, and its error does not name the cause.
This resource does not depend on the service but on what the service depends on, so both start at once. It recognises the
revision by a mark that both got, shows what the server does, and fails with the server's last log lines where the revision
fails. It asks Google only in `create` and `update`, never on a refresh, and asks nothing of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import ServingError
from infra.providers.base import DynamicResource, Provider, changed, fail, in_place, progress_on, warning_on
from infra.providers.revision_wait import AwaitedRevision, follow_revision

MARK = "gemma4-revision"
"""The annotation of a revision that holds the hash of its template."""
_TRIGGERS = ("project", "region", "service", "mark")


@dataclass(frozen=True)
class RevisionWatchArgs:
    """Which service. `mark` is the value of its revision's annotation `MARK`; `timeout_s` is how long Pulumi waits for the
    service."""

    project: str
    region: str
    service: str
    mark: pulumi.Input[str]
    timeout_s: float


class RevisionWatch(DynamicResource):
    """`revision` is the name of the revision that became ready, empty where that was not seen. Nothing depends on it."""

    revision: pulumi.Output[str]

    def __init__(self, name: str, args: RevisionWatchArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(RevisionWatchProvider(), name, args, opts)


class RevisionWatchProvider(Provider):
    """Follows a revision and shows its progress."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Follow the revision. Fails where the revision fails, not where it cannot be followed."""
        return CreateResult(props["service"], self._followed(props, first=True))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return an update for another template, and for a revision that was not followed to its end."""
        return in_place([*changed(olds, news, _TRIGGERS), *([] if olds.get("revision") else ["revision"])])

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Follow the revision, as `create` does."""
        return UpdateResult(self._followed(news, first=False))

    def _followed(self, props: Mapping[str, Any], *, first: bool) -> dict[str, Any]:
        urn = props.get("urn")
        awaited = AwaitedRevision(
            region=props["region"],
            service=props["service"],
            annotation=MARK,
            mark=props["mark"],
            timeout_s=float(props["timeout_s"]),
            first=first,
        )
        try:
            revision = follow_revision(self.session(), awaited, progress=progress_on(urn), warn=warning_on(urn))
        except ServingError as error:
            fail(str(error))
        return {**props, "revision": revision}
