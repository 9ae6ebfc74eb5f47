"""A machine with eight GPUs and four servers of two GPUs each, as `TpuMachine` is one with chips and one server."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

from tests.fakes.docker import FakeContainer
from tests.fakes.tpu_machine import NAME, TpuMachine

SERVERS = 4
GPUS_EACH = 2


class GpuMachine(TpuMachine):
    """`places` is the list of servers that a specification has unless it says otherwise."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.rmtree(folder / "dev" / "vfio")
        for name in (*(f"nvidia{number}" for number in range(SERVERS * GPUS_EACH)), "nvidiactl", "nvidia-uvm"):
            (folder / "dev" / name).touch()
        self.environ["GEMMA4_STARTED_BY"] = "container"
        self.places: list[dict[str, Any]] = [
            {"suffix": f"-{number}", "port": self.new_port(), "devices": [GPUS_EACH * number, GPUS_EACH * number + 1]}
            for number in range(SERVERS)
        ]

    def spec(self, name: str, **changes: Any) -> dict[str, Any]:
        return super().spec(name, **{"servers": self.places, **changes})

    def close(self) -> None:
        super().close()
        assert not self.machine.docker.shared

    def server(self, number: int) -> FakeContainer:
        return self.machine.docker.containers[f"gemma4-{number}"]

    @property
    def hashes(self) -> list[str]:
        """The specification of each server's container, blank where it has none now."""
        found = [self.machine.docker.containers.get(f"gemma4-{number}") for number in range(SERVERS)]
        return [each.labels["gemma4.hash"] if each else "" for each in found]

    @property
    def ids(self) -> list[str]:
        """Of the containers in the order of the servers."""
        return [self.server(number).id for number in range(SERVERS)]

    @property
    def ready(self) -> list[int]:
        """The servers to which a gateway would send requests now."""
        return [number for number in range(SERVERS) if self.ask(f"/ready/{NAME}-{number}")[0] == 200]

    def until_ready(self, *numbers: int) -> None:
        self.until(lambda: self.ready == [*numbers], f"the servers {numbers} to be ready")

    def serves(self, name: str) -> bool:
        """As a caller from another machine sees it: all servers run this specification, and take requests."""
        found = [self.machine.docker.containers.get(f"gemma4-{number}") for number in range(SERVERS)]
        return (
            all(each is not None and each.running and each.labels["gemma4.hash"] == name for each in found)
            and len(self.ready) == SERVERS
            and self.status.get("stage") == "serving"
            and self.status.get("running") == name
        )


class ReadinessSamples:
    """Asks a machine for its ready servers again and again, as a gateway does, until closed."""

    def __init__(self, machine: GpuMachine) -> None:
        self.seen: list[list[int]] = []
        self._machine, self._over = machine, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> list[list[int]]:
        self._over.set()
        self._thread.join()
        return self.seen

    def _run(self) -> None:
        while not self._over.wait(0.01):
            self.seen.append(self._machine.ready)
