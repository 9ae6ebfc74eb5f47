"""The startup script, run by a real bash as at boot: it puts the supervisor into place, or says why it cannot."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import archive
from tests.fakes.machine_commands import MachineCommands
from tests.fakes.metadata_server import FakeMetadata

KEEP = "systemctl mask --now apt-daily.timer apt-daily-upgrade.timer"
NEEDED = ("mkdir", "rm", "sleep", "curl")


class Boot:
    """A machine at boot. `tools` is a folder that is the whole PATH."""

    def __init__(self, folder: Path) -> None:
        self.metadata = FakeMetadata(gemma4_supervisor=archive.in_base64(archive.supervisor()))
        self.machine = MachineCommands(folder)
        self.tools, self.state, self.units = folder / "tools", folder / "state", folder / "units"
        self.tools.mkdir()
        self.units.mkdir()
        for name in NEEDED:
            found = shutil.which(name)
            assert found, f"this test needs {name}"
            (self.tools / name).symlink_to(found)
        for name in ("docker", "systemctl"):
            (self.tools / name).symlink_to(self.machine.bin / name)
        (self.tools / "python3").symlink_to(sys.executable)
        self.script = folder / "startup-script"
        self.script.write_text(archive.startup_script())

    def run(self, tries: int = 3) -> subprocess.CompletedProcess[str]:
        environ = {
            "PATH": str(self.tools),
            "GEMMA4_METADATA_HOST": self.metadata.host,
            "GEMMA4_STATE_DIR": str(self.state),
            "GEMMA4_UNIT_DIR": str(self.units),
            "GEMMA4_BOOT_TRIES": str(tries),
            "GEMMA4_BOOT_PAUSE_S": "0.05",
        }
        command = [shutil.which("bash") or "bash", str(self.script)]
        return subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )

    def did(self) -> list[str]:
        """What systemctl was told since the last time."""
        actions, self.machine.actions = self.machine.actions, []
        return actions

    def close(self) -> None:
        self.machine.close()
        self.metadata.close()


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    machine = Boot(tmp_path)
    yield machine
    machine.close()


class TestTheStartupScript:
    def test_the_startup_script_puts_the_supervisor_into_place_and_starts_it(self, boot: Boot) -> None:
        done = boot.run()
        assert done.returncode == 0, done.stdout + done.stderr
        assert (boot.state / "supervisor.pyz").read_bytes() == archive.supervisor()
        assert boot.state.stat().st_mode & 0o777 == 0o700
        unit = (boot.units / "gemma4-supervisor.service").read_text()
        assert "supervisor.pyz run" in unit
        assert "Restart=always" in unit
        restart = "systemctl --no-block restart gemma4-supervisor.service"
        assert boot.did() == ["systemctl daemon-reload", KEEP, "systemctl enable gemma4-supervisor.service", restart]
        assert not (boot.state / "bootstrap.pyz").exists()

    def test_the_startup_script_changes_nothing_at_a_reboot(self, boot: Boot) -> None:
        boot.run()
        boot.did()
        assert boot.run().returncode == 0
        assert boot.did() == [
            KEEP,
            "systemctl enable gemma4-supervisor.service",
            "systemctl --no-block start gemma4-supervisor.service",
        ]

    def test_the_startup_script_brings_a_newer_supervisor_at_a_reboot(self, boot: Boot) -> None:
        boot.run()
        boot.did()
        newer = archive.supervisor("# newer\n")
        boot.metadata.set("gemma4-supervisor", archive.in_base64(newer))
        boot.run()
        assert (boot.state / "supervisor.pyz").read_bytes() == newer
        assert "systemctl --no-block restart gemma4-supervisor.service" in boot.did()

    def test_the_startup_script_waits_for_a_metadata_server_that_is_late(self, boot: Boot) -> None:
        boot.metadata.away = "silent"
        threading.Timer(0.5, lambda: setattr(boot.metadata, "away", "")).start()
        assert boot.run(tries=200).returncode == 0

    def test_the_startup_script_waits_for_a_command_that_the_first_boot_still_installs(self, boot: Boot) -> None:
        (boot.tools / "docker").unlink()
        threading.Timer(0.5, lambda: (boot.tools / "docker").symlink_to(boot.machine.bin / "docker")).start()
        assert boot.run(tries=200).returncode == 0
        assert "systemctl enable gemma4-supervisor.service" in boot.did()

    @pytest.mark.parametrize("missing", ["python3", "systemctl", "docker"])
    def test_the_startup_script_says_in_one_line_what_the_machine_lacks(self, boot: Boot, missing: str) -> None:
        (boot.tools / missing).unlink()
        done = boot.run()
        (entry,) = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 1
        assert entry["severity"] == "ERROR"
        assert entry["message"].startswith(f"{missing} is not on this machine's image.")
        (report,) = boot.metadata.reports
        assert json.loads(report)["errors"][0]["message"] == entry["message"]
        assert boot.did() == []

    def test_the_startup_script_refuses_a_python_that_is_too_old(self, boot: Boot) -> None:
        (boot.tools / "python3").unlink()
        (boot.tools / "python3").write_text("#!/bin/sh\n[ \"$1\" = -V ] && echo 'Python 3.8.10'\nexit 1\n")
        (boot.tools / "python3").chmod(0o755)
        done = boot.run()
        assert done.returncode == 1
        assert "older than 3.10. Python 3.8.10" in done.stdout

    def test_the_startup_script_says_when_there_is_nothing_to_install(self, boot: Boot) -> None:
        boot.metadata.set("gemma4-supervisor", None)
        begin = time.monotonic()
        done = boot.run()
        assert done.returncode == 1
        assert "gemma4-supervisor cannot be read" in done.stdout
        assert time.monotonic() - begin < 20

    def test_the_startup_script_says_when_what_came_is_no_program(self, boot: Boot) -> None:
        boot.metadata.set("gemma4-supervisor", "bm8gcHJvZ3JhbQ==")
        done = boot.run()
        assert done.returncode == 1
        assert "cannot be installed" in done.stdout

    def test_the_startup_script_serves_also_where_packages_cannot_be_kept(self, boot: Boot) -> None:
        boot.machine.failing_arguments["mask"] = "Failed to mask unit: Access denied"
        done = boot.run()
        assert done.returncode == 0
        assert "Packages may be upgraded while the machine serves: " in done.stderr
        assert "Access denied" in done.stderr

    def test_the_startup_script_says_when_systemd_refuses(self, boot: Boot) -> None:
        boot.machine.failing["systemctl"] = "Failed to connect to bus"
        done = boot.run()
        assert done.returncode == 1
        assert "Failed to connect to bus" in done.stderr

    def test_the_startup_script_never_traces_and_asks_no_package_manager(self) -> None:
        words = [line.split("#")[0] for line in archive.startup_script().splitlines()]
        text = "\n".join(words)
        assert not any(word in text for word in ("set -x", "set -o xtrace", "gcloud", "apt", "pip ", "snap"))
