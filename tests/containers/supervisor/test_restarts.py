"""The supervisor as a process of its own: it ends, is replaced, or the machine reboots, at any moment."""

from __future__ import annotations

import base64
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from containers import archive
from tests.fakes.tpu_machine import BUCKET, HF_TOKEN, NAME, PREFIX, REGISTRY, TpuMachine

OTHER_IMAGE = f"{REGISTRY}/demo/gemma4/vllm-tpu:v0.33.0"


class TestTheMetadataServer:
    @pytest.mark.parametrize("how", ["silent", "503"])
    def test_the_metadata_server_away_at_boot_is_waited_for(self, tpu: TpuMachine, how: str) -> None:
        tpu.metadata.away = how
        tpu.want("spec-a")
        tpu.start()
        tpu.until_trouble("metadata")
        tpu.metadata.away = ""
        tpu.until_serving("spec-a")
        tpu.until(lambda: not tpu.errors, "the errors to go")

    @pytest.mark.parametrize("how", ["silent", "503"])
    def test_the_metadata_server_away_later_leaves_what_serves_alone(self, serving: TpuMachine, how: str) -> None:
        before = serving.container.id
        serving.metadata.away = how
        serving.until_trouble("metadata")
        serving.want("spec-b")
        assert serving.serves("spec-a")
        assert serving.container.id == before
        serving.metadata.away = ""
        serving.until_serving("spec-b")
        serving.until(lambda: not serving.errors, "the errors to go")


class TestASupervisorThatEnds:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_a_supervisor_that_ends_leaves_what_serves_and_the_next_one_adopts_it(
        self, serving: TpuMachine, number: int
    ) -> None:
        before = serving.container.id
        code = serving.kill(number)
        assert code == (0 if number == signal.SIGTERM else -number)
        assert serving.container.running
        assert serving.ask(f"/ready/{NAME}") == (0, {})
        serving.start()
        serving.until(lambda: serving.said("adopted"), "the adoption")
        serving.until(lambda: len(serving.said("wanted")) == 2, "the specification to be read")
        serving.until_serving("spec-a")
        assert serving.container.id == before
        assert serving.machine.actions == []

    def test_a_supervisor_that_ends_and_forgets_everything_still_adopts_it(self, serving: TpuMachine) -> None:
        before = serving.container.id
        serving.kill()
        (serving.state / "state.json").write_text("{half a rec")
        serving.start()
        serving.until(lambda: serving.said("adopted"), "the adoption")
        serving.until_serving("spec-a")
        assert serving.container.id == before

    def test_a_supervisor_that_ends_while_it_fetches_goes_on_fetching(self, serving: TpuMachine) -> None:
        hold = serving.machine.docker.holds.setdefault("pull", threading.Event())
        serving.want("spec-b")
        serving.until(lambda: "pull" in serving.machine.actions, "the pull")
        serving.kill()
        hold.set()
        serving.start()
        serving.until_serving("spec-b")

    def test_a_supervisor_that_ends_while_it_starts_a_container_goes_on_waiting_for_it(
        self, serving: TpuMachine
    ) -> None:
        serving.machine.docker.behaviour("spec-b").healthy = False
        serving.want("spec-b")
        serving.until(lambda: "run spec-b" in serving.machine.actions, "the container")
        serving.until(lambda: serving.status["stage"] == "starting", "the start")
        serving.restart()
        serving.until(lambda: serving.said("adopted"), "the adoption")
        assert not serving.is_ready
        serving.machine.docker.behaviour("spec-b").healthy = True
        serving.until_serving("spec-b")
        assert serving.machine.actions.count("run spec-b") == 1

    def test_a_supervisor_that_ends_with_the_machine_leaves_the_gateways_first(self, serving: TpuMachine) -> None:
        serving.machine.going_down = True
        serving.kill(signal.SIGTERM)
        assert serving.said("ready")[-1]["message"] == f"{NAME} takes no requests: the machine goes down."
        assert serving.container.running  # that one is docker's to end

    @pytest.mark.parametrize("verb", ["stop", "rm", "run"])
    def test_a_supervisor_that_ends_in_the_middle_of_a_switch_loses_nothing(
        self, serving: TpuMachine, verb: str
    ) -> None:
        hold = serving.machine.docker.holds.setdefault(verb, threading.Event())
        serving.want("spec-b")
        serving.until(lambda: serving.machine.ran("docker", verb)[1 if verb == "run" else 0 :], f"docker {verb}")
        serving.kill()
        del serving.machine.docker.holds[verb]
        hold.set()
        serving.start()
        serving.until_serving("spec-b")


