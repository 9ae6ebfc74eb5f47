"""Wall time and peak memory of `gemma4 plan`, beside what it cannot be quicker than: the imports it stands on.

Each round runs all commands once, so that all meet the same load of the machine; the ratios are those of the medians.
Byte code is compiled by a first round that does not count. This process imports little on purpose: Linux counts the
memory of whoever starts a program into that program's own peak, so no figure is smaller than this one's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GEMMA4 = (sys.executable, "-c", "from infra.ops.cli import main; main()", "plan")
COMMANDS = {
    "gemma4 plan {stack}": (*GEMMA4, "{stack}"),
    "gemma4 plan {stack} --full": (*GEMMA4, "{stack}", "--full"),
    "python -c pass": (sys.executable, "-c", "pass"),
    'python -c "import pydantic, typer, rich.table"': (sys.executable, "-c", "import pydantic, typer, rich.table"),
    'python -c "import pulumi_gcp"': (sys.executable, "-c", "import pulumi_gcp"),
}
RATIOS = ((0, 3, 1.75), (1, 4, 4.0))
"""Which command by which, and the ratio aimed at."""


def main() -> int:
    """Measure and print; 1 where a ratio is missed."""
    options = parse()
    names = [name.format(stack=options.stack) for name in COMMANDS]
    commands = [tuple(word.format(stack=options.stack) for word in words) for words in COMMANDS.values()]
    seconds: list[list[float]] = [[] for _ in commands]
    peaks = [0.0 for _ in commands]
    for number in range(options.rounds + 1):
        for index, command in enumerate(commands):
            wall_s, peak_mib = measured(command)
            if number:
                seconds[index].append(wall_s)
                peaks[index] = max(peaks[index], peak_mib)
    report(names, seconds, peaks, as_json=options.json)
    return 0 if all(median(seconds[one]) <= aim * median(seconds[by]) for one, by, aim in RATIOS) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_plan", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="runs of each command that count (default 9)")
    parser.add_argument("--stack", default="l4", help="stack to plan (default l4)")
    parser.add_argument("--json", action="store_true", help="print data for machines")
    return parser.parse_args()


def measured(command: tuple[str, ...]) -> tuple[float, float]:
    """Wall time of a command in seconds, its start included, and its peak memory in MiB."""
    null = os.open(os.devnull, os.O_WRONLY)
    began = time.perf_counter()
    os.chdir(ROOT)
    # Users have byte code; an environment that forbids it would time the compiler.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    pid = os.posix_spawn(command[0], command, environment, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - began
    os.close(null)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return wall_s, usage.ru_maxrss / 1024


def report(names: list[str], seconds: list[list[float]], peaks: list[float], *, as_json: bool) -> None:
    rows = [
        {"command": name, "minS": round(min(runs), 3), "medianS": round(median(runs), 3), "peakMib": round(peak)}
        for name, runs, peak in zip(names, seconds, peaks, strict=True)
    ]
    ratios: list[dict[str, Any]] = [
        {"of": names[one], "by": names[by], "ratio": round(median(seconds[one]) / median(seconds[by]), 2), "aim": aim}
        for one, by, aim in RATIOS
    ]
    floor = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    if as_json:
        print(json.dumps({"python": sys.version.split()[0], "commands": rows, "ratios": ratios, "floorMib": floor}))
        return
    width = max(len(name) for name in names)
    print(f"{'command':<{width}} {'min':>8} {'median':>8} {'peak':>9}")
    for row in rows:
        print(f"{row['command']:<{width}} {row['minS']:>6.2f} s {row['medianS']:>6.2f} s {row['peakMib']:>5} MiB")
    for ratio in ratios:
        met = "met" if ratio["ratio"] <= ratio["aim"] else "NOT met"
        print(f"{ratio['of']} takes {ratio['ratio']:.2f} times {ratio['by']} (aim: at most {ratio['aim']:g}; {met})")
    print(
        f"Medians of {len(seconds[0])} rounds, Python {sys.version.split()[0]}; no peak can read less than {floor} MiB."
    )


def median(values: list[float]) -> float:
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


if __name__ == "__main__":
    raise SystemExit(main())
