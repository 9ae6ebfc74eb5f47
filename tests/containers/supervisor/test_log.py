"""The supervisor's log: nothing secret, nothing endless."""

from __future__ import annotations

import io

from containers.supervisor.gemma4_supervisor.log import Log


class TestTheLog:
    def test_the_log_removes_a_secret_in_every_form(self) -> None:
        stream = io.StringIO()
        log = Log(stream)
        log.hide("ya29.secret")
        log.error("fault", 'docker said: {"auth": "eWEyOS5zZWNyZXQ="}', stack="token=ya29.secret")
        assert "secret" not in stream.getvalue().replace("[secret]", "")
        assert "eWEyOS5zZWNyZXQ=" not in stream.getvalue()

    def test_the_log_keeps_beginning_and_end_of_what_is_endless(self) -> None:
        text = Log(io.StringIO()).redacted("begin" + "x" * 100_000 + "end")
        assert len(text) < 2100
        assert text.startswith("begin")
        assert text.endswith("end")
