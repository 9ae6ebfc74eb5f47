"""A machine's commands, put first on the PATH: docker and systemctl that do what the test process says.

Each is a few lines of shell that hand their arguments, environment and input to the test and print what it answers.
"""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.docker import Answer, FakeDocker

COMMANDS = ("docker", "systemctl")
# In bash, and without a further process, because it runs hundreds of times a test. Fields end with a zero byte; an
# empty one ends the environment.
FORWARDER = """\
#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/{port}
IFS= read -r -d '' text
mapfile -d '' -t environ </proc/self/environ
printf '%s\\0' "${{0##*/}}" "$#" "$@" "$text" "${{environ[@]}}" "" >&3
for field in code output errors; do IFS= read -r -d '' "$field" <&3 || exit 99; done
printf '%s' "$output"
printf '%s' "$errors" >&2
exit "$code"
"""


@dataclass(frozen=True)
class RanCommand:
    """One command as it was run."""

    name: str
    arguments: Sequence[str]
    environ: Mapping[str, str]
    text: str
    at: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        return " ".join((self.name, *self.arguments))


class MachineCommands:
    """`commands` is everything that was run; `actions` the same in short, without what only looks."""

    def __init__(self, folder: Path) -> None:
        self.docker = FakeDocker()
        self.commands: list[RanCommand] = []
        self.actions: list[str] = []
        self.failing: dict[str, str] = {}
        self.failing_arguments: dict[str, str] = {}
        """What a command prints that fails because of one of its arguments."""
        self.going_down = False
        self._lock = threading.Lock()
        self._server = _Commands(self)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in COMMANDS:
            script = self.bin / name
            script.write_text(FORWARDER.format(port=self._server.server_address[1]))
            script.chmod(0o755)

    def close(self) -> None:
        self.docker.close()
        self._server.shutdown()
        self._server.server_close()

    def carry_out(self, command: RanCommand) -> Answer:
        with self._lock:
            self.commands.append(command)
        if command.name in self.failing:
            return 1, "", self.failing[command.name]
        for argument in self.failing_arguments.keys() & {*command.arguments}:
            return 1, "", self.failing_arguments[argument]
        if command.name == "docker":
            return self._docker(command)
        if command.name == "systemctl" and "is-system-running" in command.arguments:
            return 1 if self.going_down else 0, "stopping\n" if self.going_down else "running\n", ""
        self.actions.append(str(command))
        return 0, "", ""

    def ran(self, *words: str) -> list[RanCommand]:
        """The commands whose name and first arguments are these."""
        return [each for each in self.commands if (each.name, *each.arguments)[: len(words)] == words]

    def _docker(self, command: RanCommand) -> Answer:
        verb = command.arguments[0]
        if verb == "run":
            labels = [each for each in command.arguments if each.startswith("gemma4.hash=")]
            self.actions += [f"run {label.partition('=')[2]}" for label in labels]
        elif verb in ("pull", "stop"):
            self.actions.append(verb)
        return self.docker.answer(command.arguments, command.environ, command.text)


class _Commands(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, machine: MachineCommands) -> None:
        self.machine = machine
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, *_: object) -> None:
        """Quiet: commands are killed on purpose."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Commands

    def handle(self) -> None:
        name, count = self._field(), int(self._field())
        arguments, text = [self._field() for _ in range(count)], self._field()
        environ = dict(entry.split("=", 1) for entry in iter(self._field, ""))
        code, output, errors = self.server.machine.carry_out(RanCommand(name, arguments, environ, text))
        self.wfile.write(f"{code}\0{output}\0{errors}\0".encode(errors="surrogateescape"))

    def _field(self) -> str:
        data = bytearray()
        while (byte := self.rfile.read(1)) not in (b"\0", b""):
            data += byte
        return data.decode()
