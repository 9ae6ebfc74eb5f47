"""The commands of the archive: run, install (also at boot), install-files (the same without starting anything)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

from .containers import Docker
from .journal import Journal
from .keeper import Keeper
from .metadata import PROGRAM, Metadata
from .preparation import Tools
from .program import InstallError, Program, machine_goes_down
from .record import Record
from .settings import Settings
from .status import Status
from .web import Unreachable

USAGE = "usage: supervisor.pyz run | install | install-files"


class Stopped(BaseException):
    """systemd wants this process to end. What serves goes on without it."""


def main(argv: Sequence[str]) -> int:
    settings = Settings.of(os.environ)
    command = argv[0] if len(argv) == 1 else ""
    if command == "run":
        return run(settings)
    if command not in ("install", "install-files"):
        print(USAGE, file=sys.stderr)
        return 2
    program = Program(settings)
    try:
        program.install(start=command == "install")
    except (InstallError, OSError) as error:
        print(f"The supervisor {program.version} cannot be installed: {error}", file=sys.stderr)
        return 1
    print(f"supervisor {program.version}: {command} done")
    return 0


def run(settings: Settings) -> int:
    """Keep the node's container until told to stop. What goes wrong inside ends the process; systemd starts it anew."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    journal = Journal()
    _make_room(settings)
    program = Program(settings)
    metadata = Metadata(settings, journal)
    status = Status(journal, settings.run_dir / "status.json", metadata.publish, settings.report_s)
    status.set(supervisor=program.version)
    tools = Tools(settings, journal, status, metadata, Docker(settings, journal))
    journal.info("begin", f"Supervisor {program.version} begins.", version=program.version)
    keeper = Keeper(
        tools,
        Record(settings.state_dir / "record.json", settings.weights_root),
        lambda value: program.give_way(value, journal, status, keeper.halt),
    )
    try:
        _upgrade_first(program, metadata, journal, status)
        keeper.run()
    except Stopped:
        if goes_down := machine_goes_down():
            keeper.shut()
        what = "closed, as the machine goes down" if goes_down else "left as it is, like the container"
        journal.info("end", f"Told to stop; the port is {what}.")
        keeper.halt()
        os._exit(0)  # threads may still wait for the network
    except Exception as error:  # a fault of ours: say where, and let systemd start afresh
        status.trouble("supervisor", f"Unexpected {type(error).__name__}: {error}. It starts again.")
        journal.error("fault", "The supervisor stumbled over itself.", stack=journal.clean(traceback.format_exc()))
        time.sleep(min(1.0, settings.report_s))
        os._exit(1)


def _upgrade_first(program: Program, metadata: Metadata, journal: Journal, status: Status) -> None:
    """Before anything that could fail in this version: a better one may be waiting."""
    try:
        program.give_way(metadata.read(PROGRAM), journal, status, lambda: None)
    except Unreachable:
        return  # the watch will see it


def _make_room(settings: Settings) -> None:
    settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in settings.run_dir.glob("docker-*"):  # a login that was cut short
        shutil.rmtree(left, ignore_errors=True)
    (settings.run_dir / "container.env").unlink(missing_ok=True)


def _stop(*_: object) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise Stopped
