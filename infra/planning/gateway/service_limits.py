"""What Cloud Run takes of any service, with a GPU or without: how it is probed, how much one instance is sent, how long a
request may last."""

from __future__ import annotations

import math
from dataclasses import dataclass

from infra.errors import Fault, Findings
from infra.planning.units import Band, read_duration, read_minutes, read_predicted

TEMPERATE_CONCURRENCY = 8
"""Above this many times maxNumSeqs, requests only pile up inside the server."""
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


def check_request_timeout(timeout_s: int, *, longest_answer_s: Band) -> Findings:
    """Refuse more than Cloud Run's cap, and warn where a typical answer at the planned load is not done in time."""
    key = "scaling.requestTimeout"
    if timeout_s > REQUEST_TIMEOUT_MAX_S:
        fault = Fault(
            key, f"{timeout_s} s is over Cloud Run's 3600 s.", "The deployment would be rejected.", "Write 60m."
        )
        return Findings(refusals=(fault,))
    if longest_answer_s.mid > timeout_s:
        lasts = read_predicted(longest_answer_s, read_duration, ends=read_minutes)
        fact = f"a typical answer takes {lasts}, longer than {read_duration(timeout_s)}."
        fix = "Plan for shorter answers (workload.outputTokens) or fewer requests at once (serving.maxNumSeqs)."
        if longest_answer_s.mid <= REQUEST_TIMEOUT_MAX_S:
            enough = math.ceil(min(longest_answer_s.high, REQUEST_TIMEOUT_MAX_S) / 60)
            fix = f"Write at least {enough}m, or plan for shorter answers."
        return Findings(warnings=(Fault(key, fact, "Cloud Run would cut it off.", fix),))
    return Findings()
