"""The commands: `run`, `install` (also at boot), and `install-files`, which installs without starting anything."""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from containers.shared.web import TransientError

from .accelerators import Accelerators
from .all_reduce_check import AllReduceCheck
from .cloud_log import CloudLog
from .context import Context
from .controller import Controller
from .docker import Docker
from .huggingface import token_files
from .installation import Installation, InstallError, machine_goes_down
from .log import Log
from .machine_status import MachineStatus
from .metadata_server import SUPERVISOR, MetadataServer
from .readiness_server import Readiness, ReadinessServer
from .state import SavedState
from .supervisor_settings import SupervisorSettings

USAGE = "usage: supervisor.pyz run | install | install-files"


class Stopped(BaseException):
    """systemd asks this process to end. The container goes on without it."""


def main(argv: Sequence[str]) -> int:
    """Carry out one command; returns its exit code."""
    settings = SupervisorSettings.of(os.environ)
    command = argv[0] if len(argv) == 1 else ""
    if command == "run":
        return supervise(settings)
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


def supervise(settings: SupervisorSettings) -> int:
    """Keep the container running until told to stop. An unexpected error ends the process; systemd starts it again."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    log = Log()
    for folder in (settings.state_dir, settings.run_dir):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for login in settings.run_dir.glob("docker-*"):  # one that was cut short
        shutil.rmtree(login, ignore_errors=True)
    # Before anything is logged: an earlier supervisor gave these tokens to the container, which may print them.
    for path in token_files(settings.run_dir):
        log.hide(path.read_text(errors="replace").strip())
    installation = Installation(settings)
    metadata = MetadataServer(settings, log)
    cloud_log = CloudLog(settings, metadata, log)
    log.listener = cloud_log.add
    report = (metadata.publish, settings.report_s, settings.report_cap_s)
    status = MachineStatus(log, settings.run_dir / "status.json", *report)
    end_on_bug = functools.partial(_end_on_bug, log, status, cloud_log)
    threading.excepthook = lambda raised: end_on_bug(raised.exc_value or raised.exc_type())
    status.set(supervisor=installation.version, maintenance=None)
    state = SavedState(settings.state_dir / "state.json", settings.weights_root, status)
    docker = Docker(settings, log)
    accelerators = Accelerators(settings.device_dir, settings.started_by == "container", docker, log)
    all_reduce = AllReduceCheck(settings, docker, accelerators, log)
    readiness = Readiness(settings, log, status)
    events: queue.Queue[Callable[[], None]] = queue.Queue()
    parts = (log, status, metadata, docker, accelerators, all_reduce, state, readiness)
    context = Context(settings, *parts, events.put, cloud_log.add_line)
    log.info("begin", f"Supervisor {installation.version} begins.", version=installation.version)

    def prepare_to_end() -> None:
        controller.halt()
        cloud_log.flush()

    controller = Controller(context, events, lambda value: installation.upgrade_to(value, log, status, prepare_to_end))
    cloud_log.collect = controller.collect_output
    cloud_log.start()
    try:
        # Before anything that could fail in this version: a better one may be waiting.
        with contextlib.suppress(TransientError):
            installation.upgrade_to(metadata.read(SUPERVISOR), log, status, cloud_log.flush)
        ReadinessServer(settings, status, readiness).start()
        controller.run()
    except Stopped:
        if machine_goes_down(settings):
            controller.leave_gateways()  # docker ends the container once this process has ended
        log.info("end", "Told to stop; the container is left as it is.")
        prepare_to_end()
        os._exit(0)  # threads may still wait for the network
    except Exception as error:
        end_on_bug(error)


def _end_on_bug(log: Log, status: MachineStatus, cloud_log: CloudLog, error: BaseException) -> NoReturn:
    """Report an unexpected error of any thread and end the process. The container stays as it is."""
    try:
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        log.error("fault", "A bug of the supervisor ended it. systemd starts it again.", stack=log.redacted(stack))
        status.end("supervisor", f"Unexpected {type(error).__name__}: {error}. It starts again.")
        cloud_log.flush()
    finally:
        os._exit(1)


def _stop(*_: object) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise Stopped


def start() -> NoReturn:
    """Run the command that the process was started with."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    start()
