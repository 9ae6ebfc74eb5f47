"""Runs in the serving image, before the first server of a group of GPUs: can they add up numbers over PCIe, and correctly?

Where a machine cannot pass memory from GPU to GPU, the first all-reduce hangs, or gives wrong numbers, which a server would
serve as text. So one process for each GPU copies known numbers to the others (vLLM's own all-reduce reads the memory of the
other GPU, and trusts the driver's word that it can), adds up known numbers with them (NCCL), and compares.

This file is passed to `python3 -c`: it needs nothing but torch. Its last line is a verdict: "pass", or what was found.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import tempfile
import time
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

START_S = 180.0
"""Longest time for all processes to load torch and take their GPU: the image may be read from a cold disk."""
LIMIT_S = 60.0
"""Longest time for the sums, after that."""
SIZES = (1, 8 * 1024, 8 * 1024 * 1024)
"""Numbers in one sum: small ones and large ones take different ways."""
ROUNDS = 4
READY, RIGHT = "ready", "every sum is right"


def main() -> None:
    """Print the verdict on so many GPUs as the first argument says."""
    print(check(int(sys.argv[1]), os.environ.get("BACKEND", "nccl")), flush=True)
    os._exit(0)  # an ordinary end would wait for processes that hang in the driver


def check(ranks: int, backend: str) -> str:
    """Start one process for each rank, and return the verdict."""
    forks = multiprocessing.get_context("fork")  # a program without a file can start its functions in no other way
    processes = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # one that hangs may still write there
        for rank in range(ranks):
            ours, theirs = forks.Pipe(duplex=False)
            group = {"rank": rank, "world_size": ranks, "init_method": f"file://{folder}/meeting"}
            processes[ours] = forks.Process(target=_take_part, args=(theirs, backend, group))
            processes[ours].start()
            theirs.close()  # so that the pipe ends with the process
        try:
            pipes = [*processes]
            return (
                _fault(pipes, READY, START_S, "torch did not start in time")
                or _fault(pipes, RIGHT, LIMIT_S, "it hangs")
                or "pass"
            )
        finally:
            for process in processes.values():
                process.kill()


def _fault(pipes: list[Connection], expected: str, within_s: float, late: str) -> str:
    """Return what another rank says in place of `expected`, `late` where one says nothing, blank where all say it."""
    waiting, end = [*pipes], time.monotonic() + within_s
    while waiting:
        speaking = wait(waiting, max(0.0, end - time.monotonic()))
        if not speaking:
            return late
        for pipe in [each for each in waiting if each in speaking]:
            try:
                word = pipe.recv()
            except EOFError:
                word = "it ended without a word"
            if word != expected:
                return f"rank {pipes.index(pipe)}: {word}"
            waiting.remove(pipe)
    return ""


def _take_part(pipe: Connection, backend: str, group: dict[str, Any]) -> None:
    try:
        pipe.send(add_up(pipe, backend, **group))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}"[:300])


def add_up(pipe: Connection, backend: str, rank: int, world_size: int, init_method: str) -> str:
    """Add up known numbers with the other ranks; returns what is wrong, or RIGHT."""
    torch: Any = importlib.import_module("torch")
    distributed: Any = importlib.import_module("torch.distributed")
    device = f"cuda:{rank}" if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(rank)
        torch.zeros(1, device=device)  # takes the GPU, which may last
    pipe.send(READY)
    distributed.init_process_group(
        backend, init_method=init_method, rank=rank, world_size=world_size, timeout=timedelta(seconds=LIMIT_S)
    )
    for other in range(world_size if backend == "nccl" else 0):
        numbers = torch.arange(max(SIZES), device=device, dtype=torch.float32)
        wrong = int((numbers.to(f"cuda:{other}").to("cpu") != numbers.to("cpu")).sum().item())
        if wrong:
            return f"{wrong} of {max(SIZES)} numbers arrive wrong at GPU {other}"
    for round_number in range(ROUNDS):
        for size in SIZES:
            # Whole numbers that float32 holds exactly, other ones in each place, rank and round.
            pattern = torch.arange(size, device=device, dtype=torch.float32) % 1021 + round_number
            numbers = pattern * (rank + 1)
            distributed.all_reduce(numbers)
            wrong = int((numbers != pattern * (world_size * (world_size + 1) // 2)).sum().item())
            if wrong:
                return f"{wrong} of {size} sums are wrong"
    distributed.destroy_process_group()
    return RIGHT


if __name__ == "__main__":
    main()
