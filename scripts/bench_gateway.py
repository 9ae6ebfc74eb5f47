"""What the gateway adds to a stream, and what many streams at once cost it.

The delay of each event through HAProxy is measured beside the same server called directly. The server is a process of its own
that stamps every event with the time at which it hands it to its socket; the delay is the time at which the client holds the
whole event, less that stamp. Rounds go direct, then through the gateway, so that both meet the same load of the machine. Then
many requests are held open at once, and HAProxy's resident memory is read. Everything runs on loopback: on the cloud the
network comes on top.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import re
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from infra.planning.gateway.haproxy import READY_PATH
from infra.planning.gateway.members import gateway_members
from tests.fakes.gateway import HAPROXY, Gateway, missing

MEDIAN_BAR_MS, TAIL_BAR_MS, MEMORY_BAR_MIB = 0.5, 2.0, 256
HOST, READY_HOST = "127.0.0.2", "127.0.0.2"
HOST = "127.0.0.2"
REQUEST = b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
STREAMED, HELD = b"chat/completions", b"held"
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
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    answer = subprocess.run([str(HAPROXY), "-v"], capture_output=True, text=True, check=True)  # noqa: S603 found on PATH
    version = answer.stdout.partition(" - ")[0]
    print(
        f"{version}: delay of a streamed event in ms, {options.events} events a stream, one every {options.interval_ms} ms"
    )
    halves = f"{'p50':>8} {'p99':>8}"
    print(f"{'':>8} {'direct':>17} {'through HAProxy':>17} {'added by HAProxy':>17} {'until first event':>21}")
    print(f"{'streams':>8} {halves} {halves} {halves} {'direct':>10} {'HAProxy':>10}")
    with (
        serving(options.events, options.interval_ms / 1000) as (port, ready_port),
        closing(
            Gateway(
                gateway_members([], ports=[port], turns=()),
                {"blue": HOST},
                ready_port,
                requests_each=4096,
                awaits=READY_PATH,
            )
        ) as gateway,
    ):
        added = [measure(streams, port, gateway.port, options.rounds) for streams in options.streams]
        memory_mib = hold(options.held, options.body_kib * 1024, gateway)
    verdicts = (
        (
            f"added at p50, worst line: {max(one[0] for one in added):.3f} ms",
            max(one[0] for one in added),
            MEDIAN_BAR_MS,
        ),
        (f"added at p99, worst line: {max(one[1] for one in added):.3f} ms", max(one[1] for one in added), TAIL_BAR_MS),
        (f"resident with {options.held} requests open: {memory_mib:.0f} MiB", memory_mib, MEMORY_BAR_MIB),
    )
    for text, value, bar in verdicts:
        print(f"{text}; bar {bar}: {'met' if value <= bar else 'NOT met'}")
    return 0 if all(value <= bar for _, value, bar in verdicts) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_gateway", description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--streams", type=int, nargs="+", default=[1, 16, 64], help="streams at once (default 1 16 64)")
    add("--events", type=int, default=100, help="events a stream (default 100)")
    add("--interval-ms", type=float, default=20, help="pause between events of a stream (default 20: 50 tokens/s)")
    add("--rounds", type=int, default=3, help="direct and through HAProxy each, per line (default 3)")
    add("--held", type=int, default=2048, help="requests held open at once for the memory (default 2048)")
    add("--body-kib", type=int, default=64, help="body of each of these (default 64)")
    return parser.parse_args()


def measure(streams: int, direct_port: int, gateway_port: int, rounds: int) -> list[float]:
    """Prints a line; returns what HAProxy adds at the median and at the 99th percentile."""
    direct, gateway = Delays(), Delays()
    for _ in range(rounds):
        asyncio.run(read_streams(HOST, direct_port, streams, direct))
        asyncio.run(read_streams("127.0.0.1", gateway_port, streams, gateway))
    figures = [percentile(delays.event, share) for delays in (direct, gateway) for share in (50, 99)]
    added = [figures[2] - figures[0], figures[3] - figures[1]]
    first = [statistics.median(direct.first), statistics.median(gateway.first)]
    line = " ".join(f"{value:>8.3f}" for value in (*figures, *added))
    print(f"{streams:>8} {line} {first[0]:>10.2f} {first[1]:>10.2f}", flush=True)
    return added


def hold(requests: int, body_bytes: int, gateway: Gateway) -> float:
    """Return HAProxy's resident memory in MiB while so many requests are being answered, every one of them admitted."""

    async def one(open_now: asyncio.Semaphore, measured: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(REQUEST % (HELD, body_bytes, b"x" * body_bytes))
        if not (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"):
            raise SystemExit("the gateway refused a request")
        open_now.release()
        await measured.wait()
        writer.close()

    async def everyone() -> float:
        open_now, measured = asyncio.Semaphore(0), asyncio.Event()
        tasks = [asyncio.create_task(one(open_now, measured)) for _ in range(requests)]
        for _ in range(requests):
            await asyncio.wait_for(open_now.acquire(), timeout=60)
        memory_mib = resident_mib(gateway.process.pid)
        measured.set()
        await asyncio.gather(*tasks)
        return memory_mib

    return asyncio.run(everyone())


def resident_mib(shell: int) -> float:
    """Return what the child of the container's shell, HAProxy, has in memory."""
    (child,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    (kib,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{child}/status").read_text())
    return int(kib) / 1024


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


async def read_streams(host: str, port: int, streams: int, delays: Delays) -> None:
    await asyncio.gather(*(read_stream(host, port, delays) for _ in range(streams)))


async def read_stream(host: str, port: int, delays: Delays) -> None:
    began = time.monotonic_ns()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(REQUEST % (STREAMED, 2, b"{}"))
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
def serving(events: int, interval_s: float) -> Iterator[tuple[int, int]]:
    """A process of its own that streams to whoever asks and says that it is ready; yields its two ports."""
    listeners = [socket.create_server((HOST, 0), backlog=4096) for _ in range(2)]
    process = multiprocessing.get_context("fork").Process(
        target=lambda: asyncio.run(serve(listeners, events, interval_s)), daemon=True
    )
    process.start()
    try:
        yield listeners[0].getsockname()[1], listeners[1].getsockname()[1]
    finally:
        process.terminate()
        process.join()
        for listener in listeners:
            listener.close()


async def serve(listeners: list[socket.socket], events: int, interval_s: float) -> None:
    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.findall(rb"Content-Length: (\d+)", head, re.IGNORECASE)[0]))
        writer.write(HEAD)
        held = head.startswith(b"POST /v1/" + HELD)
        for _ in range(0 if held else events):
            event = b"data: %d %s\n\n" % (time.monotonic_ns(), PADDING)
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await asyncio.sleep(interval_s)
        if held:
            with suppress(ConnectionError):  # however it ends
                await reader.read()
        else:
            writer.write(b"0\r\n\r\n")
        writer.close()

    async def ready(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(stream, sock=listeners[0], backlog=4096)
    await asyncio.start_server(ready, sock=listeners[1])
    await server.serve_forever()


if __name__ == "__main__":
    raise SystemExit(main())
