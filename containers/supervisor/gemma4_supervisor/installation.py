"""Installs this program as a systemd service, and replaces it by another version while it runs.

The program is one file, a zip archive that Python executes; the machine's metadata carry it in base64. Where it runs in a
container, the machine's startup script has installed it, and only the file is replaced.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from containers.shared.web import reason_of

from .log import Log
from .machine_status import MachineStatus
from .supervisor_settings import SupervisorSettings
from .whole_file import write_whole

UNIT = "gemma4-supervisor.service"
PYTHON = (sys.executable, "-I", "-S")
"""Without environment variables and installed packages: all that the program needs is in its archive."""
CHECK_S = 60.0
GOING_DOWN = "going-down"
APT_TIMERS = ("apt-daily.timer", "apt-daily-upgrade.timer")
"""They start unattended upgrades on Ubuntu."""


class InstallError(Exception):
    """systemd refused a command."""


class Installation:
    """The archive that this process runs from, and its place on the machine."""

    def __init__(self, settings: SupervisorSettings) -> None:
        self._settings = settings
        self.file = Path(sys.argv[0]).resolve()
        self._data = self.file.read_bytes()
        self.version = _version(self._data)
        self._place = settings.state_dir / "supervisor.pyz"

    def install(self, *, start: bool) -> None:
        """Put this program and its unit where systemd finds them; with `start`, make it run.

        Doing it again changes nothing, and does not disturb a supervisor of the same version. Raises InstallError.
        """
        self._settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        is_new = _write_if_different(self._place, self._data)
        if self._settings.started_by == "container":
            return
        unit = pkgutil.get_data("containers.supervisor", UNIT) or b""
        if _write_if_different(self._settings.unit_dir / UNIT, unit):
            is_new = True
            _systemctl("daemon-reload")
        if start:
            _stop_unattended_upgrades()
            _systemctl("enable", UNIT)
            # Without waiting: at boot systemd may start docker only after the startup script, which runs this.
            _systemctl("--no-block", "restart" if is_new else "start", UNIT)

    def upgrade_to(self, value: str | None, log: Log, status: MachineStatus, before: Callable[[], None]) -> None:
        """Become the program in `value`, if it is another version and works, after calling `before`. The container goes on."""
        if value is None:
            return
        try:
            data = base64.b64decode(value, validate=True)
        except binascii.Error:
            status.trouble(
                "supervisor", f"The attribute gemma4-supervisor is not base64; version {self.version} goes on."
            )
            return
        version = _version(data)
        if version == self.version:
            status.clear("supervisor")
            return
        fresh = self._settings.state_dir / "incoming.pyz"
        if error := _error_of(fresh, data):
            text = f"Version {version} of the supervisor fails ({error}); version {self.version} goes on."
            status.trouble("supervisor", text)
            return
        log.info("upgrade", f"Version {version} takes over from {self.version}.", version=version)
        fresh.unlink()
        before()
        sys.stdout.flush()
        os.execv(PYTHON[0], [*PYTHON, str(self._place), "run"])  # noqa: S606  no shell is the point


def _stop_unattended_upgrades() -> None:
    """Mask the timers of unattended upgrades: an upgrade of docker ends the container. One that runs already goes on."""
    try:
        _systemctl("mask", "--now", *APT_TIMERS)
    except (InstallError, subprocess.TimeoutExpired) as error:
        print(f"Packages may be upgraded while the machine serves: {error}", file=sys.stderr)


def machine_goes_down(settings: SupervisorSettings) -> bool:
    """Return True if systemd is shutting the machine down: the end of its run duration, a preemption, a reboot.

    In a container systemd cannot be asked; there the unit leaves a file.
    """
    if settings.started_by == "container":
        return (settings.run_dir / GOING_DOWN).exists()
    try:
        return _run("systemctl", "is-system-running", timeout_s=5).stdout.strip() == "stopping"
    except (OSError, subprocess.TimeoutExpired):
        return False


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _error_of(program: Path, data: bytes) -> str:
    """Let a program install itself, which proves that it runs here; returns its error, empty where there is none."""
    try:
        program.write_bytes(data)
        done = _run(*PYTHON, str(program), "install-files")
    except subprocess.TimeoutExpired:
        return f"not done within {CHECK_S:g} s"
    except OSError as error:
        return reason_of(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _write_if_different(path: Path, data: bytes) -> bool:
    """Write a file unless it has this content already; returns True if it was written."""
    if path.is_file() and path.read_bytes() == data:
        return False
    write_whole(path, data, 0o644)
    return True


def _systemctl(*arguments: str) -> None:
    done = _run("systemctl", *arguments)
    if done.returncode:
        raise InstallError(f"{' '.join(done.args)}: {done.stderr.strip()}")


def _run(*command: str, timeout_s: float = CHECK_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False)
