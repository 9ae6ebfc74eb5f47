"""What the supervisor and the weights copy share for HTTP."""

from __future__ import annotations

from containers.shared.web import backoff


class TestBackoff:
    def test_waits_double_up_to_a_cap(self) -> None:
        assert [backoff(5, 300, failures) for failures in (1, 2, 3, 7, 8, 10_000)] == [5, 10, 20, 300, 300, 300]
