"""How long the weights copy waits and when it gives up, on a clock of its own."""

from __future__ import annotations

import email.utils
import time

import pytest

from containers.weights.gemma4_stage import retries
from containers.weights.gemma4_stage.exit_codes import CopyFailure
from tests.containers.stage.copies import (
    BIG,
    Place,
)
from tests.fakes.hub import HubTrouble


class TestRetries:
    """How long it waits, on a clock of its own."""

    @pytest.fixture
    def waits(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        waits: list[float] = []
        monkeypatch.setattr("containers.weights.gemma4_stage.retries.time.sleep", waits.append)
        return waits

    def test_waits_grow_to_a_minute_and_then_it_gives_up(self, waits: list[float]) -> None:
        tries = retries.Retries("download", 9, 1.0)
        for _ in range(9):
            tries.wait("HTTP 503")
        with pytest.raises(CopyFailure, match="gave up after 9 retries"):
            tries.wait("HTTP 503")
        assert len(waits) == 9
        assert all(0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits[:6]))
        assert max(waits) <= 60

    def test_progress_starts_the_count_anew(self, waits: list[float]) -> None:
        tries = retries.Retries("download", 1, 1.0)
        for _ in range(5):
            tries.wait("cut")
            tries.progressed()
        assert max(waits) <= 1

    def test_it_waits_at_least_as_long_as_it_was_asked_to_but_not_forever(self, waits: list[float]) -> None:
        tries = retries.Retries("download", 9, 1.0)
        tries.wait("HTTP 429", 42.0)
        tries.wait("HTTP 429", 1e6)
        assert waits == [42.0, 300.0]

    def test_retry_after_is_a_number_or_a_date(self) -> None:
        assert retries.retry_after_seconds("17") == 17
        assert retries.retry_after_seconds("") == retries.retry_after_seconds("soon") == 0
        date = email.utils.formatdate(time.time() + 100, usegmt=True)
        assert 90 < retries.retry_after_seconds(date) <= 100

    def test_the_delay_that_a_server_asks_for_is_the_one_that_is_waited(self, place: Place) -> None:
        place.hub.trouble(BIG, HubTrouble(status=503, headers={"Retry-After": "1"}))
        (retry,) = (entry for entry in place.run().entries if entry["event"] == "retry")
        assert "trying again in 1.0 s" in retry["message"]
