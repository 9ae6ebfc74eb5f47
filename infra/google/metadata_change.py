"""A change of some attributes of a machine where the API replaces all of them: read, merge, write, and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from infra.errors import GoogleError
from infra.google.api_errors import is_ambiguous, is_transient
from infra.google.session import GoogleSession

ATTEMPTS = 8  # somebody may write an ssh key between reading and writing, but not eight times in a row
_CONCURRENT = (409, 412)


class _WithMetadata(Protocol):
    @property
    def metadata(self) -> Mapping[str, str]: ...


Machine = TypeVar("Machine", bound=_WithMetadata)


def change_metadata(
    session: GoogleSession,
    changes: Mapping[str, str | None],
    *,
    read: Callable[[], Machine],
    write: Callable[[Machine, Mapping[str, str]], object],
    whose: str,
) -> Machine:
    """Return the machine once it shows `changes`, of which None removes one; all its other attributes are left alone.

    `read` returns the machine as it is, `write` gives it all attributes and returns when that is done. Both raise GoogleError;
    a write that was refused as concurrent, or whose answer was lost, is tried again from the reading on.
    """
    refusal: GoogleError | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            session.sleep(min(2.0**attempt, 30.0))
        found = read()
        changed = {**found.metadata, **changes}
        merged = {key: value for key, value in changed.items() if value is not None}
        if merged == found.metadata:
            return found
        try:
            write(found, merged)
        except GoogleError as error:
            if error.status not in _CONCURRENT and not is_ambiguous(error) and not is_transient(error):
                raise
            refusal = error
    raise GoogleError(
        f"The metadata of {whose} could not be changed in {ATTEMPTS} attempts; run the command again. "
        f"The last answer: {refusal}",
        status=refusal.status if refusal else 0,
        reason="CONTENDED",
    )
