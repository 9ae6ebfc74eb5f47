"""What a test may make go wrong: refusals, lost answers, silence, delays, on chosen requests and so many times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.google.wire import error_body


@dataclass
class FaultRule:
    """Applies to the next `times` requests whose method and raw path match (`path` is searched, not anchored).

    `drop` cuts the connection without an answer: `before` the request was carried out, or `after`, so that the caller
    cannot know. Otherwise `status` answers with `body` (or one made from `message`); with `processed` the request has
    been carried out all the same, as a 503 from a proxy may mean. `delay_s` holds the answer back in any case.
    """

    method: str
    path: str
    times: int = 1
    status: int = 0
    message: str = "injected"
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    processed: bool = False
    drop: str = ""
    delay_s: float = 0.0
    used: int = 0

    def __post_init__(self) -> None:
        if self.drop not in ("", "before", "after"):
            raise ValueError(f"drop is 'before' or 'after', not {self.drop!r}")

    def matches(self, method: str, path: str) -> bool:
        return self.used < self.times and method == self.method and re.search(self.path, path) is not None

    @property
    def carries_out(self) -> bool:
        """Whether the request reaches the product behind."""
        return self.drop == "after" or (self.drop == "" and (self.processed or not self.status))

    def answer(self) -> Any:
        return self.body if self.body is not None else error_body(self.status, self.message)
