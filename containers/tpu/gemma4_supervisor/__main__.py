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

from containers.shared.web import TransientError

from .cloud_log import CloudLog
from .context import Context
from .controller import Controller
from .docker import Docker
from .huggingface import token_files
from .installation import Installation, InstallError, machine_goes_down
from .log import Log
from .machine_status import MachineStatus
from .metadata_server import SUPERVISOR, MetadataServer
from .server_output import ServerOutput
from .state import SavedState
from .supervisor_settings import SupervisorSettings

USAGE = "usage: supervisor.pyz run | install | install-files"


class Stopped(BaseException):
    """systemd wants this process to end. What serves goes on without it."""


def main(argv: Sequence[str]) -> int:
    settings = SupervisorSettings.of(os.environ)
    command = argv[0] if len(argv) == 1 else ""
    if command == "run":
        return run(settings)
    if command not in ("install", "install-files"):
        print(USAGE, file=sys.stderr)
        return 2
    installation = Installation(settings)
    try:
        installation.install(start=command == "install")
    except (InstallError, OSError) as error:
        print(f"The supervisor {installation.version} cannot be installed: {error}", file=sys.stderr)
        return 1
    print(f"supervisor {installation.version}: {command} done")
    return 0


def run(settings: SupervisorSettings) -> int:
    """Keep the node's container until told to stop. What goes wrong inside ends the process; systemd starts it anew."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    log = Log()
    _make_room(settings)
    _hide_tokens(settings, log)
    installation = Installation(settings)
    metadata = MetadataServer(settings, log)
    cloud_log = CloudLog(settings, metadata, log)
    log.listener = cloud_log.add
    report = (metadata.publish, settings.report_s, settings.report_cap_s)
    status = MachineStatus(log, settings.run_dir / "status.json", *report)
    stumble = functools.partial(_stumble, log, status, cloud_log)
    threading.excepthook = lambda fault: stumble(fault.exc_value or fault.exc_type())
    status.set(supervisor=installation.version, maintenance=None)
    state = SavedState(settings.state_dir / "state.json", settings.weights_root, status)
    docker = Docker(settings, log)
    output = ServerOutput(docker, cloud_log.add_line)
    context = Context(settings, log, status, metadata, docker, state, output)
    log.info("begin", f"Supervisor {installation.version} begins.", version=installation.version)
    cloud_log.collect = output.collect
    cloud_log.start()

    def let_go() -> None:
        controller.halt()
        cloud_log.flush()

    controller = Controller(context, lambda value: installation.give_way(value, log, status, let_go))
    try:
        _upgrade_first(installation, metadata, log, status, cloud_log.flush)
        controller.run()
    except Stopped:
        if goes_down := machine_goes_down():
            controller.shut()
        what = "closed, as the machine goes down" if goes_down else "left as it is, like the container"
        log.info("end", f"Told to stop; the port is {what}.")
        controller.halt()
        cloud_log.flush()
        os._exit(0)  # threads may still wait for the network
    except Exception as error:
        stumble(error)


def _stumble(log: Log, status: MachineStatus, cloud_log: CloudLog, error: BaseException) -> NoReturn:
    """A fault of ours, on whichever thread: say where, and let systemd start afresh. Container and port stay."""
    try:
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        log.error("fault", "The supervisor stumbled over itself.", stack=log.clean(stack))
        status.end("supervisor", f"Unexpected {type(error).__name__}: {error}. It starts again.")
        cloud_log.flush()
    finally:
        os._exit(1)


def _upgrade_first(
    installation: Installation, metadata: MetadataServer, log: Log, status: MachineStatus, before: Callable[[], None]
) -> None:
    """Before anything that could fail in this version: a better one may be waiting."""
    try:
        installation.give_way(metadata.read(SUPERVISOR), log, status, before)
    except TransientError:
        return  # the watch will see it


def _make_room(settings: SupervisorSettings) -> None:
    settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in settings.run_dir.glob("docker-*"):  # a login that was cut short
        shutil.rmtree(left, ignore_errors=True)
    (settings.run_dir / "container.env").unlink(missing_ok=True)


def _hide_tokens(settings: SupervisorSettings, log: Log) -> None:
    """Before a word is said: an earlier supervisor gave them to what runs, which may repeat them."""
    for path in token_files(settings.run_dir):
        log.hide(path.read_text(errors="replace").strip())


def _stop(*_: object) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise Stopped


def start() -> NoReturn:
    """Run the command that the process was started with."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    start()
