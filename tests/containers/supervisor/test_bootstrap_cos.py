"""The startup script of a machine with GPUs, run by a real bash as at boot: driver, firewall, supervisor in a container."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import archive
from containers.supervisor.gemma4_supervisor.installation import machine_goes_down
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings
from tests.containers.supervisor.booting_machine import BootingMachine
from tests.fakes.docker import Answer
from tests.fakes.machine_commands import FORWARDER, MachineCommands, RanCommand

REGISTRY = "us-east5-docker.pkg.dev"
IMAGE = f"{REGISTRY}/demo/gemma4/python@sha256:{'0' * 64}"
REACH = "10.10.0.0/26=8000:8007 10.10.0.0/26=8090 35.191.0.0/16=8090"
COREUTILS = ("mkdir", "rm", "mv", "cp", "cat", "sleep", "mktemp", "sha256sum", "base64", "curl", "sed")


class CosCommands(MachineCommands):
    """The commands of Container-Optimized OS. An image has python3, and docker where that is among its `programs`."""

    def __init__(self, folder: Path, driver: Path) -> None:
        super().__init__(folder)
        self.driver = driver
        self.pulled: set[str] = set()
        self.programs = {"python3", "docker"}
        self.mounted_docker_runs = True
        self.rules: list[str] = []
        self.driver_works = True
        for name in ("cos-extensions", "mount", "iptables"):
            (self.bin / name).write_text(FORWARDER.format(port=self._server.server_address[1]))
            (self.bin / name).chmod(0o755)

    def carry_out(self, command: RanCommand) -> Answer:
        self.commands.append(command)
        if command.name in self.failing:
            return 1, "", self.failing[command.name]
        if command.name == "docker":
            return self._docker(command)
        if command.name == "iptables":
            return self._iptables(list(command.arguments))
        if command.name == "cos-extensions":
            program = self.driver / "bin" / "nvidia-smi"
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f"#!/bin/bash\nexit {0 if self.driver_works else 9}\n")
            program.chmod(0o755)
        if command.name == "systemctl":
            self.actions.append(" ".join(command.arguments))
        return 0, "", ""

    def _docker(self, command: RanCommand) -> Answer:
        words = command.arguments
        if words[0] == "login":
            Path(command.environ["DOCKER_CONFIG"], "config.json").write_text("in plain")
        elif words[0] == "pull":
            self.pulled.add(words[-1])
        elif words[0] == "image":
            return int(words[-1] not in self.pulled), "", ""
        elif words[0] == "run":
            program = words[words.index("--entrypoint") + 1]
            has_it = program in self.programs or (
                program == "docker" and "--volume" in words and self.mounted_docker_runs
            )
            return (0, "", "") if has_it else (127, "", "exec: not found\n")
        return 0, "", ""

    def _iptables(self, words: list[str]) -> Answer:
        verb = words[2]
        rule = " ".join(words[4:])
        if verb == "-C":
            return int(rule not in self.rules), "", ""
        self.rules.append(rule)
        return 0, "", ""


class CosBoot(BootingMachine):
    """A machine with GPUs."""

    def __init__(self, folder: Path) -> None:
        self.machine = CosCommands(folder, folder / "nvidia")
        attributes = {"gemma4_supervisor_image": IMAGE, "gemma4_reach": REACH}
        super().__init__(folder, self.machine, COREUTILS, archive.startup_script("gpu"), **attributes)

    def reboot(self) -> None:
        """Memory and units are gone, and so are rules and loaded drivers; disks stay."""
        for gone in (self.run_dir, self.units, self.driver):
            shutil.rmtree(gone)
        self.machine.rules.clear()
        self.did()


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[CosBoot]:
    machine = CosBoot(tmp_path)
    yield machine
    machine.close()


RESTART, START = "--no-block restart gemma4-supervisor.service", "--no-block start gemma4-supervisor.service"


class TestTheSupervisorOnAGpuMachine:
    def test_the_supervisor_is_run_by_systemd_in_a_container_that_sees_what_it_needs(self, boot: CosBoot) -> None:
        done = boot.run()
        assert done.returncode == 0, done.stdout + done.stderr
        assert boot.program == archive.supervisor()
        assert boot.did() == ["daemon-reload", RESTART]
        (start,) = [line for line in boot.unit.splitlines() if line.startswith("ExecStart=")]
        words = start.split()
        assert words[words.index("--network") + 1] == "host"
        assert {words[at + 1].split(":")[0] for at, word in enumerate(words) if word == "--volume"} == {
            "/var/run/docker.sock", str(boot.state), str(boot.run_dir), "/dev", "/dev/shm",
        }  # fmt: skip
        assert start.endswith(f"{IMAGE} -I -S {boot.state}/supervisor.pyz run")
        assert "Restart=always" in boot.unit
        assert "--privileged" not in start

    def test_the_supervisor_is_not_disturbed_when_the_script_runs_again(self, boot: CosBoot) -> None:
        boot.run()
        boot.did()
        assert boot.run().returncode == 0
        assert boot.did() == [START]
        assert len(boot.machine.ran("docker", "pull")) == 1
        assert len(boot.machine.rules) == 3

    def test_the_supervisor_comes_back_at_a_reboot_with_everything_that_it_needs(self, boot: CosBoot) -> None:
        boot.run()
        boot.reboot()
        assert boot.run().returncode == 0
        assert boot.did() == ["daemon-reload", RESTART]
        assert len(boot.machine.rules) == 3
        assert len(boot.machine.ran("cos-extensions")) == 2

    def test_the_supervisor_is_replaced_by_a_newer_one(self, boot: CosBoot) -> None:
        boot.run()
        boot.did()
        newer = archive.supervisor("# newer\n")
        boot.metadata.set("gemma4-supervisor", archive.in_base64(newer))
        assert boot.run().returncode == 0
        assert boot.program == newer
        assert RESTART in boot.did()

    def test_the_supervisor_gets_the_machines_docker_command_where_its_image_has_none(self, boot: CosBoot) -> None:
        boot.machine.programs = {"python3"}
        boot.run()
        assert f"--volume {boot.tools}/docker:/usr/local/bin/docker:ro" in boot.unit

    @pytest.mark.parametrize("programs", [{"python3"}, {"docker"}, set()])
    def test_the_supervisor_is_run_by_the_machines_python_where_no_container_can_and_that_is_new_enough(
        self, boot: CosBoot, programs: set[str]
    ) -> None:
        boot.machine.programs = programs
        boot.machine.mounted_docker_runs = False
        assert "Name another image" in boot.error()
        assert not boot.units.exists()
        (boot.tools / "python3").symlink_to(sys.executable)
        assert boot.run().returncode == 0
        assert f"ExecStart={boot.tools}/python3 -I -S {boot.state}/supervisor.pyz run" in boot.unit
        assert "Environment=GEMMA4_STARTED_BY=container" in boot.unit  # its unit is the script's
        assert "going-down" in boot.unit

    def test_the_supervisor_learns_in_a_container_that_the_machine_goes_down(self, boot: CosBoot) -> None:
        boot.run()
        (stop,) = [line for line in boot.unit.splitlines() if line.startswith("ExecStop=")]
        settings = SupervisorSettings(run_dir=boot.run_dir, started_by="container")
        assert not machine_goes_down(settings)
        bash = shutil.which("bash") or "bash"
        environ = {"PATH": f"{boot.tools}:/usr/bin:/bin"}
        for state, goes_down in (("running", False), ("stopping", True)):
            boot.put("systemctl", f"echo {state}")
            subprocess.run([bash, "-c", stop.split("-c '")[1].removesuffix("'")], env=environ, check=True)
            assert machine_goes_down(settings) is goes_down
        boot.run()
        assert not machine_goes_down(settings)  # it has come up again


class TestTheMachinesFirewall:
    def test_the_firewall_lets_in_whom_the_attribute_names_and_nobody_else(self, boot: CosBoot) -> None:
        boot.run()
        assert boot.machine.rules == [
            "-p tcp -s 10.10.0.0/26 --dport 8000:8007 -j ACCEPT",
            "-p tcp -s 10.10.0.0/26 --dport 8090 -j ACCEPT",
            "-p tcp -s 35.191.0.0/16 --dport 8090 -j ACCEPT",
        ]

    @pytest.mark.parametrize("reach", ["0.0.0.0=8000", "10.0.0.0/8", "10.0.0.0/8=8000;reboot", "-s=1"])
    def test_the_firewall_takes_no_entry_that_it_does_not_understand(self, boot: CosBoot, reach: str) -> None:
        boot.metadata.set("gemma4-reach", reach)
        assert "not RANGE=PORT" in boot.error()
        assert boot.machine.rules == []

    def test_the_firewall_of_a_machine_that_nobody_is_to_reach_stays_closed_and_says_so(self, boot: CosBoot) -> None:
        boot.metadata.set("gemma4-reach", None)
        done = boot.run()
        assert done.returncode == 0
        assert "nobody reaches the servers" in done.stdout
        assert boot.machine.rules == []


class TestTheDriver:
    def test_the_driver_is_installed_at_each_boot_and_may_be_run(self, boot: CosBoot) -> None:
        boot.metadata.set("gemma4-driver", "580.95.05")
        boot.run()
        (install,) = boot.machine.ran("cos-extensions")
        assert list(install.arguments) == ["install", "gpu", "--", "-version=580.95.05"]
        assert [each.arguments[:2] for each in boot.machine.ran("mount")] == [
            ["--bind", str(boot.driver)],
            ["-o", "remount,exec"],
        ]

    def test_the_driver_that_does_not_work_is_named(self, boot: CosBoot) -> None:
        boot.machine.driver_works = False
        assert "The driver default of the GPUs does not work" in boot.error()


class TestTheTokenOfTheMachine:
    def test_the_token_is_on_no_command_line_and_no_disk(self, boot: CosBoot) -> None:
        boot.run()
        (token,) = boot.metadata.issued
        (login,) = boot.machine.ran("docker", "login")
        assert login.text.strip() == token
        for command in boot.machine.commands:
            assert token not in str(command)
            assert token not in json.dumps(dict(command.environ))
        config = Path(login.environ["DOCKER_CONFIG"])
        assert config.parent == boot.run_dir
        assert not config.exists()
        assert login.environ["DOCKER_CONFIG"] == boot.machine.ran("docker", "pull")[0].environ["DOCKER_CONFIG"]

    def test_the_token_is_given_to_googles_registries_alone(self, boot: CosBoot) -> None:
        boot.metadata.set("gemma4-supervisor-image", "docker.example/python:3.12")
        assert boot.run().returncode == 0
        assert not boot.machine.ran("docker", "login")


class TestWhatIsMissing:
    @pytest.mark.parametrize("name", ["gemma4-supervisor", "gemma4-supervisor-image"])
    def test_a_missing_attribute_is_named(self, boot: CosBoot, name: str) -> None:
        boot.metadata.set(name, None)
        assert f"{name} cannot be read" in boot.error()
        assert boot.did() == []

    def test_a_metadata_server_that_is_late_is_waited_for(self, boot: CosBoot) -> None:
        boot.metadata.away = "503"
        threading.Timer(0.2, lambda: setattr(boot.metadata, "away", "")).start()
        assert boot.run(tries=200).returncode == 0

    def test_an_image_that_cannot_be_pulled_is_named_with_the_role(self, boot: CosBoot) -> None:
        boot.machine.failing["docker"] = "denied"
        assert "roles/artifactregistry.reader" in boot.error()

    def test_another_operating_system_is_refused(self, boot: CosBoot) -> None:
        (boot.tools / "cos-extensions").unlink()
        assert "cos-extensions is not on this machine's image" in boot.error()

    def test_nothing_is_traced(self) -> None:
        text = "\n".join(line.split("#")[0] for line in archive.startup_script("gpu").splitlines())
        assert not any(word in text for word in ("set -x", "set -o xtrace", "gcloud", "apt", "pip "))
