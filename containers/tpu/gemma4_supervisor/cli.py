"""The commands of the archive: run, install (also at boot), install-files (the same without starting anything)."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from .cloud_log import CloudLog
from .containers import Docker
from .huggingface import token_files
from .journal import Journal
from .keeper import Keeper
from .metadata import PROGRAM, Metadata
from .output import Output
from .program import InstallError, Program, machine_goes_down
from .record import Record
from .settings import Settings
from .status import Status
from .tools import Tools
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
    _hide_tokens(settings, journal)
    program = Program(settings)
    metadata = Metadata(settings, journal)
    log = CloudLog(settings, metadata, journal)
    journal.listener = log.add
    report = (metadata.publish, settings.report_s, settings.report_cap_s)
    status = Status(journal, settings.run_dir / "status.json", *report)
    stumble = functools.partial(_stumble, journal, status, log)
    threading.excepthook = lambda fault: stumble(fault.exc_value or fault.exc_type())
    status.set(supervisor=program.version, maintenance=None)
    record = Record(settings.state_dir / "record.json", settings.weights_root, status)
    docker = Docker(settings, journal)
    output = Output(docker, log.add_line)
    tools = Tools(settings, journal, status, metadata, docker, record, output)
    journal.info("begin", f"Supervisor {program.version} begins.", version=program.version)
    log.collect = output.collect
    log.start()

    def let_go() -> None:
        keeper.halt()
        log.flush()

    keeper = Keeper(tools, lambda value: program.give_way(value, journal, status, let_go))
    try:
        _upgrade_first(program, metadata, journal, status, log.flush)
        keeper.run()
    except Stopped:
        if goes_down := machine_goes_down():
            keeper.shut()
        what = "closed, as the machine goes down" if goes_down else "left as it is, like the container"
        journal.info("end", f"Told to stop; the port is {what}.")
        keeper.halt()
        log.flush()
        os._exit(0)  # threads may still wait for the network
    except Exception as error:
        stumble(error)


def _stumble(journal: Journal, status: Status, log: CloudLog, error: BaseException) -> NoReturn:
    """A fault of ours, on whichever thread: say where, and let systemd start afresh. Container and port stay."""
    try:
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        journal.error("fault", "The supervisor stumbled over itself.", stack=journal.clean(stack))
        status.end("supervisor", f"Unexpected {type(error).__name__}: {error}. It starts again.")
        log.flush()
    finally:
        os._exit(1)


def _upgrade_first(
    program: Program, metadata: Metadata, journal: Journal, status: Status, before: Callable[[], None]
) -> None:
    """Before anything that could fail in this version: a better one may be waiting."""
    try:
        program.give_way(metadata.read(PROGRAM), journal, status, before)
    except Unreachable:
        return  # the watch will see it


def _make_room(settings: Settings) -> None:
    settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in settings.run_dir.glob("docker-*"):  # a login that was cut short
        shutil.rmtree(left, ignore_errors=True)
    (settings.run_dir / "container.env").unlink(missing_ok=True)


def _hide_tokens(settings: Settings, journal: Journal) -> None:
    """Before a word is said: an earlier supervisor gave them to what runs, which may repeat them."""
    for path in token_files(settings.run_dir):
        journal.hide(path.read_text(errors="replace").strip())


def _stop(*_: object) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise Stopped
