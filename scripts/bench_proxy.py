"""What `gemma4 proxy` adds to a stream: the delay of each event through it, beside the same server called directly.

As scripts/bench_gateway.py, whose server stamps every event with the time at which it hands it to its socket. The proxy is
the command itself, a process of its own, with a key to send along. Everything runs on loopback: on the cloud the network
comes on top.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from infra.ops.endpoint.find_endpoint import API_KEY
from scripts.bench_gateway import HOST, measure, serving

BAR_MS = 1.0


def main() -> int:
    options = parse()
    print(f"delay of a streamed event in ms, {options.events} events a stream, one every {options.interval_ms} ms")
    halves = f"{'p50':>8} {'p99':>8}"
    print(f"{'':>8} {'direct':>17} {'through the proxy':>17} {'added by it':>17} {'until first event':>21}")
    print(f"{'streams':>8} {halves} {halves} {halves} {'direct':>10} {'proxy':>10}")
    with serving(options.events, options.interval_ms / 1000) as (port, _), proxy(f"http://{HOST}:{port}") as proxy_port:
        worst = max(measure(streams, port, proxy_port, options.rounds)[0] for streams in options.streams)
    verdict = "met" if worst <= BAR_MS else "NOT met"
    print(f"bar: at most {BAR_MS} ms added at p50; the worst line adds {worst:.3f} ms: {verdict}")
    return 0 if worst <= BAR_MS else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_proxy", description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--streams", type=int, nargs="+", default=[1, 16, 64], help="streams at once (default 1 16 64)")
    add("--events", type=int, default=100, help="events a stream (default 100)")
    add("--interval-ms", type=float, default=20, help="pause between events of a stream (default 20: 50 tokens/s)")
    add("--rounds", type=int, default=5, help="direct and through the proxy each, per line (default 5)")
    return parser.parse_args()


@contextmanager
def proxy(url: str) -> Iterator[int]:
    """The command as a process; yields its port."""
    script = "import sys; from infra.ops.cli import run; sys.exit(run(sys.argv[1:]))"
    process = subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-c", script, "proxy", "--url", url, "--port", "0"],
        stdout=subprocess.PIPE,
        env={**os.environ, API_KEY: "key-of-a-benchmark"},
        text=True,
    )
    if process.stdout is None:
        raise SystemExit("the proxy has no output")
    try:
        address = next((line for line in process.stdout if "OPENAI_BASE_URL=" in line), "")
        yield int(address.strip().removesuffix("/v1").rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
