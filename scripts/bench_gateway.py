"""What the gateway adds to a stream: the delay of each event through nginx, beside the same server called directly.

The server is a process of its own that stamps every event with the time at which it hands it to its socket; the delay
is the time at which the client holds the whole event, less that stamp. Rounds go direct, then through the gateway, so
that both meet the same load of the machine. Everything runs on loopback: on the cloud the network comes on top.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from tests.fakes.gateway import Gateway, missing

BAR_MS = 5.0
HOST = "127.0.0.2"
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
PADDING = b"x" * 180  # an event of vLLM with one token has about 200 bytes


@dataclass
class Delays:
    """Milliseconds: of every event, and from a request to its first event."""

    event: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)


def main() -> int:
    options = parse()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    print(f"delay of a streamed event in ms, {options.events} events a stream, one every {options.interval_ms} ms")
    halves = f"{'p50':>8} {'p99':>8}"
    print(f"{'':>8} {'direct':>17} {'through nginx':>17} {'added by nginx':>17} {'until first event':>21}")
    print(f"{'streams':>8} {halves} {halves} {halves} {'direct':>10} {'nginx':>10}")
    with (
        serving(options.events, options.interval_ms / 1000) as port,
        closing(Gateway({"blue": HOST}, port, in_flight_limit=max(options.streams))) as gateway,
    ):
        worst = max(measure(streams, port, gateway.port, options.rounds) for streams in options.streams)
    verdict = "met" if worst < BAR_MS else "NOT met"
    print(f"bar: less than {BAR_MS} ms added at p50; the worst line adds {worst:.3f} ms: {verdict}")
    return 0 if worst < BAR_MS else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_gateway", description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--streams", type=int, nargs="+", default=[1, 16, 64], help="streams at once (default 1 16 64)")
    add("--events", type=int, default=100, help="events a stream (default 100)")
    add("--interval-ms", type=float, default=20, help="pause between events of a stream (default 20: 50 tokens/s)")
    add("--rounds", type=int, default=3, help="direct and through nginx each, per line (default 3)")
    return parser.parse_args()


def measure(streams: int, direct_port: int, gateway_port: int, rounds: int) -> float:
    """Prints a line; returns what nginx adds at the median."""
    direct, gateway = Delays(), Delays()
    for _ in range(rounds):
        asyncio.run(read_streams(HOST, direct_port, streams, direct))
        asyncio.run(read_streams("127.0.0.1", gateway_port, streams, gateway))
    figures = [percentile(delays.event, share) for delays in (direct, gateway) for share in (50, 99)]
    added = [figures[2] - figures[0], figures[3] - figures[1]]
    first = [statistics.median(direct.first), statistics.median(gateway.first)]
    line = " ".join(f"{value:>8.3f}" for value in (*figures, *added))
    print(f"{streams:>8} {line} {first[0]:>10.2f} {first[1]:>10.2f}", flush=True)
    return added[0]


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


async def read_streams(host: str, port: int, streams: int, delays: Delays) -> None:
    await asyncio.gather(*(read_stream(host, port, delays) for _ in range(streams)))


async def read_stream(host: str, port: int, delays: Delays) -> None:
    began = time.monotonic_ns()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(REQUEST)
    if not (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"):
        raise SystemExit("the server refused a stream")
    waiting = True
    async for stamp in stamps(reader):
        now = time.monotonic_ns()
        delays.event.append((now - stamp) / 1e6)
        if waiting:
            delays.first.append((now - began) / 1e6)
            waiting = False
    writer.close()
    await writer.wait_closed()


async def stamps(reader: asyncio.StreamReader) -> AsyncIterator[int]:
    """The times that events carry, one by one, each as soon as the event is whole."""
    text = b""
    while size := int(await reader.readline(), 16):
        text += (await reader.readexactly(size + 2))[:-2]
        while b"\n\n" in text:
            event, _, text = text.partition(b"\n\n")
            yield int(event.split()[1])


@contextmanager
def serving(events: int, interval_s: float) -> Iterator[int]:
    """A process of its own that streams to whoever asks; yields its port."""
    listener = socket.create_server((HOST, 0), backlog=1024)
    process = multiprocessing.get_context("fork").Process(
        target=lambda: asyncio.run(serve(listener, events, interval_s)), daemon=True
    )
    process.start()
    try:
        yield listener.getsockname()[1]
    finally:
        process.terminate()
        process.join()
        listener.close()


async def serve(listener: socket.socket, events: int, interval_s: float) -> None:
    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        for _ in range(events):
            event = b"data: %d %s\n\n" % (time.monotonic_ns(), PADDING)
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await asyncio.sleep(interval_s)
        writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(stream, sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    raise SystemExit(main())
