"""The start of a GPU container: the real script, with made-up drivers and libraries, chooses and then runs the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infra.planning.planner import make_plan
from infra.planning.server.command import CUDA_COMPAT, DRIVER_FILE, HOST_LIBRARIES, START_ON_GPU

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Fri Oct 25 20:02:52 UTC 2024\nGCC version:  gcc 12.2.0\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U22-I3-AM02-24-4)\n"
TELLS = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


@dataclass
class Host:
    """A container's files below `root`: the driver that the host tells, and the libraries of both sides."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def driver_file(self) -> Path:
        return self.root / "version"

    @property
    def compat(self) -> Path:
        return self.root / "cuda compat"

    @property
    def libraries(self) -> Path:
        return self.root / "lib64"

    def driver(self, version: str, wording: str = CLOSED) -> Host:
        self.driver_file.write_text(wording.format(version))
        self.libraries.mkdir(exist_ok=True)
        (self.libraries / "libcuda.so.1").touch()
        return self

    def library(self, *names: str) -> Host:
        self.compat.mkdir(exist_ok=True)
        for name in names:
            (self.compat / name).touch()
        return self

    def smi(self, answer: str, code: int = 0) -> Host:
        """An nvidia-smi that says `answer`."""
        tool = self.root / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\nprintf '%s\\n' '{answer}'\nexit {code}\n")
        tool.chmod(0o755)
        return self

    def start(self, choice: str, *command: str) -> tuple[list[str], dict[str, str], str]:
        """Arguments and environment that the command sees, and what stands on standard error."""
        places = [str(place) for place in (self.driver_file, self.compat, self.libraries)]
        script = START_ON_GPU.read_text("utf-8")
        words = ["bash", "-c", script, START_ON_GPU.stem, choice, *places, sys.executable, "-c", TELLS, *command]
        environment = {"PATH": f"{self.root}:{os.environ['PATH']}", **self.environment}
        ran = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=30)
        assert ran.returncode == 0, ran.stderr
        arguments, seen = json.loads(ran.stdout)
        return arguments, seen, ran.stderr

    def chosen(self, choice: str) -> str:
        """Whose library comes first: compat, host, or image where nothing was changed."""
        _, seen, said = self.start(choice)
        assert said.count("\n") == 1, "one line, no more"
        first = seen.get("LD_LIBRARY_PATH", "").partition(":")[0]
        decided = "VLLM_ENABLE_CUDA_COMPATIBILITY" in seen
        assert not decided or seen["VLLM_ENABLE_CUDA_COMPATIBILITY"] == "0", "vLLM must not choose again"
        if not decided:
            assert "the image decides" in said
            assert first == self.environment.get("LD_LIBRARY_PATH", "").partition(":")[0]
            return "image"
        return {str(self.compat): "compat", str(self.libraries): "host"}[first]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


CUDA_13 = ("libcuda.so", "libcuda.so.1", "libcuda.so.580.82.07", "libnvidia-nvvm.so.580.82.07")


class TestAutoTakesTheLibraryThatFitsTheDriver:
    @pytest.mark.parametrize(
        ("version", "wording", "chosen"),
        [
            ("535.216.03", CLOSED, "compat"),
            ("550.90.07", OPEN, "compat"),
            ("570.08.09", CLOSED, "compat"),
            ("580.65.06", CLOSED, "host"),
            ("580.82.07", OPEN, "host"),
            ("595.10", OPEN, "host"),
            ("1000.1.2", CLOSED, "host"),
            ("470.199.02", CLOSED, "image"),
        ],
        ids=["older", "older, open", "older, with noughts", "same branch", "equal", "newer", "four digits", "too old"],
    )
    def test_by_the_branch(self, host: Host, version: str, wording: str, chosen: str) -> None:
        assert host.driver(version, wording).library(*CUDA_13).chosen("auto") == chosen

    @pytest.mark.parametrize(
        "content", ["", "garbage\n", "NVRM version: none\n", "NVRM version: NVIDIA UNIX x86_64 Kernel Module 5.1 x\n"]
    )
    def test_a_driver_that_cannot_be_read_leaves_it_to_the_image(self, host: Host, content: str) -> None:
        host.library(*CUDA_13).driver_file.write_text(content)
        assert host.smi("No devices were found", 6).chosen("auto") == "image"

    def test_nvidia_smi_is_asked_where_no_file_tells(self, host: Host) -> None:
        assert host.library(*CUDA_13).smi("535.216.03").chosen("auto") == "compat"
        host.driver_file.write_text("garbage\n")
        assert host.chosen("auto") == "compat"

    def test_the_name_of_the_hosts_own_library_tells_the_driver_too(self, host: Host) -> None:
        host.library(*CUDA_13).libraries.mkdir()
        (host.libraries / "libcuda.so.535.216.03").touch()
        assert host.chosen("auto") == "compat"
        assert host.smi("580.82.07").chosen("auto") == "compat"
        assert host.driver("580.82.07").chosen("auto") == "host"

    def test_the_file_is_believed_before_nvidia_smi(self, host: Host) -> None:
        assert host.driver("580.82.07").library(*CUDA_13).smi("535.216.03").chosen("auto") == "host"

    @pytest.mark.parametrize("names", [(), ("libcuda.so", "libcuda.so.1"), ("libcuda.so.garbage",)])
    def test_without_a_compatibility_library_the_image_decides(self, host: Host, names: tuple[str, ...]) -> None:
        host.driver("535.216.03").library(*names)
        assert host.chosen("auto") == "image"

    def test_without_anything_the_image_decides(self, host: Host) -> None:
        assert host.chosen("auto") == "image"

    def test_what_was_found_is_said(self, host: Host) -> None:
        said = host.driver("535.216.03").library(*CUDA_13).start("auto")[2]
        assert said == (
            "start_on_gpu (serving.cudaCompatibility: auto): the host's driver is 535, the image's compatibility library "
            "580: the compatibility library comes first\n"
        )


