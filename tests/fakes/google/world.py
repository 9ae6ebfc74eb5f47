"""What all products of the fake share: one lock, one clock, identifiers, etags, IAM policies, running operations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.fakes.google.wire import ErrorAnswer, not_found

PROJECT_NUMBER = "123456789012"


class World:
    """What all products share. A thread that reads or changes state holds `lock`."""

    def __init__(self, project: str, clock: Callable[[], float] = time.time) -> None:
        self.project = project  # the one that PROJECT_NUMBER stands for; any other works as well
        self.lock = threading.RLock()
        self.clock = clock
        self.policies: dict[str, dict[str, Any]] = {}
        self.operations: dict[str, Operation] = {}
        self.users: list[Callable[[str], list[str]]] = []
        """Each names what of its product uses a resource of another."""
        self._serial = 0

    def serial(self) -> int:
        """A number never handed out before."""
        self._serial += 1
        return self._serial

    def now(self) -> str:
        """RFC 3339 with microseconds, and never the same twice: generations of a resource differ by it."""
        moment = datetime.fromtimestamp(self.clock(), UTC).replace(microsecond=self.serial() % 1_000_000)
        return moment.isoformat().replace("+00:00", "Z")

    def at(self, seconds_from_now: float) -> str:
        """RFC 3339 with whole seconds, the only form that google-auth reads in a token's expiry."""
        moment = datetime.fromtimestamp(self.clock() + seconds_from_now, UTC).replace(microsecond=0)
        return moment.isoformat().replace("+00:00", "Z")

    def stamp(self, seconds_since_1970: float) -> str:
        """RFC 3339 of a moment."""
        return datetime.fromtimestamp(seconds_since_1970, UTC).isoformat().replace("+00:00", "Z")

    def etag(self) -> str:
        return f"etag-{self.serial():06d}"

    def policy(self, resource: str) -> dict[str, Any]:
        return self.policies.setdefault(resource, {"version": 1, "etag": self.etag(), "bindings": []})

    def set_policy(self, resource: str, policy: dict[str, Any]) -> dict[str, Any]:
        """Google refuses a policy that was read before somebody else's change."""
        current = self.policy(resource)
        if policy.get("etag") not in (None, "", current["etag"]):
            raise ErrorAnswer(409, "There were concurrent policy changes. Please retry.", canonical="ABORTED")
        bindings = [binding for binding in policy.get("bindings", []) if binding.get("members")]
        stored = {"version": policy.get("version", 1), "etag": self.etag(), "bindings": bindings}
        self.policies[resource] = stored
        return stored

    def forget_policy(self, resource: str) -> None:
        self.policies.pop(resource, None)

    def start(self, name: str, **fields: Any) -> dict[str, Any]:
        """Begin a long-running operation named `name`; see `Operation` for the fields."""
        operation = Operation(name, **fields)
        self.operations[name] = operation
        return operation.as_json()

    def poll(self, name: str) -> dict[str, Any]:
        operation = self.operations.get(name)
        if operation is None:
            raise not_found(name)
        operation.polls = max(0, operation.polls - 1)
        return operation.as_json()


@dataclass
class Operation:
    """Done after `polls` GETs, then with `error` or `response`."""

    name: str
    response: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    polls: int = 0

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "metadata": self.metadata, "done": self.polls == 0}
        if shown["done"]:
            shown |= {"error": self.error} if self.error else {"response": self.response}
        return shown
