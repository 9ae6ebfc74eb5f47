"""The startup script, run by a real bash as at boot: it puts the supervisor into place, or says why it cannot."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import archive
from tests.containers.supervisor.booting_machine import BootingMachine
from tests.fakes.machine_commands import MachineCommands

KEEP = "systemctl mask --now apt-daily.timer apt-daily-upgrade.timer"
NEEDED = ("mkdir", "rm", "sleep", "curl", "base64")


class Boot(BootingMachine):
    """A machine with chips."""

    def __init__(self, folder: Path) -> None:
        self.machine = MachineCommands(folder)
        super().__init__(folder, self.machine, NEEDED, archive.startup_script())
        (self.tools / "python3").symlink_to(sys.executable)
        self.units.mkdir()


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    machine = Boot(tmp_path)
    yield machine
    machine.close()


class TestTheStartupScript:
    def test_the_startup_script_puts_the_supervisor_into_place_and_starts_it(self, boot: Boot) -> None:
        done = boot.run()
        assert done.returncode == 0, done.stdout + done.stderr
        assert boot.program == archive.supervisor()
        assert boot.state.stat().st_mode & 0o777 == 0o700
        assert "supervisor.pyz run" in boot.unit
        assert "Restart=always" in boot.unit
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
        assert boot.program == newer
        assert "systemctl --no-block restart gemma4-supervisor.service" in boot.did()

    def test_the_startup_script_waits_for_a_metadata_server_that_is_late(self, boot: Boot) -> None:
        boot.metadata.away = "silent"
        threading.Timer(0.2, lambda: setattr(boot.metadata, "away", "")).start()
        assert boot.run(tries=200).returncode == 0

    def test_the_startup_script_asks_again_where_an_answer_breaks_off(self, boot: Boot) -> None:
        curl = (boot.tools / "curl").readlink()
        cut = boot.state.parent / "cut"
        half = archive.in_base64(archive.supervisor())[:4000]
        boot.put(
            "curl", f"[ -e {cut} ] && exec {curl} \"$@\"\n: > {cut}\nprintf '{half}\\n200'\nexit 18  # a partial file"
        )
        done = boot.run()
        assert done.returncode == 0, done.stdout + done.stderr
        assert boot.program == archive.supervisor()

    def test_the_startup_script_waits_for_a_command_that_the_first_boot_still_installs(self, boot: Boot) -> None:
        (boot.tools / "docker").unlink()
        threading.Timer(0.2, lambda: (boot.tools / "docker").symlink_to(boot.machine.bin / "docker")).start()
        assert boot.run(tries=200).returncode == 0
        assert "systemctl enable gemma4-supervisor.service" in boot.did()

    @pytest.mark.parametrize("missing", ["python3", "systemctl", "docker"])
    def test_the_startup_script_says_in_one_line_what_the_machine_lacks(self, boot: Boot, missing: str) -> None:
        (boot.tools / missing).unlink()
        assert boot.error().startswith(f"{missing} is not on this machine's image.")
        assert boot.did() == []

    def test_the_startup_script_refuses_a_python_that_is_too_old(self, boot: Boot) -> None:
        boot.put("python3", "[ \"$1\" = -V ] && echo 'Python 3.8.10'\nexit 1")
        assert "older than 3.10. Python 3.8.10" in boot.error()

    @pytest.mark.parametrize(
        ("value", "words"), [(None, "gemma4-supervisor cannot be read"), ("bm8gcHJvZ3JhbQ==", "cannot be installed")]
    )
    def test_the_startup_script_says_when_there_is_nothing_to_install(
        self, boot: Boot, value: str | None, words: str
    ) -> None:
        boot.metadata.set("gemma4-supervisor", value)
        assert words in boot.error()

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
