"""Commands that ask, without anybody who answers: a line that says what is asked, and a failure within seconds."""

from __future__ import annotations

import pytest

from infra.google.gcp_settings import Api
from infra.google.session import Retry, Timeouts
from infra.ops import google_access as access
from infra.ops.cli import run
from infra.ops.google_access import google_session
from tests.projects import ROOT


class TestWithoutANetwork:
    """Somebody waits before a question: it is asked once more and no oftener, and says that it asks."""

    @pytest.fixture(autouse=True)
    def nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(ROOT)
        for api in Api:
            monkeypatch.setenv(api.variable, "http://127.0.0.1:9/")
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "t")
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "demo-project")
        monkeypatch.setattr(access, "ONCE_MORE", Retry(attempts=2, first_s=0))

    @pytest.mark.parametrize(
        "words", [["zones", "v6e4"], ["zones"], ["tpu", "status", "v6e4"], ["tpu", "ended"], ["tpu", "ended", "v6e4"]]
    )
    def test_a_command_says_what_it_asks_and_fails_in_a_line(
        self, capsys: pytest.CaptureFixture[str], words: list[str]
    ) -> None:
        assert run(words) == 1
        asking, failed = capsys.readouterr().err.splitlines()
        assert asking == "asking Google about project demo-project …"
        assert failed.startswith("failed: GET ")
        assert "was not sent to tpu.googleapis.com" in failed

    def test_only_what_deletes_is_patient(self) -> None:
        quick, patient = google_session(None), google_session(None, patient=True)
        assert quick.timeouts.silence_s is not None
        assert patient.timeouts == Timeouts()

    def test_without_a_project_a_stack_is_what_helps(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
        for words in (["zones"], ["tpu", "ended"]):
            assert run(words) == 1
            said = capsys.readouterr().err
            assert "Set GOOGLE_CLOUD_PROJECT" in said
            assert "stack file that has gcp:project" in said
