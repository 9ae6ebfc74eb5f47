"""Settings of the supervisor."""

from __future__ import annotations

from pathlib import Path

from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings


class TestSettings:
    def test_settings_come_from_the_environment_with_their_types(self) -> None:
        settings = SupervisorSettings.of(
            {"GEMMA4_PROBE_S": "0.5", "GEMMA4_STREAMS": "3", "GEMMA4_RUN_DIR": "/x", "PROBE_S": "9"}
        )
        assert (settings.probe_s, settings.streams, settings.run_dir) == (0.5, 3, Path("/x"))
        assert SupervisorSettings.of({}) == SupervisorSettings()