class TestAlwaysAndNever:
    @pytest.mark.parametrize("version", ["470.1", "535.216.03", "580.82.07", "595.10"])
    def test_they_ask_no_driver(self, host: Host, version: str) -> None:
        host.driver(version).library(*CUDA_13)
        assert (host.chosen("always"), host.chosen("never")) == ("compat", "host")

    def test_always_cannot_take_what_is_not_there(self, host: Host) -> None:
        assert host.driver("535.216.03").chosen("always") == "image"


class TestTheCommandIsRunAsItIs:
    def test_every_word_arrives(self, host: Host) -> None:
        words = ["vllm", "--limit", '{"image":4}', "a b", "", "$HOME", "`x`", "*", "'", "--", "ü"]
        assert host.driver("580.82.07").start("auto", *words)[0] == words

    def test_what_stands_in_the_path_stays_behind(self, host: Host) -> None:
        host.environment = {"LD_LIBRARY_PATH": "/mine:/theirs", "OTHER": "1"}
        host.driver("535.216.03").library(*CUDA_13)
        _, seen, _ = host.start("auto")
        assert seen["LD_LIBRARY_PATH"] == f"{host.compat}:/mine:/theirs"
        assert seen["OTHER"] == "1"

    def test_no_empty_place_is_searched(self, host: Host) -> None:
        """An empty one would mean the current folder."""
        _, seen, _ = host.driver("535.216.03").library(*CUDA_13).start("auto")
        assert seen["LD_LIBRARY_PATH"] == str(host.compat)

    def test_its_exit_status_is_the_containers(self, host: Host) -> None:
        script = START_ON_GPU.read_text("utf-8")
        words = ["bash", "-c", script, "start", "auto", "/a", "/b", "/c", "bash", "-c", "exit 7"]
        assert subprocess.run(words, capture_output=True, timeout=30).returncode == 7

    def test_a_platform_that_fills_in_variables_finds_none(self) -> None:
        """Kubernetes, which Cloud Run's API is made after, replaces $(NAME) in a command, and $$ by $."""
        script = START_ON_GPU.read_text("utf-8")
        assert "$(" not in script
        assert "$$" not in script


class TestThePlan:
    def test_a_gpu_is_started_by_the_script_with_the_real_places(self) -> None:
        for accelerator in ("l4", "rtx-pro-6000", "g4-1"):
            command = make_plan("test", {"model": "gemma-4-e4b-it", "accelerator": accelerator}).command
            assert command.wrapper[:2] == ("bash", "-c")
            assert command.wrapper[2] == START_ON_GPU.read_text("utf-8")
            assert command.wrapper[3:] == ("start_on_gpu", "auto", DRIVER_FILE, CUDA_COMPAT, HOST_LIBRARIES)
            assert command.argv[:2] == ("vllm", "serve")

    def test_a_tpu_is_started_by_nothing_before_vllm(self) -> None:
        assert make_plan("test", {"model": "gemma-4-e4b-it", "accelerator": "v6e-1"}).command.wrapper == ()

    def test_the_choice_is_the_settings(self) -> None:
        base = {"model": "gemma-4-e4b-it", "accelerator": "l4"}
        for choice in ("always", "never"):
            assert choice in make_plan("test", {**base, "serving": {"cudaCompatibility": choice}}).command.wrapper
