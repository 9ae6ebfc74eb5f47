"""Known failures of a server, its container and its machine: how each shows, its cause, and what to do about it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from pydantic import model_validator

from infra.catalog.schema import Row, Source

ShownIn = Literal["log", "answer", "condition", "check", "metric"]
"""Where a failure shows: a log line; what the server answered; a condition of Cloud Run or of a TPU slice; a stage of the
serving check; a signal read from the server's metrics."""


class KnownFailure(Row):
    """A row of failures.toml. Rows are in the order of their precedence: where several fit, the first one counts."""

    id: str
    shows_in: tuple[ShownIn, ...]
    patterns: tuple[str, ...] = ()
    """Regular expressions, any case, one of which is found in a line of the log, in the answer or in the condition."""
    unless: tuple[str, ...] = ()
    """Regular expressions: a line that one of them is found in does not count."""
    general: bool = False
    """True where it says only that something failed: it counts where nothing more exact is known."""
    stages: tuple[str, ...] = ()
    """Stages of the serving check at which it is the likeliest cause."""
    signal: str = ""
    """Name of a figure that is computed from the server's metrics."""
    above: float | None = None
    below: float | None = None
    """Bounds of the signal beyond which it is a finding."""
    cause: str
    """Half a sentence, without a full stop. `{doing}` stands for what the server did last."""
    fix: str
    """What to do, with the setting to write; whole sentences."""
    thread: str = ""
    """Address of a public report of it."""
    source: Source

    @model_validator(mode="after")
    def _is_recognisable(self) -> KnownFailure:
        for pattern in (*self.patterns, *self.unless):
            try:
                found = re.search(pattern, "")
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
            if found:
                raise ValueError(f"{pattern!r} is found in everything")
        if self.patterns and not {"log", "answer", "condition"} & set(self.shows_in):
            raise ValueError("patterns are searched in a log, an answer or a condition alone")
        if {"log", "condition"} & set(self.shows_in) and not self.patterns:
            raise ValueError("without a pattern it is never found")
        if ("metric" in self.shows_in) != bool(self.signal) or bool(self.signal) == (self.above is self.below is None):
            raise ValueError("a metric has a signal and a bound")
        return self

    def matches(self, line: str) -> bool:
        """Return whether a line, an answer or a condition's message shows this failure."""
        return bool(self._found.search(line)) and not (self.unless and self._excluded.search(line))

    @cached_property
    def _found(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{one})" for one in self.patterns), re.IGNORECASE)

    @cached_property
    def _excluded(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{one})" for one in self.unless), re.IGNORECASE)
