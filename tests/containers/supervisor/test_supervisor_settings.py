"""Settings of the supervisor, and the connections that it counts."""

from __future__ import annotations

from pathlib import Path

from containers.supervisor.gemma4_supervisor.firewall import remote_connections
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings


class TestConnections:
    def test_callers_are_counted_without_the_machine_itself(self, tmp_path: Path) -> None:
        table = tmp_path / "tcp"
        table.write_text(
            "  sl  local_address rem_address   st tx_queue rx_queue\n"
            "   0: 0200000A:1F40 00000000:0000 0A 0:0\n"  # the listening socket
            "   1: 0200000A:1F40 0100000A:C001 01 0:0\n"  # a caller
            "   2: 0200000A:1F40 0200000A:C002 01 0:0\n"  # our own probe
            "   3: 0200000A:1F40 0100000A:C003 06 0:0\n"  # one that has ended
            "   4: 0200000A:0016 0100000A:C004 01 0:0\n"  # another port
        )
        assert remote_connections(8000, table) == 1


class TestSettings:
    def test_settings_come_from_the_environment_with_their_types(self) -> None:
        settings = SupervisorSettings.of(
            {"GEMMA4_PROBE_S": "0.5", "GEMMA4_STREAMS": "3", "GEMMA4_RUN_DIR": "/x", "PROBE_S": "9"}
        )
        assert (settings.probe_s, settings.streams, settings.run_dir) == (0.5, 3, Path("/x"))
        assert SupervisorSettings.of({}) == SupervisorSettings()
