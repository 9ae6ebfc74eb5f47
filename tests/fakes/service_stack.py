"""A Cloud Run service and the two dynamic resources around it under the smallest possible engine.

It refreshes before every `up`, keeps a dynamic resource only if its operation returned, keeps a service whose creation
failed (the gcp provider does), and asks for the service while the watch looks on: an `up` ends with every error that one
of them had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.components.shared.private_service import mark_of
from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.providers import revision_watch
from infra.providers.base import Provider
from infra.providers.revision_retry import RevisionRetryProvider
from infra.providers.revision_watch import MARK, RevisionWatchProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.slice_stack import Clock

PARENT = "projects/demo-project/locations/us-east4"
NAME = "gemma4-l4"
SERVICE = f"{PARENT}/services/{NAME}"
LIMIT_S = 2700


@dataclass
class Up:
    """What one `up` did and said: steps such as `update service`, errors, the watch's rows and warnings."""

    steps: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class InState:
    """What the state holds of one resource."""

    id: str
    outputs: dict[str, Any]


class ServiceStack:
    """`template` is what the program asks for, without the mark."""

    def __init__(self, fake: FakeGoogle, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake, self.clock = fake, clock
        self.session = session(fake, clock)
        self.template: dict[str, Any] = {"containers": [{"image": "img", "args": ["serve"]}]}
        self.state: dict[str, InState] = {}
        self.asks_after_s = 0.0
        """When the engine gets to the service's own request; 0 is before the watch looks."""
        self.retry, self.watch = RevisionRetryProvider(), RevisionWatchProvider()
        for provider in (self.retry, self.watch):
            provider.session = lambda: session(fake, clock)  # type: ignore[method-assign]
        self._up = Up()
        monkeypatch.setattr(revision_watch, "progress_on", lambda _urn: self._up.rows.append)
        monkeypatch.setattr(revision_watch, "warning_on", lambda _urn: self._up.warnings.append)

    def up(self, *, killed: bool = False) -> Up:
        """Refresh, then bring everything to what is wanted; `killed` dies while the service is being made."""
        self._up = Up()
        self.refresh()
        self._dynamic("retry", self.retry, {"failed_revision": None})
        mark = mark_of(self.template, self.state["retry"].outputs["failed_revision"])
        asked: dict[str, Any] = {}
        if self.asks_after_s:
            self.clock.at(self.asks_after_s, lambda: asked.update(self._ask(mark)))
        else:
            asked.update(self._ask(mark))
        if killed:
            del self.state["service"]
            return self._up
        self._dynamic("watch", self.watch, {"mark": mark, "timeout_s": LIMIT_S, "revision": None})
        self._end(asked)
        return self._up

    def refresh(self) -> None:
        for name, provider in (("retry", self.retry), ("watch", self.watch)):
            if name in self.state:
                kept = self.state[name]
                assert provider.read(kept.id, dict(kept.outputs)).outs == kept.outputs
        if "service" in self.state and SERVICE not in self.fake.run.resources:
            del self.state["service"]

    @property
    def revisions(self) -> list[dict[str, Any]]:
        return self.fake.run.revisions.get(SERVICE, [])

    @property
    def serving(self) -> str:
        """The number of the revision that serves, empty where none does."""
        ready: str = self.fake.run.resources[SERVICE].get("latestReadyRevision", "")
        return str([one["name"] for one in self.revisions].index(ready) + 1) if ready else ""

    def _ask(self, mark: str) -> dict[str, Any]:
        """Send the service's request where its template has changed, and return the operation."""
        template = {**self.template, "annotations": {MARK: mark}}
        try:
            if "service" not in self.state:
                self._up.steps.append("create service")
                return self._sent("POST", template)
            live = self.fake.run.resources[SERVICE]["template"]
            if {key: live.get(key) for key in template} == template:
                return {}
            self._up.steps.append("update service")
            return self._sent("PATCH", template)
        except GoogleError as error:
            self._up.errors.append(f"service: {error}")
            return {}

    def _sent(self, method: str, template: dict[str, Any]) -> dict[str, Any]:
        body = {"template": template}
        if method == "POST":
            operation = self.session.post(Api.CLOUD_RUN, f"{PARENT}/services", body, serviceId=NAME)
        else:
            operation = self.session.patch(Api.CLOUD_RUN, SERVICE, body)
        self.state["service"] = InState(SERVICE, {})
        return operation

    def _end(self, operation: dict[str, Any]) -> None:
        while operation and not operation["done"]:
            operation = self.session.get(Api.CLOUD_RUN, operation["name"])
        if "error" in operation:
            self._up.errors.append(f"service: {operation['error']['message']}")

    def _dynamic(self, name: str, provider: Provider, own: dict[str, Any]) -> None:
        place = {"project": "demo-project", "region": "us-east4", "service": NAME}
        news = {key: value for key, value in {**place, **own}.items() if value is not None}
        kept = self.state.get(name)
        try:
            if kept is None:
                self._up.steps.append(f"create {name}")
                created = provider.create(news)
                self.state[name] = InState(created.id, dict(created.outs or {}))
            elif provider.diff(kept.id, kept.outputs, news).changes:
                self._up.steps.append(f"update {name}")
                kept.outputs = dict(provider.update(kept.id, kept.outputs, news).outs or {})
        except Exception as error:
            if type(error).__qualname__ != "gemma4":
                raise
            self._up.errors.append(f"{name}: {error}")
