"""A machine that is drained takes no new requests, finishes those that it has, and can be had back."""

from __future__ import annotations

import http.client
import json
import threading

import pytest

from tests.fakes.gpu_machine import GpuMachine
from tests.fakes.tpu_machine import ADDRESS, NAME, ZONE, TpuMachine


class Stream:
    """One streamed answer of the machine's server, read to its end."""

    def __init__(self, tpu: TpuMachine, port: int = 0) -> None:
        self.text = ""
        self._connection = http.client.HTTPConnection(ADDRESS, port or tpu.port, timeout=20)
        self._connection.request("POST", "/v1/chat/completions", json.dumps({"model": "spec-a", "stream": True}))
        self._response = self._connection.getresponse()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        self.text = self._response.read().decode()


class TestADrain:
    def test_a_drain_lets_a_long_stream_end_and_keeps_new_requests_away(self, serving: TpuMachine) -> None:
        serving.until(lambda: serving.address == "127.0.0.2", "the address")
        stream, before = Stream(serving), serving.container
        serving.metadata.set("gemma4-drain", "true")
        serving.until(lambda: serving.status["stage"] == "draining", "the drain")
        assert serving.ask(f"/ready/{NAME}")[1]["why"] == "the machine is drained"
        serving.until(lambda: serving.address == "127.0.0.1", "the placeholder")
        asked = before.requests.count("/metrics")
        serving.until(lambda: before.requests.count("/metrics") >= asked + 10, "some looks")
        assert serving.status["stage"] == "draining"
        before.may_end.set()
        serving.until(lambda: json.loads(serving.metadata.reports[-1])["stage"] == "drained", "the report")
        stream.thread.join(10)
        assert stream.text.endswith("[DONE]\n\n")
        assert serving.container is before  # it goes on
        assert serving.ask("/alive")[0] == 200

    def test_a_drain_ends_at_its_limit_whatever_is_left(self, tpu: TpuMachine) -> None:
        tpu.configure(DRAIN_CAP_S="0.3")
        tpu.serve("spec-a")
        Stream(tpu)
        tpu.metadata.set("gemma4-drain", "true")
        tpu.until(lambda: tpu.status["stage"] == "drained", "the limit")
        assert "1 requests are left" in tpu.said("drain")[-1]["message"]

    def test_a_drain_waits_for_each_of_several_servers(self, gpu: GpuMachine) -> None:
        gpu.want("spec-a")
        gpu.start()
        gpu.until_ready(0, 1, 2, 3)
        Stream(gpu, gpu.places[2]["port"])
        gpu.metadata.set("gemma4-drain", "true")
        gpu.until_ready()
        looks = [gpu.server(number).requests.count("/metrics") for number in range(4)]
        gpu.until(
            lambda: all(gpu.server(n).requests.count("/metrics") > look + 10 for n, look in enumerate(looks)),
            "some looks",
        )
        assert gpu.status["stage"] == "draining"
        gpu.server(2).may_end.set()
        gpu.until(lambda: gpu.status["stage"] == "drained", "the drain")

    def test_a_drain_that_is_undone_brings_the_machine_back(self, serving: TpuMachine) -> None:
        serving.metadata.set("gemma4-drain", "true")
        serving.until(lambda: serving.status["stage"] == "drained", "the drain")
        serving.until(lambda: serving.address == "127.0.0.1", "the placeholder")
        serving.metadata.set("gemma4-drain", None)
        serving.until_serving("spec-a")
        serving.until(lambda: serving.address == "127.0.0.2", "the address")
        assert serving.machine.actions == []

    def test_a_drain_outlives_the_supervisor(self, serving: TpuMachine) -> None:
        serving.metadata.set("gemma4-drain", "true")
        serving.until(lambda: serving.status["stage"] == "drained", "the drain")
        serving.kill()
        serving.metadata.refused.add("attributes/gemma4-drain")  # it comes late
        serving.start()
        serving.until(lambda: serving.said("adopted") and len(serving.said("wanted")) == 2, "the next one")
        assert serving.ask(f"/ready/{NAME}")[0] == 503
        serving.metadata.refused.clear()
        serving.until(lambda: serving.status["stage"] == "drained", "the drain")
        assert serving.taken == [True, False]  # and not True for a moment
        assert serving.google.dns.addresses(ZONE) == {f"{NAME}.{ZONE}.internal.": "127.0.0.1"}

    def test_a_drain_keeps_away_requests_from_a_server_that_starts_meanwhile(self, serving: TpuMachine) -> None:
        serving.metadata.set("gemma4-drain", "true")
        serving.until(lambda: serving.status["stage"] == "drained", "the drain")
        serving.want("spec-b")
        serving.until(lambda: len(serving.said("serving")) == 2, "spec-b")
        assert not serving.is_ready

    @pytest.mark.parametrize("text", ["false", "", "0"])
    def test_no_drain_is_begun_by_any_other_value(self, tpu: TpuMachine, text: str) -> None:
        tpu.metadata.set("gemma4-drain", text)
        tpu.serve("spec-a")


class TestAPlannedStop:
    def test_a_planned_stop_cuts_no_stream(self, serving: TpuMachine) -> None:
        stream, before = Stream(serving), serving.container
        serving.want("spec-b")
        serving.until(lambda: "stop" in serving.machine.actions, "the stop")
        before.may_end.set()
        serving.until_serving("spec-b")
        stream.thread.join(10)
        assert stream.text.endswith("[DONE]\n\n")
