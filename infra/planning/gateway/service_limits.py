"""What Cloud Run takes of any service, with a GPU or without: how it is probed, how much one instance is sent, how long a
request may last."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CONCURRENCY = 1000
"""Most requests that Cloud Run sends to one instance."""
REQUEST_TIMEOUT_MAX_S = 3600
HEALTH_PATH = "/health"


@dataclass(frozen=True)
class HttpProbe:
    """HTTP GET on `path` until it answers; the container is stopped when it has not within `window_s`."""

    initial_delay_s: int
    period_s: int
    timeout_s: int
    failure_threshold: int
    path: str = HEALTH_PATH

    @property
    def window_s(self) -> int:
        """Seconds from container start until Cloud Run gives up."""
        return self.initial_delay_s + self.period_s * self.failure_threshold
