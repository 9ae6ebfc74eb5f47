"""What a client costs to read a stream: seconds of a core per token, of aiperf as `gemma4 bench` runs it and of our own client.

The server is a process of its own that writes events like vLLM's at a fixed pace. Each client reads a short and a long answer
on as many streams; what the longer one costs more, over the tokens that it has more, is what a token costs: starting and
ending do not count. A share of a core per 100 streamed tokens/s is a hundred times that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import socket
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.benchmark import aiperf
from infra.serving.client import ChatRequest, ServingClient

BAR = 0.03
"""Of a core per 100 streamed tokens/s."""
ANSWERS = 3
"""On each stream, one after the other: a client that waits for its turn may cost as well."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = {
    "id": "chatcmpl-af53c9f8c4302af5",
    "object": "chat.completion.chunk",
    "created": 1795335209,
    "model": "gemma",
    "choices": [
        {"index": 0, "delta": {"content": " token"}, "logprobs": None, "finish_reason": None, "token_ids": None}
    ],
}
"""As vLLM 0.32.0 writes one."""


def main() -> int:
    options = parse()
    executable = aiperf.find(Path.cwd())
    print(
        f"{options.streams} streams of {options.pace:g} tokens/s; answers of {options.short} and {options.long} tokens; "
        f"{options.rounds} rounds; aiperf {aiperf.version(executable)}"
    )
    worst = 0.0
    with serving(options.pace) as port:
        url = f"http://127.0.0.1:{port}"
        clients: dict[str, Callable[[int], float]] = {
            "aiperf": lambda tokens: by_aiperf(executable, url, options.streams, tokens),
            "gemma4's own client": lambda tokens: by_own_client(url, options.streams, tokens),
        }
        for name, cost in clients.items():
            more = ANSWERS * options.streams * (options.long - options.short)
            shares = [100 * (cost(options.long) - cost(options.short)) / more for _ in range(options.rounds)]
            share = statistics.median(shares)
            worst = max(worst, share)
            spread = ", ".join(f"{one:.2%}" for one in shares)
            print(f"{name}: {share:.2%} of a core per 100 tokens/s (rounds: {spread})")
    print(f"bar: less than {BAR:.0%}: {'met' if worst < BAR else 'NOT met'}")
    return 0 if worst < BAR else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_clients", description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--streams", type=int, default=32, help="streams at once (default 32)")
    add("--pace", type=float, default=20.0, help="tokens/s of each stream (default 20)")
    add("--short", type=int, default=40, help="tokens of the shorter answer (default 40)")
    add("--long", type=int, default=200, help="tokens of the longer answer (default 200)")
    add("--rounds", type=int, default=3, help="default 3")
    return parser.parse_args()


def by_aiperf(executable: Path, url: str, streams: int, tokens: int) -> float:
    """Seconds of a core that aiperf uses with all its processes, for the answers of all streams."""
    message = [{"role": "user", "content": "x"}]
    body = {"model": "gemma", "messages": message, "max_tokens": tokens, "stream": True}
    with aiperf.scratch_folder() as folder:
        load = aiperf.Load(url, "gemma", [body] * (ANSWERS * streams), 0, streams)
        recorded = aiperf.run(executable, load, token=None, folder=folder)
    if [one.output_tokens for one in recorded.answered] != [tokens] * (ANSWERS * streams):
        raise RuntimeError(f"{len(recorded.answered)} answers, {recorded.errors}")
    return recorded.cpu_s


def by_own_client(url: str, streams: int, tokens: int) -> float:
    """Seconds of a core that this process uses for the answers of all streams."""
    request = ChatRequest("gemma", [{"role": "user", "content": "x"}], tokens)
    read: list[int] = []

    def read_one() -> None:
        client = ServingClient(url)
        for _ in range(ANSWERS):
            with client.stream(request) as stream:
                read.append(sum(1 for _ in stream))

    threads = [threading.Thread(target=read_one) for _ in range(streams)]
    before = resource.getrusage(resource.RUSAGE_SELF)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = resource.getrusage(resource.RUSAGE_SELF)
    if read != [tokens] * (ANSWERS * streams):
        raise RuntimeError(f"pieces that were read: {read}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@contextmanager
def serving(pace: float) -> Iterator[int]:
    """The port of a server that answers each request with `max_tokens` events, `pace` of them a second."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        server = multiprocessing.Process(target=serve, args=(listener, pace), daemon=True)
        server.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.terminate()
            server.join()


def serve(listener: socket.socket, pace: float) -> None:
    event = f"data: {json.dumps(CHUNK)}\n\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            tokens = json.loads(await reader.readexactly(length))["max_tokens"]
            writer.write(HEAD)
            began = asyncio.get_running_loop().time()
            for number in range(tokens):
                await asyncio.sleep(began + number / pace - asyncio.get_running_loop().time())
                writer.write(chunk(event))
                await writer.drain()
            usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1}
            last = json.dumps(CHUNK | {"choices": [], "usage": usage})
            writer.write(chunk(f"data: {last}\n\ndata: [DONE]\n\n".encode()) + b"0\r\n\r\n")
            await writer.drain()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def run() -> None:
        async with await asyncio.start_server(handle, sock=listener) as server:
            await server.serve_forever()

    asyncio.run(run())


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


if __name__ == "__main__":
    sys.exit(main())
