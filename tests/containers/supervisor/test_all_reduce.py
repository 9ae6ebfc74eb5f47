"""The check of GPUs that work together: the program finds wrong sums and hangs, and a server is then started without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from containers.supervisor.gemma4_supervisor import all_reduce_program
from containers.supervisor.gemma4_supervisor.all_reduce_check import tensor_parallel
from tests.fakes import fake_torch
from tests.fakes.gpu_machine import SERVERS, GpuMachine
from tests.fakes.tpu_machine import TpuMachine

FLAG = "--disable-custom-all-reduce"
LEVEL = {"NCCL_P2P_LEVEL": "SYS"}


def verdict(sums: str = "", *, with_torch: bool = True, ranks: int = 2) -> str:
    """What the program says, run as in the container but with small sums, and little patience where they hang."""
    program = Path(all_reduce_program.__file__).read_text()
    patience = "LIMIT_S = 1.0" if sums == "hang" else "LIMIT_S = 60.0"
    for long, short in (("8 * 1024 * 1024", "64"), ("8 * 1024", "16"), ("LIMIT_S = 60.0", patience)):
        assert long in program
        program = program.replace(long, short)
    path = str(Path(fake_torch.__file__).parent) if with_torch else ""
    environ = {**os.environ, "PYTHONPATH": path, "FAKE_SUMS": sums}
    command = [sys.executable, "-c", program, str(ranks)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip().splitlines()[-1]


class TestTheProgram:
    @pytest.mark.parametrize("ranks", [2, 3])
    def test_the_program_passes_where_every_sum_is_right(self, ranks: int) -> None:
        assert verdict(ranks=ranks) == "pass"

    def test_the_program_takes_wrong_numbers_for_a_fault_and_not_only_silence(self) -> None:
        assert verdict("wrong") == "rank 1: 1 of 1 sums are wrong"

    def test_the_program_finds_numbers_that_arrive_wrong_at_another_gpu(self) -> None:
        assert verdict("lossy").endswith(": 1 of 64 numbers arrive wrong at GPU 1")

    def test_the_program_gives_up_sums_that_hang(self) -> None:
        assert verdict("hang") == "it hangs"

    def test_the_program_says_what_an_image_lacks(self) -> None:
        assert verdict(with_torch=False).endswith(": ModuleNotFoundError: No module named 'torch'")


def want(machine: TpuMachine, name: str, **changes: Any) -> None:
    """Each server divides its layers over its two GPUs, which may pass memory to each other."""
    argv = [*machine.spec(name)["argv"], "--tensor-parallel-size", "2"]
    machine.want(name, **{"argv": argv, "env": LEVEL, **changes})


class TestAServerOnSeveralGpus:
    def test_a_server_whose_gpus_add_up_in_its_own_image_keeps_the_level_of_the_specification(
        self, gpu: GpuMachine
    ) -> None:
        want(gpu, "spec-a")
        gpu.start()
        gpu.until_serving("spec-a")
        assert len(gpu.machine.docker.checks) == SERVERS
        for number in range(SERVERS):
            assert gpu.server(number).env["NCCL_P2P_LEVEL"] == "SYS"
            assert FLAG not in gpu.server(number).command
        assert not gpu.errors
        check, server = gpu.machine.docker.checks[0], gpu.server(0)
        assert (check.image, check.gpus) == (server.image, server.gpus)
        assert check.command[0] == "python3"
        assert check.command[-1] == "2"
        assert check.env["NCCL_P2P_LEVEL"] == "SYS"
        assert check.env["LD_LIBRARY_PATH"] == server.env["LD_LIBRARY_PATH"]

    @pytest.mark.parametrize("found", ["rank 1: 9 of 8192 sums are wrong", "it hangs"])
    def test_a_server_whose_gpus_do_not_add_up_is_started_without_and_says_so(
        self, gpu: GpuMachine, found: str
    ) -> None:
        gpu.machine.docker.verdicts["nvidia2"] = found
        want(gpu, "spec-a")
        gpu.start()
        gpu.until_serving("spec-a")
        one, other = gpu.server(1), gpu.server(0)
        assert one.env["NCCL_P2P_DISABLE"] == "1"
        assert "NCCL_P2P_LEVEL" not in one.env
        assert one.command.count(FLAG) == 1
        assert "NCCL_P2P_DISABLE" not in other.env
        assert FLAG not in other.command
        (error,) = gpu.status["errors"]
        assert (error["where"], error["server"]) == ("gpus", "gemma4-1")
        assert f"The GPUs 2, 3 cannot add up numbers from GPU to GPU ({found})" in error["message"]

    def test_a_server_whose_check_never_ends_is_started_without(self, gpu: GpuMachine) -> None:
        gpu.configure(ALL_REDUCE_S="0.5")
        gpu.machine.docker.verdicts["nvidia0"] = "stuck"
        want(gpu, "spec-a", servers=gpu.places[:1])
        gpu.start()
        gpu.until(lambda: gpu.ready == [0], "the server")
        assert gpu.server(0).env["NCCL_P2P_DISABLE"] == "1"
        assert "so does its container" in gpu.errors["gpus"]

    def test_a_server_is_checked_once_a_boot(self, gpu: GpuMachine) -> None:
        want(gpu, "spec-a", servers=gpu.places[:1])
        gpu.start()
        gpu.until(lambda: gpu.ready == [0], "the server")
        gpu.server(0).end(1)
        gpu.until(lambda: gpu.ready == [], "the end to be seen")
        gpu.until(lambda: gpu.ready == [0], "the server again")
        gpu.restart()
        want(gpu, "spec-b", servers=gpu.places[:1])
        gpu.until(lambda: gpu.hashes[0] == "spec-b" and gpu.ready == [0], "another specification")
        assert len(gpu.machine.docker.checks) == 1
        gpu.reboot()
        gpu.start()
        gpu.until(lambda: gpu.ready == [0], "the server again")
        assert len(gpu.machine.docker.checks) == 2

    @pytest.mark.parametrize(
        ("flags", "env"),
        [([], LEVEL), (["--tensor-parallel-size", "2"], {"NCCL_P2P_DISABLE": "1"})],
        ids=["without tensor parallelism", "told not to pass memory"],
    )
    def test_a_server_that_does_not_need_it_is_not_checked(
        self, gpu: GpuMachine, flags: list[str], env: dict[str, str]
    ) -> None:
        want(gpu, "spec-a", servers=gpu.places[:1], argv=[*gpu.spec("spec-a")["argv"], *flags], env=env)
        gpu.start()
        gpu.until(lambda: gpu.ready == [0], "the server")
        assert not gpu.machine.docker.checks

    def test_a_server_on_chips_is_not_checked(self, tpu: TpuMachine) -> None:
        want(tpu, "spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
        assert not tpu.machine.docker.checks


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--tensor-parallel-size", "4"], 4),
        (["--tensor-parallel-size=2"], 2),
        (["-tp", "2"], 2),
        (["vllm", "serve"], 1),
    ],
)
def test_how_many_gpus_share_a_layer_is_read_from_the_command(argv: list[str], expected: int) -> None:
    assert tensor_parallel(argv) == expected
