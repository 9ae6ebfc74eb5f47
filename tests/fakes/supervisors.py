"""What the supervisors of all machines at the fake Google do, as far as Google sees it: address, report, drain.

A machine is looked at from outside: its attributes are read, its record is written, its report is published. What the real
supervisor does in between is held by tests/containers/supervisor.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.fakes.google import FakeGoogle

PLACEHOLDER = "127.0.0.1"


class Supervisors:
    """`look` lets each act once. `told` is what happened, in order; `answering` has the members whose drain takes long."""

    def __init__(self, google: FakeGoogle) -> None:
        self.google = google
        self.told: list[str] = []
        self.answering: set[str] = set()
        self.silent: set[str] = set()
        """Members whose supervisor is dead."""
        self.half: set[str] = set()
        """Members of two servers, of which one starts while the other serves."""

    def look(self) -> None:
        google = self.google
        with google.world.lock:
            for name, node in list(google.tpu.nodes.items()):
                if node["state"] == "READY":
                    short, address = name.rsplit("/", 1)[-1], node["networkEndpoints"][0]["ipAddress"]
                    self._act(node["metadata"], address, partial(google.tpu.set_guest_attributes, short))
            for name, one in list(google.compute.resources.items()):
                if "/instances/" in name and one["status"] == "RUNNING":
                    metadata = {each["key"]: each["value"] for each in one["metadata"]["items"]}
                    address = one["networkInterfaces"][0]["networkIP"]
                    self._act(metadata, address, partial(google.compute.publish, one["name"]))

    def addresses(self, zone: str = "gemma4-v6e4") -> dict[str, str]:
        """The addresses of the members that have one, by name."""
        found = self.google.dns.addresses(zone)
        return {name.partition(".")[0]: address for name, address in found.items() if address != PLACEHOLDER}

    @contextmanager
    def at_work(self, every_s: float = 0.2) -> Iterator[None]:
        """Look again and again, in a thread."""
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(every_s):
                self.look()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _act(self, metadata: Mapping[str, str], address: str, publish: Callable[[dict[str, str]], object]) -> None:
        member = json.loads(metadata.get("gemma4-member", "{}"))
        if not member or member["name"] in self.silent:
            return
        name, drained = member["name"], metadata.get("gemma4-drain") == "true"
        stage = "serving" if not drained else "draining" if name in self.answering else "drained"
        address = PLACEHOLDER if drained else address
        if self.google.dns.addresses(member["zone"]).get(member["record"]) != address:
            self.google.dns.write(member["zone"], member["record"], address)
        said = f"{name} {stage}"
        if said not in self.told:
            self.told.append(said)
        report: dict[str, Any] = {"stage": stage, "at": self.google.world.at(0)}
        if name in self.half:
            report["servers"] = [{"name": "gemma4-0", "stage": "serving"}, {"name": "gemma4-1", "stage": "starting"}]
            report["stage"] = stage if drained else "starting"
        publish({"gemma4/status": json.dumps(report)})
