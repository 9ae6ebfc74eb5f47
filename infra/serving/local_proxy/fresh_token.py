"""The token that goes with requests: made in the background before the last one ends, by one maker at a time.

Requests wait for a token only where there is none that is still good.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from infra.errors import Gemma4Error

RENEW_BEFORE_S = 600.0
"""With less than this left a new token is made; Google's identity tokens are valid for an hour."""
GOOD_FOR_S = 60.0
"""With less than this left a token is not sent any more: clocks differ, and a request may wait for its turn."""
PAUSE_S = 10.0
"""Between two tries while the old token is good: whoever makes tokens may be away, or hand out the same one for a while."""
LOOK_S = 20.0
"""How often the clock is looked at: a machine that slept was asleep for all timers too."""


class FreshToken:
    """`make` returns a token or raises Gemma4Error, and runs in a thread; `forget` is called before it, so that it does not
    return what it has kept. `expires_at` reads the end of a token, in seconds since 1970; 0: it does not end."""

    def __init__(
        self,
        make: Callable[[], str],
        *,
        forget: Callable[[], None] = lambda: None,
        expires_at: Callable[[str], float],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._make, self._forget, self._expires_at, self._clock = make, forget, expires_at, clock
        self._token = ""
        self._making: asyncio.Task[str] | None = None
        self._next_try_at = 0.0
        self.made = 0
        """How many tokens were made."""

    async def get(self) -> str:
        """Return a token that is good for a request. Raises Gemma4Error where none can be made."""
        left = self._left_s()
        if left <= RENEW_BEFORE_S and (left <= GOOD_FOR_S or self._clock() >= self._next_try_at):
            making = self._begin()
            if left <= GOOD_FOR_S:
                return await asyncio.shield(making)  # others wait for it too
        return self._token

    async def after_refusal(self, refused: str) -> str:
        """Return another token than the one that the service refused. Raises Gemma4Error where none can be made."""
        if self._token != refused and self._left_s() > GOOD_FOR_S:
            return self._token  # another request has met the same refusal before
        return await asyncio.shield(self._begin())

    async def keep_fresh(
        self, problem: Callable[[str], None], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Make each next token in time, until cancelled. `problem` is told why one could not be made."""
        while True:
            await sleep(LOOK_S)
            if self._left_s() <= RENEW_BEFORE_S and self._clock() >= self._next_try_at:
                try:
                    await asyncio.shield(self._begin())
                except Gemma4Error as error:
                    problem(str(error))

    def _left_s(self) -> float:
        if not self._token:
            return 0.0
        end = self._expires_at(self._token)
        return end - self._clock() if end else float("inf")

    def _begin(self) -> asyncio.Task[str]:
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._renewed())
            self._making.add_done_callback(_heard)
        return self._making

    async def _renewed(self) -> str:
        self._next_try_at = self._clock() + PAUSE_S
        self._token = await asyncio.to_thread(self._remade)
        self.made += 1
        return self._token

    def _remade(self) -> str:
        self._forget()
        return self._make()


def _heard(task: asyncio.Task[str]) -> None:
    """Take note of a failure that nobody waits for, so that it is not reported as unheard: the next try meets it again."""
    with suppress(asyncio.CancelledError):
        task.exception()
