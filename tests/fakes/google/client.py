"""Sessions of infra/google on the fake, with a clock of their own: no test waits, and the pauses can be compared."""

from __future__ import annotations

from typing import Any

from infra.google.gcp_settings import GcpSettings
from infra.google.session import GoogleSession, Retry, Timeouts
from tests.fakes.google.server import FakeGoogle

START = 1_800_000_000.0  # 2027-01-15, seconds since 1970


class FakeTime:
    """A clock that moves only by sleeping, and remembers for how long."""

    def __init__(self, start: float = START) -> None:
        self.now = start
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def session(
    fake: FakeGoogle, time: FakeTime | None = None, *, retry: Retry | None = None, **settings: Any
) -> GoogleSession:
    """`settings` override the fake's own `gcp:` settings; None takes one away. The environment is not read."""
    time = time or FakeTime()
    given = fake.settings() | settings
    return GoogleSession(
        GcpSettings.read(given.get, env={}),
        retry=retry,
        timeouts=Timeouts(connect_s=2, read_s=2),
        sleep=time.sleep,
        clock=time.clock,
    )
