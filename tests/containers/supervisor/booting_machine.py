"""A machine whose startup script is run by a real bash as at boot."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from containers import archive
from tests.fakes.machine_commands import MachineCommands
from tests.fakes.metadata_server import FakeMetadata


class BootingMachine:
    """`tools` is a folder that is the whole PATH: it has commands of `machine`, and `real` ones of this computer."""

    def __init__(
        self, folder: Path, machine: MachineCommands, real: Iterable[str], script: str, **metadata: str
    ) -> None:
        self.metadata = FakeMetadata(gemma4_supervisor=archive.in_base64(archive.supervisor()), **metadata)
        self.state, self.run_dir, self.units = folder / "state", folder / "run", folder / "units"
        self.driver, self.tools = folder / "nvidia", folder / "tools"
        self.tools.mkdir()
        for command in machine.bin.iterdir():
            (self.tools / command.name).symlink_to(command)
        for name in real:
            found = shutil.which(name)
            assert found, f"this test needs {name}"
            (self.tools / name).symlink_to(found)
        self._commands, self._script = machine, script

    def run(self, tries: int = 3) -> subprocess.CompletedProcess[str]:
        environ = {
            "PATH": str(self.tools),
            "GEMMA4_METADATA_HOST": self.metadata.host,
            "GEMMA4_STATE_DIR": str(self.state),
            "GEMMA4_RUN_DIR": str(self.run_dir),
            "GEMMA4_UNIT_DIR": str(self.units),
            "GEMMA4_DRIVER_DIR": str(self.driver),
            "GEMMA4_BOOT_TRIES": str(tries),
            "GEMMA4_BOOT_PAUSE_S": "0.05",
        }
        command = [shutil.which("bash") or "bash", "-c", self._script]
        return subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )

    def put(self, name: str, script: str) -> None:
        """Have a shell script for a command."""
        (self.tools / name).unlink(missing_ok=True)
        (self.tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.tools / name).chmod(0o755)

    def did(self) -> list[str]:
        """What systemctl was told since the last time."""
        actions, self._commands.actions = self._commands.actions, []
        return actions

    @property
    def unit(self) -> str:
        return (self.units / "gemma4-supervisor.service").read_text()

    @property
    def program(self) -> bytes:
        return (self.state / "supervisor.pyz").read_bytes()

    def error(self) -> str:
        """Run the script; returns the one fault that it ended with, as the log and the guest attributes have it."""
        self.metadata.reports.clear()
        done = self.run()
        assert done.returncode == 1
        errors = [line for line in (done.stdout + done.stderr).splitlines() if '"severity":"ERROR"' in line]
        (entry,) = [json.loads(line) for line in errors]
        (report,) = self.metadata.reports
        assert json.loads(report)["errors"][0]["message"] == entry["message"]
        return str(entry["message"])

    def close(self) -> None:
        self._commands.close()
        self.metadata.close()
