"""A TPU machine in small that serves with a real vLLM on this CPU: the container that its real supervisor asks docker for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fakes.docker import Behaviour, FakeContainer
from tests.fakes.google.dns import Dns
from tests.fakes.tpu_machine import MEMBER, QUICK, ZONE, TpuMachine
from tests.lab.servers import ENVIRONMENT, FLAGS, LAB, START_LIMIT_S, TOOLS

DRAIN_S = 600
"""Longest time for a server to finish what it answers: this machine may have much else to do."""


class VllmContainer(FakeContainer):
    """A container whose command is a process of the laboratory's vLLM."""

    process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def row(self) -> dict[str, Any]:
        code = self.process.poll() if self.process else None
        if code is not None:
            self.exit_code = code if code >= 0 else 128 - code
        return super().row()

    def start(self, behaviour: Behaviour) -> None:
        assert LAB
        program, *arguments = self.command
        self.process = subprocess.Popen(
            [str(LAB / "venv/bin" / program), *arguments],
            env={**os.environ, **ENVIRONMENT, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def stop(self) -> None:
        if self.process and self.running:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(float(self.options["--stop-timeout"][0]))
        self.end(137)

    def end(self, code: int) -> None:
        """End all of its processes at once, as `kill -9` does, whatever the code."""
        if self.process:
            with suppress(ProcessLookupError):  # it may have ended
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _read(self) -> None:
        assert self.process
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                self.print(line.decode(errors="replace").rstrip())


class VllmMachine(TpuMachine):
    """The machine of a member called `name`. Its supervisor has the settings that it has on a real machine.

    Machines have one pair of ports and one Cloud DNS: those of the machine `beside` this one.
    """

    def __init__(self, folder: Path, name: str, address: str, beside: VllmMachine | None = None) -> None:
        super().__init__(folder)
        self.metadata.values["network-interfaces/0/ip"] = self.environ["GEMMA4_READY_ADDRESS"] = address
        self.name, self.host = name, address
        self.machine.docker.runs = VllmContainer
        for setting in QUICK:
            del self.environ[f"GEMMA4_{setting}"]
        self.environ["GEMMA4_IMAGE_GIB"] = "0"
        self.dns: Dns = beside.dns if beside else self.google.dns
        if beside:
            self.port, self.ready_port = beside.port, beside.ready_port
            self.environ["GEMMA4_READY_PORT"] = str(self.ready_port)
            self.environ["GEMMA4_DNS_URL"] = beside.environ["GEMMA4_DNS_URL"]
        self.rename(name)

    def rename(self, name: str) -> None:
        """Have the machine answer to this name from now on."""
        self.name = name
        self.metadata.set("gemma4-member", json.dumps({**MEMBER, "name": name, "record": self.record}))

    def serve_with(self, model: Path) -> None:
        """Stage a checkpoint, and ask for a server of it that is called by `hash` as well."""
        self.stage(files={file.name: file.read_bytes() for file in model.iterdir()})
        names = ("--served-model-name", "gemma", self.hash)
        place = ("--host", "${VPC_ADDRESS}", "--port", "${PORT}", "--shutdown-timeout", str(DRAIN_S - 5))
        argv = ["vllm", "serve", self.destination(), *names, *place, *FLAGS, *TOOLS]
        self.want(self.hash, argv=argv, env={}, readyTimeoutSeconds=START_LIMIT_S, drainSeconds=DRAIN_S)

    @property
    def hash(self) -> str:
        return f"spec-of-{self.host}"

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def record(self) -> str:
        return f"{self.name}.{ZONE}.internal."

    @property
    def address(self) -> str:
        return self.dns.addresses(ZONE).get(self.record, "")

    @property
    def is_ready(self) -> bool:
        return self.ask(f"/ready/{self.name}")[0] == 200

    @property
    def vllm(self) -> VllmContainer:
        container = self.container
        assert isinstance(container, VllmContainer)
        return container
