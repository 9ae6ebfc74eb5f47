"""The supervisor where what it stands on gives way: metadata server, disk, docker, and its own code."""

from __future__ import annotations

import json
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest

from containers.supervisor.gemma4_supervisor.metadata_server import AttributeWatch
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings
from tests.containers.supervisor.test_supervisor_readme import README
from tests.fakes.metadata_server import MAINTENANCE
from tests.fakes.tpu_machine import TpuMachine

PACKAGE = "containers.supervisor.gemma4_supervisor"
NOTICE = '{"type": "SCHEDULED", "windowStartTime": "2026-12-01T00:00:00Z"}'


class TestMaintenance:
    @pytest.mark.parametrize("form", ["503", "404", "NONE", "{}"])
    def test_maintenance_is_told_while_it_is_announced_whatever_says_that_it_is_not(
        self, tpu: TpuMachine, form: str
    ) -> None:
        tpu.metadata.unannounced = form
        tpu.serve("spec-a")
        tpu.until(lambda: any(seen.path.endswith(MAINTENANCE) for seen in tpu.metadata.requests), "a look")
        assert not tpu.status["maintenance"]
        tpu.metadata.announce_maintenance(NOTICE)
        tpu.until(lambda: tpu.status.get("maintenance"), "the notice")
        assert json.loads(tpu.status["maintenance"]) == json.loads(NOTICE)
        tpu.metadata.announce_maintenance(None)
        tpu.until(lambda: tpu.status["maintenance"] is None, "the all-clear")
        assert [entry["severity"] for entry in tpu.said("maintenance")] == ["WARNING"]
        assert not tpu.said("trouble")

    def test_maintenance_is_told_again_once_a_server_that_was_away_answers(self, tpu: TpuMachine) -> None:
        tpu.metadata.announce_maintenance(NOTICE)
        tpu.serve("spec-a")
        tpu.until(lambda: tpu.status.get("maintenance"), "the notice")
        tpu.metadata.away = "503"
        tpu.until(lambda: tpu.status["maintenance"] is None, "that nobody knows of any")
        tpu.metadata.away = ""
        tpu.until(lambda: tpu.status["maintenance"], "the same notice again")

    def test_maintenance_is_not_asked_for_without_pause_where_a_server_does_not_wait_for_its_change(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses, told, asked = list[float](), list[str | None](), list[int]()

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                raise EndOfTest

        def at_once(*_: object) -> tuple[str, str]:
            asked.append(len(pauses))
            assert len(asked) < 10, "it asks without a pause"
            return "NONE", "etag"

        monkeypatch.setattr(time, "sleep", pause)
        server: Any = SimpleNamespace(wait=at_once)
        settings = SupervisorSettings(retry_s=2)
        with pytest.raises(EndOfTest):
            AttributeWatch(settings, server, lambda act: act(), MAINTENANCE, told.append).run()
        assert (told, asked, pauses) == (["NONE"], [0, 0, 1, 2], [2, 2, 2])


class EndOfTest(Exception):
    """Ends a thread that goes on for ever."""


class TestTroubleWithTheMetadata:
    def test_trouble_with_the_metadata_is_the_specifications_alone(self, tpu: TpuMachine) -> None:
        tpu.metadata.refused.add("attributes/gemma4-supervisor")
        tpu.serve("spec-a")
        assert not tpu.said("trouble")

    def test_trouble_with_the_metadata_is_not_over_because_other_attributes_can_be_read(self, tpu: TpuMachine) -> None:
        tpu.metadata.refused |= {"attributes/gemma4-spec", "attributes/gemma4-supervisor"}
        tpu.start()
        tpu.until_trouble("metadata")
        tpu.metadata.refused.remove("attributes/gemma4-supervisor")
        seen = len(tpu.metadata.requests)
        tpu.until(lambda: len(tpu.metadata.requests) > seen + 10, "some questions")
        assert not tpu.said("recovered")


class TestAFullDisk:
    """As the supervisor sees one: its files cannot be written."""

    def test_a_full_disk_is_reported_and_stops_no_change(self, serving: TpuMachine) -> None:
        assert serving.process
        full = serving.state / ".state.json.new"
        full.mkdir()
        serving.want("spec-b")
        assert "docker system df" in serving.until_trouble("disk", "state.json")
        serving.until_serving("spec-b")
        serving.machine.docker.behaviour("spec-b").generates = False
        serving.until_refused()
        serving.machine.docker.behaviour("spec-b").generates = True
        full.rmdir()
        serving.until(lambda: not serving.errors, "the all-clear")
        assert serving.process.poll() is None
        state = json.loads((serving.state / "state.json").read_text())
        assert state["servers"][0]["spec"]["hash"] == "spec-b"

    def test_a_full_disk_leaves_the_guest_attributes_where_the_file_cannot_be_written(
        self, serving: TpuMachine
    ) -> None:
        assert serving.process
        full = serving.run_dir / ".status.json.new"
        full.mkdir()
        serving.want("spec-b")
        serving.until(lambda: report(serving)["running"] == "spec-b", "a report")
        assert serving.process.poll() is None
        full.rmdir()
        serving.until(lambda: serving.status["running"] == "spec-b", "the file")
        assert [entry["event"] for entry in serving.entries if "status.json" in entry["message"]] == ["report"]

    def test_a_full_disk_keeps_the_program_that_runs(self, serving: TpuMachine) -> None:
        (serving.state / "incoming.pyz").mkdir()
        serving.publish()
        serving.until_trouble("supervisor", "directory")
        serving.serve("spec-b")


class TestAReport:
    def test_a_report_that_failed_is_sent_again_until_it_arrives(self, serving: TpuMachine) -> None:
        serving.metadata.guest = False
        serving.machine.docker.behaviour("spec-a").generates = False
        serving.until_trouble("serving")
        serving.machine.docker.behaviour("spec-a").generates = True
        serving.until_serving("spec-a")
        serving.until(
            lambda: timeless(serving.metadata.lost[-1]) == timeless(serving.status), "the last change to be lost"
        )
        assert len(serving.said("report")) == 1  # a word about it
        serving.metadata.reports.clear()
        serving.metadata.guest = True
        serving.until(lambda: serving.metadata.reports, "the report")
        assert timeless(report(serving)) == timeless(serving.status)

    def test_a_report_comes_even_if_nothing_has_changed(self, tpu: TpuMachine) -> None:
        tpu.configure(REPORT_CAP_S="0.1")
        tpu.start()
        tpu.until_trouble("spec")
        tpu.until(lambda: tpu.metadata.reports, "a report")
        first, at = len(tpu.metadata.reports), tpu.status["at"]
        tpu.until(lambda: len(tpu.metadata.reports) > first + 3, "more of them")
        tpu.until(lambda: tpu.status["at"] > at, "the file to be of now")


class TestDocker:
    def test_docker_that_is_away_at_the_start_keeps_no_better_version_away(self, serving: TpuMachine) -> None:
        serving.kill()
        serving.machine.docker.down = True
        serving.start()
        serving.until_trouble("docker", "Docker is not running")
        assert serving.status["stage"] in stages()
        serving.publish()
        serving.until(lambda: serving.said("upgrade"), "the upgrade")
        serving.machine.docker.down = False
        serving.until_serving("spec-a")
        assert not serving.errors

    def test_docker_that_answers_nonsense_for_a_moment_is_asked_again(self, serving: TpuMachine) -> None:
        serving.machine.docker.garbled = 2
        serving.until(lambda: not serving.machine.docker.garbled, "the nonsense to be read")
        serving.machine.docker.behaviour("spec-a").generates = False
        serving.until_refused()

    def test_docker_that_quotes_no_text_is_understood(self, serving: TpuMachine) -> None:
        assert serving.process
        serving.machine.docker.behaviour("spec-a").last_output = "bad \udcff byte"
        serving.container.end(1)
        serving.until_serving("spec-a")
        assert serving.process.poll() is None
        assert "bad � byte" in json.dumps(serving.said("trouble"), ensure_ascii=False)

    def test_docker_that_refuses_to_run_is_quoted_with_its_reason(self, serving: TpuMachine) -> None:
        serving.machine.docker.refusals["run"] = "mkdir /x: no space left on device"
        serving.want("spec-b")
        serving.until_trouble("start", "docker run: mkdir /x: no space left on device The boot disk is full")

    def test_docker_whose_container_vanishes_while_it_is_adopted_starts_another(self, serving: TpuMachine) -> None:
        serving.kill()
        serving.machine.docker.vanishes = True
        serving.start()
        serving.until(lambda: "run spec-a" in serving.machine.actions, "spec-a again")
        serving.until_serving("spec-a")


class TestABug:
    @pytest.mark.parametrize(
        "fault",
        [
            f"import {PACKAGE}.probe as it\nit.ProbedServer.look = lambda self: 1 / 0\n",
            f"import {PACKAGE}.preparation as it\nit.Preparation._weights = lambda self: 1 / 0\n",
            f"import {PACKAGE}.controller as it\nit.Controller._on_spec = lambda self, text: 1 / 0\n",
        ],
        ids=["in a probe", "in a preparation that waits for something else", "on the main thread"],
    )
    def test_a_bug_ends_the_supervisor_and_nothing_else(self, serving: TpuMachine, fault: str) -> None:
        serving.kill()
        before = serving.container.id
        serving.program.write_bytes(serving.publish(fault))
        serving.want("spec-b", image="missing:1")
        serving.configure(REPORT_S="30")  # longer than one life of it
        serving.start()
        assert serving.process
        process = serving.process
        serving.until(lambda: process.poll() is not None, "the end")
        assert process.returncode == 1
        assert "ZeroDivisionError" in serving.said("fault")[0]["stack"]
        assert "ZeroDivisionError" in json.dumps(serving.said("trouble"))
        assert "ZeroDivisionError" in serving.metadata.reports[-1]
        assert serving.container.id == before
        assert serving.container.running


class TestAContainer:
    """That runs when the supervisor starts, whatever that one knows of it."""

    def test_a_container_is_known_by_a_version_that_computes_another_fingerprint(self, serving: TpuMachine) -> None:
        before = serving.container.id
        other = f"import {PACKAGE}.desired_spec as it\nit._CONTAINER_FIELDS += ('model',)\n"
        serving.publish(other)
        serving.until(lambda: serving.said("adopted"), "the adoption")
        serving.until(lambda: len(serving.said("wanted")) == 2, "the specification to be read")
        serving.until_serving("spec-a")
        assert serving.container.id == before
        assert False not in serving.taken[1:]

    def test_a_container_that_is_not_known_is_stopped_in_order(self, serving: TpuMachine) -> None:
        serving.kill()
        state = serving.state / "state.json"
        kept: dict[str, Any] = json.loads(state.read_text())
        for run in (*kept["servers"], kept["good"]):
            run["label"] = "of another one"
            run["spec"]["env"] = {}
        state.write_text(json.dumps(kept))
        serving.want("spec-a", env={})
        serving.start()
        serving.until_serving("spec-a")
        assert serving.machine.actions[:2] == ["stop", "run spec-a"]
        stop = serving.machine.ran("docker", "stop")[0]
        assert list(stop.arguments[1:3]) == ["-t", "45"]

    def test_a_container_that_is_not_known_goes_on_until_another_is_here_but_takes_no_new_requests(
        self, serving: TpuMachine
    ) -> None:
        serving.kill()
        (serving.state / "state.json").unlink()
        serving.want("spec-b", image="missing:1")
        serving.start()
        serving.until_trouble("image")
        assert serving.container.running
        assert not serving.is_ready
        serving.serve("spec-c")
        assert serving.machine.actions[-2:] == ["stop", "run spec-c"]
        stop = serving.machine.ran("docker", "stop")[0]
        assert list(stop.arguments[1:3]) == ["-t", "45"]


def report(tpu: TpuMachine) -> dict[str, Any]:
    """The newest in the guest attributes."""
    newest: dict[str, Any] = json.loads(tpu.metadata.reports[-1])
    return newest


def timeless(status: str | dict[str, Any]) -> dict[str, Any]:
    """A status without the time at which it was written."""
    fields: dict[str, Any] = json.loads(status) if isinstance(status, str) else status
    return {**fields, "at": ""}


def stages() -> set[str]:
    """Those that the README lists."""
    (row,) = [line for line in README.splitlines() if line.startswith("| `stage` |")]
    return set(re.findall(r"`(\w+)`", row))