class TestAReboot:
    def test_a_reboot_of_what_serves_brings_everything_back(self, serving: TpuMachine) -> None:
        serving.reboot()
        assert not Path(serving.destination()).exists()
        serving.start()
        serving.until_serving("spec-a")
        assert serving.machine.actions == ["run spec-a"]  # the image was still on the disk
        assert Path(serving.destination(), "config.json").exists()

    def test_a_reboot_after_which_the_machine_has_another_address_starts_the_server_there(
        self, serving: TpuMachine
    ) -> None:
        serving.reboot()
        serving.metadata.values["network-interfaces/0/ip"] = "127.0.0.5"
        serving.start()
        serving.until_serving("spec-a")
        assert serving.container.argument("--host") == "127.0.0.5"
        serving.until(lambda: serving.address == "127.0.0.5", "the record")

    def test_a_reboot_in_the_middle_of_a_change_ends_in_the_change(self, serving: TpuMachine) -> None:
        hold = serving.machine.docker.holds.setdefault("pull", threading.Event())
        serving.stage("google/other/main")
        serving.want("spec-b", weights=[_weights(serving, "google/other/main")])
        serving.until(lambda: "pull" in serving.machine.actions, "the pull")
        serving.reboot()
        hold.set()
        serving.start()
        serving.until_serving("spec-b")

    def test_a_reboot_in_the_middle_of_a_start_starts_it_again(self, tpu: TpuMachine) -> None:
        tpu.machine.docker.behaviour("spec-a").healthy = False
        tpu.want("spec-a")
        tpu.start()
        tpu.until(lambda: tpu.status.get("stage") == "starting", "the start")
        tpu.reboot()
        tpu.machine.docker.behaviour("spec-a").healthy = True
        tpu.start()
        tpu.until_serving("spec-a")

    def test_a_reboot_serves_the_old_while_the_new_cannot_be_had(self, serving: TpuMachine) -> None:
        serving.want("spec-b", image=OTHER_IMAGE)
        serving.until_trouble("image")
        serving.reboot()
        serving.start()
        serving.until(lambda: serving.serves("spec-a") and "image" in serving.errors, "spec-a to serve")

    def test_a_reboot_before_docker_answers_is_sat_out(self, serving: TpuMachine) -> None:
        serving.reboot()
        serving.machine.docker.down = True
        serving.start()
        serving.until_trouble("docker")
        serving.machine.docker.down = False
        serving.until_serving("spec-a")
        assert not serving.errors


class TestAnUpgradeOfTheSupervisor:
    @pytest.mark.parametrize(
        ("started_by", "told"),
        [("systemd", ["systemctl daemon-reload"]), ("container", [])],
        ids=["systemd", "container"],
    )
    def test_an_upgrade_replaces_the_program_and_not_the_container(
        self, serving: TpuMachine, started_by: str, told: list[str]
    ) -> None:
        serving.restart(STARTED_BY=started_by)
        serving.until(lambda: serving.said("adopted"), "the adoption")
        assert serving.process is not None
        before, process = serving.container.id, serving.process.pid
        version = serving.status["supervisor"]
        program = serving.publish()
        serving.until(lambda: serving.status["supervisor"] != version, "the new version")
        serving.until(lambda: len(serving.said("adopted")) == 2, "the adoption")
        serving.until_serving("spec-a")
        assert serving.process.pid == process
        assert serving.process.poll() is None
        assert serving.container.id == before
        assert serving.program.read_bytes() == program
        assert serving.machine.actions == told  # in a container, no unit of the machine is touched
        assert not serving.errors

    @pytest.mark.parametrize(
        ("value", "word"),
        [("not base64!", "not base64"), ("bm8gemlwIGZpbGU=", "fails"), (None, "half written")],
        ids=["no base64", "no program", "a program that stumbles"],
    )
    def test_an_upgrade_that_does_not_work_is_refused(self, serving: TpuMachine, value: str | None, word: str) -> None:
        version = serving.status["supervisor"]
        if value is None:
            serving.publish("raise RuntimeError('half written')\n")
        else:
            serving.metadata.set("gemma4-supervisor", value)
        serving.until_trouble("supervisor", word)
        assert serving.status["supervisor"] == version
        serving.serve("spec-b")
        serving.metadata.set("gemma4-supervisor", archive.in_base64(serving.program.read_bytes()))
        serving.until(lambda: not serving.errors, "the error to go")


class TestTheSecretsCheck:
    """A check that could not fail would prove nothing."""

    def test_the_check_for_secrets_finds_a_token_wherever_it_gets_out(self, serving: TpuMachine) -> None:
        serving.kill()
        serving.check_secrets()
        token, systemctl = serving.metadata.issued[0], [str(serving.machine.bin / "systemctl")]
        left = serving.state / "left"
        leaks: list[Callable[[], Any]] = [
            lambda: serving.output.write_text(f"{token}\n"),
            lambda: subprocess.run([*systemctl, f"--{token}"], stdin=subprocess.DEVNULL, env={}, check=True),
            lambda: subprocess.run(systemctl, stdin=subprocess.DEVNULL, env={"T": token}, check=True),
            lambda: serving.metadata.reports.append(f"{{{HF_TOKEN}}}"),
            lambda: left.write_bytes(base64.b64encode(f"oauth2accesstoken:{token}".encode())),
        ]
        for leak in leaks:
            leak()
            with pytest.raises(AssertionError, match="a token can be read"):
                serving.check_secrets()
            serving.output.write_text("")
            serving.machine.commands.clear()
            serving.metadata.reports.clear()
            left.unlink(missing_ok=True)


def _weights(tpu: TpuMachine, prefix: str = PREFIX) -> dict[str, str]:
    return {"bucket": BUCKET, "prefix": prefix, "destination": tpu.destination(prefix)}
