"""Runs in the serving image, before the first server of a group of GPUs: can they add up numbers over PCIe, and correctly?

Where a machine cannot pass memory from GPU to GPU, the first all-reduce hangs, or gives wrong numbers, which a server would
serve as text. So one process for each GPU copies known numbers to the others (vLLM's own all-reduce reads the memory of the
other GPU, and trusts the driver's word that it can), adds up known numbers with them (NCCL), and compares.

This file is passed to `python3 -c`: it needs nothing but torch. Its last line is a verdict: "pass", or what was found.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

START_S = 180.0
"""Longest time for all processes to load torch and take their GPU: the image may be read from a cold disk."""
LIMIT_S = 60.0
"""Longest time for the sums, after that."""
SIZES = (1, 8 * 1024, 8 * 1024 * 1024)
"""Numbers in one sum: small ones and large ones take different ways."""
ROUNDS = 4
READY = "ready"


def main() -> int:
    """Carry out the part of this process; returns its exit code."""
    if "RANK" in os.environ:
        return add_up(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["BACKEND"])
    print(check(int(sys.argv[1]), os.environ.get("BACKEND", "nccl")), flush=True)
    return 0


def check(ranks: int, backend: str) -> str:
    """Start one process for each rank, and return the verdict."""
    program = sys.orig_argv[sys.orig_argv.index("-c") + 1]
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(ranks):
            own = {
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "BACKEND": backend,
                "MEETING": f"file://{folder}/meeting",
            }
            mark = {"READY_FILE": f"{folder}/{READY}-{rank}"}
            command = [sys.executable, "-c", program]
            pipe = subprocess.PIPE
            processes.append(
                subprocess.Popen(
                    command, env={**os.environ, **own, **mark}, stdout=pipe, stderr=subprocess.STDOUT, text=True
                )
            )
        try:
            return _verdict(processes, [f"{folder}/{READY}-{rank}" for rank in range(ranks)])
        finally:
            for process in processes:
                process.kill()


def _verdict(processes: Sequence[subprocess.Popen[str]], marks: Sequence[str]) -> str:
    start_end = time.monotonic() + START_S
    while not all(os.path.exists(mark) for mark in marks):
        if any(process.poll() not in (None, 0) for process in processes):
            break
        if time.monotonic() > start_end:
            return "torch did not start in time"
        time.sleep(0.05)
    end = time.monotonic() + LIMIT_S
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        if any(process.poll() for process in processes):
            break  # the others would wait for it
        time.sleep(0.05)
    for rank, process in enumerate(processes):
        if process.poll():
            lines = [line for line in (process.stdout.read() if process.stdout else "").splitlines() if line.strip()]
            return f"rank {rank}: {lines[-1][:300] if lines else f'exit code {process.returncode}'}"
    if any(process.poll() is None for process in processes):
        return "it hangs"
    return "pass"


def add_up(rank: int, ranks: int, backend: str) -> int:
    """Add up known numbers with the other ranks; returns 0 where every sum is right."""
    torch: Any = importlib.import_module("torch")
    distributed: Any = importlib.import_module("torch.distributed")
    device = f"cuda:{rank}" if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(rank)
        torch.zeros(1, device=device)  # takes the GPU, which may last
    open(os.environ["READY_FILE"], "w").close()
    distributed.init_process_group(
        backend, init_method=os.environ["MEETING"], rank=rank, world_size=ranks, timeout=timedelta(seconds=LIMIT_S)
    )
    for other in range(ranks if backend == "nccl" else 0):
        numbers = torch.arange(max(SIZES), device=device, dtype=torch.float32)
        wrong = int((numbers.to(f"cuda:{other}").to("cpu") != numbers.to("cpu")).sum().item())
        if wrong:
            print(f"{wrong} of {max(SIZES)} numbers arrive wrong at GPU {other}", flush=True)
            return 1
    for round_number in range(ROUNDS):
        for size in SIZES:
            # Whole numbers that float32 holds exactly, other ones in each place, rank and round.
            pattern = torch.arange(size, device=device, dtype=torch.float32) % 1021 + round_number
            numbers = pattern * (rank + 1)
            distributed.all_reduce(numbers)
            wrong = int((numbers != pattern * (ranks * (ranks + 1) // 2)).sum().item())
            if wrong:
                print(f"{wrong} of {size} sums are wrong", flush=True)
                return 1
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
