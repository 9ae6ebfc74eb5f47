"""What each platform says of a way back: from what is served now to what was served before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from infra.ops.endpoint.endpoint import Member
from infra.serving.expectation import CheckExpectation


@dataclass(frozen=True)
class WayBack:
    """A change of one server, which nobody has made yet."""

    member: Member
    now: str
    """What is served: a revision, or the hash of a specification."""
    to: str
    effect: str
    """What happens to those who use it, as a sentence."""
    expected: CheckExpectation
    """What the server must show afterwards."""
    then: str
    """What to type once the stack file is right again."""
    go: Callable[[], None]
    """Makes the change. Raises GoogleError."""
