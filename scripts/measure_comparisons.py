"""Whether `gemma4 bench compare` is right about a real server: pairs of short runs, equal and slowed by 10 %.

    .venv/bin/python -m scripts.measure_comparisons --url http://127.0.0.1:8000 --pairs 20

All requests pass a relay on loopback, which forwards every part of an answer at once, or so late that the answer takes 1.1
times as long. Rounds visit A, its equal and the slowed one in changing order, so that all meet the same moods of the machine;
each pair has rounds of its own. Pairs of neighbouring sets, in which B follows A, show what not alternating costs.
docs/benchmarks.md has the results.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from infra.benchmark.run_comparison import compare_runs
from infra.benchmark.stored_run import (
    BenchmarkRun,
    Cell,
    Repeat,
    RunSettings,
    ServerFacts,
    Shape,
    Target,
    Versions,
    store,
)
from infra.serving.client import ChatRequest, ServingClient

SIDES = {"a": 1.0, "equal": 1.0, "slowed": 1.1}
"""By side, how many times as long the relay makes an answer."""


async def _relay(port: int, upstream: tuple[str, int], times: float) -> None:
    """Forward connections; what comes back is sent when `times` its own duration since the request has passed."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(*upstream)
        asked = [time.monotonic()]

        async def ahead() -> None:
            while data := await reader.read(65_536):
                asked[0] = time.monotonic()
                server_writer.write(data)
                await server_writer.drain()
            server_writer.close()

        async def back() -> None:
            while data := await server_reader.read(65_536):
                late = asked[0] + times * (time.monotonic() - asked[0]) - time.monotonic()
                if late > 0:
                    await asyncio.sleep(late)
                writer.write(data)
                await writer.drain()
            writer.close()

        with suppress(ConnectionError):
            await asyncio.gather(ahead(), back())

    async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
        await server.serve_forever()


def _run_relay(port: int, upstream: tuple[str, int], times: float) -> None:
    asyncio.run(_relay(port, upstream, times))


def _repeat(url: str, model: str, shape: Shape, requests: int, source: random.Random) -> Repeat:
    """Return one measurement of a cell, every prompt its own."""
    words = [" ".join(str(source.randrange(10**6)) for _ in range(shape.input_tokens // 6)) for _ in range(requests)]

    def ask(prompt: str) -> tuple[float, float, float, int, int]:
        client = ServingClient(url)
        length = shape.output_tokens
        request = ChatRequest(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=length,
            extra={"ignore_eos": True, "min_tokens": length},
        )
        with client.stream(request) as stream:
            for _ in stream:
                pass
        timing = stream.timing
        inter_token = (timing.total_s - timing.ttft_s) / (length - 1)
        return timing.ttft_s, inter_token, timing.total_s, timing.output_tokens, timing.prompt_tokens

    started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    began = time.monotonic()
    with ThreadPoolExecutor(shape.concurrency) as pool:
        asked = list(pool.map(ask, words))
    took = time.monotonic() - began
    ttft, itl, e2e, written, read = (list(row) for row in zip(*asked, strict=True))
    return Repeat(
        started_at=started,
        duration_s=took,
        requests=requests,
        failed=0,
        errors={},
        output_tokens_per_second=sum(written) / took,
        requests_per_second=requests / took,
        ttft_s=ttft,
        itl_s=itl,
        e2e_s=e2e,
        output_tokens=[int(count) for count in written],
        input_tokens=[int(count) for count in read],
        server_output_tokens=None,
        acceptance=None,
        prefix_hit_rate=None,
        client_cpu_s=None,
    )


def _stored(
    name: str, url: str, model: str, vllm: str, cells: dict[int, list[Repeat]], grid: Sequence[Shape]
) -> BenchmarkRun:
    measured = [
        Cell(**vars(shape), status="measured", why="", notes=[], roofline_tokens_per_second=None, repeats=cells[at])
        for at, shape in enumerate(grid)
    ]
    return BenchmarkRun(
        id=name,
        started_at=cells[0][0].started_at,
        ended_at=cells[len(grid) - 1][-1].started_at,
        complete=True,
        target=Target(stack=None, url=url, model=model, member=""),
        versions=Versions(gemma4="", vllm=vllm, aiperf="", plan=None),
        plan=None,
        server=ServerFacts(kv_tokens=None, max_model_len=None, max_num_seqs=None, prefix_caching=None),
        settings=RunSettings(
            prefix_cache="unique", warmup_requests=0, requests=None, repeats=len(cells[0]), seed=1, grid=list(grid)
        ),
        cells=measured,
    )


def main() -> None:
    """Measure, store every run, and print how the comparisons ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--requests", type=int, default=8, help="of each repeat")
    parser.add_argument("--input-tokens", type=int, default=64)
    parser.add_argument("--output-tokens", type=int, default=24)
    parser.add_argument("--port", type=int, default=18_900, help="first of three ports for the relays")
    parser.add_argument("--output", type=Path, default=Path("/tmp/gemma4-comparisons"))  # noqa: S108
    options = parser.parse_args()
    parts = urlsplit(options.url)
    upstream = (parts.hostname or "127.0.0.1", parts.port or 80)
    urls = {side: f"http://127.0.0.1:{options.port + at}" for at, side in enumerate(SIDES)}
    relays = [
        multiprocessing.Process(target=_run_relay, args=(options.port + at, upstream, times), daemon=True)
        for at, times in enumerate(SIDES.values())
    ]
    for relay in relays:
        relay.start()
    time.sleep(1)
    client = ServingClient(options.url)
    model, vllm = client.models()[0].name, client.version()
    grid = [
        Shape(concurrency=count, input_tokens=options.input_tokens, output_tokens=options.output_tokens, workload="")
        for count in options.concurrency
    ]
    source = random.Random(time.time_ns())  # noqa: S311
    for side, shape in itertools.product(SIDES, grid):
        _repeat(urls[side], model, shape, shape.concurrency, source)  # warm-up
    sets: list[dict[str, BenchmarkRun]] = []
    orders = itertools.cycle(itertools.permutations(SIDES))
    try:
        for number in range(options.pairs):
            kept: dict[str, dict[int, list[Repeat]]] = {side: {at: [] for at in range(len(grid))} for side in SIDES}
            for order in itertools.islice(orders, options.repeats):
                for side, (at, shape) in itertools.product(order, enumerate(grid)):
                    kept[side][at].append(_repeat(urls[side], model, shape, options.requests, source))
            found = {side: _stored(f"{number:02}-{side}", options.url, model, vllm, kept[side], grid) for side in SIDES}
            for name, run in found.items():
                store(run, options.output / f"{number:02}-{name}.json")
            sets.append(found)
            print(
                number,
                {name: str(compare_runs([found["a"]], [found[name]]).verdict) for name in ("equal", "slowed")},
                flush=True,
            )
    except KeyboardInterrupt:
        print("interrupted; what was measured is counted")
    finally:
        for relay in relays:
            relay.terminate()
    for name in ("equal", "slowed"):
        turns = Counter(str(compare_runs([one["a"]], [one[name]]).verdict) for one in sets)
        follows = Counter(
            str(compare_runs([one["a"]], [other[name]]).verdict) for one, other in itertools.pairwise(sets)
        )
        print(f"{name}: taking turns {dict(turns)}; B after A {dict(follows)}")


if __name__ == "__main__":
    main()
