"""Throughput and peak memory of the weights copy, beside a plain curl of the same source.

Source and sink are processes of their own that cost next to nothing: the source answers with sendfile, the sink drops
what arrives inside the kernel. Each round runs curl and then the copy, so both meet the same load of the machine; the
ratio of a size is that of the median times, the start of the interpreter and all checks before and after included.

The source is paced as a network would be, at 200 MiB/s a connection unless told otherwise: near what one connection
brings in a cloud. Unpaced it is as fast as memory, and then the copy, which hashes and sends every byte that curl drops,
can at best run at the rate of SHA-256. Those rows are shown for what they are and do not count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from containers import archive

MIB = 1024 * 1024
REPO, REVISION, NAME = "bench/model", "0" * 40, "model.safetensors"
BAR_RATIO, BAR_RSS_MIB = 0.85, 256


def main() -> int:
    options = parse()
    if not shutil.which("curl"):
        print("curl is not installed, so there is nothing to compare with.", file=sys.stderr)
        return 2
    print(f"SHA-256 on one processor of this machine: {hash_rate():.0f} MiB/s")
    print(f"{'file':>9} {'source':>12} {'curl':>12} {'copy':>12} {'ratio':>6} {'peak RSS':>9}   (MiB, MiB/s; medians)")
    met = True
    for size_mib in options.mib:
        with tempfile.TemporaryDirectory() as folder:
            weights = Path(folder) / NAME
            stage = Path(folder) / "stage.pyz"
            stage.write_bytes(archive.stage())
            digest = fill(weights, size_mib * MIB)
            for pace in options.mib_per_second:
                met &= measure(stage, weights, digest, size_mib, pace, options)
    print(f"bars (paced rows): ratio >= {BAR_RATIO}, peak RSS < {BAR_RSS_MIB} MiB: {'met' if met else 'NOT met'}")
    return 0 if met else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_staging", description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--mib", type=int, nargs="+", default=[512, 2048], help="file sizes (default 512 2048)")
    add("--rounds", type=int, default=3, help="curl and copy each, per line (default 3)")
    add("--mib-per-second", type=int, nargs="+", default=[200, 0], help="pace of the source; 0 = none (default 200 0)")
    add("--files", type=int, default=1, help="copies of the file in the repository (default 1)")
    parser.add_argument("stage_arguments", nargs="*", help="after --: passed on to the copy")
    return parser.parse_args()


def fill(path: Path, size: int) -> str:
    """A file of `size` bytes that compresses to nothing but is not all zero; returns its SHA-256."""
    block = bytes(os.urandom(MIB))
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(size // MIB):
            piece = number.to_bytes(8, "big") + block[8:]
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


def measure(stage: Path, weights: Path, digest: str, size_mib: int, pace: int, options: argparse.Namespace) -> bool:
    files = [NAME] if options.files == 1 else [f"model-{n}.safetensors" for n in range(options.files)]
    siblings = [
        {"rfilename": name, "size": size_mib * MIB, "blobId": "", "lfs": {"sha256": digest, "size": size_mib * MIB}}
        for name in files
    ]
    curl_s, copy_s, peak_mib = [], [], 0.0
    with serving(Source, weights=str(weights), siblings=siblings, pace=pace) as source:
        for _ in range(options.rounds):
            with serving(Sink) as sink:
                url = f"http://127.0.0.1:{source}/{REPO}/resolve/{REVISION}/{files[0]}"
                curl_s.append(seconds_of(["curl", "--silent", "--fail", "--output", os.devnull, url])[0])
                seconds, rss_mib = seconds_of(
                    stage_command(stage, options.stage_arguments), stage_environment(source, sink)
                )
                copy_s.append(seconds)
                peak_mib = max(peak_mib, rss_mib)
    curl_rate = size_mib / statistics.median(curl_s)
    copy_rate = size_mib * len(files) / statistics.median(copy_s)
    paced = f"{pace} MiB/s" if pace else "unpaced"
    size = f"{len(files)} x {size_mib}" if len(files) > 1 else str(size_mib)
    print(f"{size:>9} {paced:>12} {curl_rate:>12.0f} {copy_rate:>12.0f} {copy_rate / curl_rate:>6.2f} {peak_mib:>9.0f}")
    return (copy_rate / curl_rate >= BAR_RATIO or not pace) and peak_mib < BAR_RSS_MIB


def hash_rate() -> float:
    digest, block, began = hashlib.sha256(), bytes(MIB), time.perf_counter()
    for _ in range(256):
        digest.update(block)
    return 256 / (time.perf_counter() - began)


def stage_command(stage: Path, more: list[str]) -> list[str]:
    where = ["--repo", REPO, "--revision", REVISION, "--destination", "gs://bench/model"]
    return [sys.executable, "-I", "-S", str(stage), *where, *more]


def stage_environment(source: int, sink: int) -> dict[str, str]:
    return {
        "HF_ENDPOINT": f"http://127.0.0.1:{source}",
        "STORAGE_ENDPOINT": f"http://127.0.0.1:{sink}",
        "GOOGLE_OAUTH_ACCESS_TOKEN": "bench",
    }


def seconds_of(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, float]:
    """Wall time of a command, its start included, and its peak memory in MiB."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **(environment or {})})  # noqa: S603
    assert process.stdout is not None  # noqa: S101
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}:\n{output.decode()}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], **settings: object) -> Iterator[int]:
    """A process of its own that serves until the block ends; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    process = multiprocessing.get_context("fork").Process(target=serve, args=(handler, listener, settings), daemon=True)
    process.start()
    try:
        yield listener.getsockname()[1]
    finally:
        process.terminate()
        process.join()
        listener.close()


def serve(handler: type[BaseHTTPRequestHandler], listener: socket.socket, settings: dict[str, object]) -> None:
    server = ThreadingHTTPServer(listener.getsockname()[:2], handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.daemon_threads = True
    for name, value in settings.items():
        setattr(handler, name, value)
    server.serve_forever()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one segment: no wait for a delayed acknowledgement
    rbufsize = 0  # bodies are taken from the socket itself, so nothing of them may sit in a buffer

    def answer(self, status: int, body: object = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Source(Handler):
    """A Hub with one repository, whose files are all the same file."""

    weights: ClassVar[str]
    siblings: ClassVar[list[dict[str, object]]]
    pace: ClassVar[int]

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/"):
            return self.answer(200, {"sha": REVISION, "siblings": self.siblings})
        with open(self.weights, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if self.headers.get("Range"):  # only ever the access check
                return self.answer(200)
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.flush()
            send_paced(self.connection, file.fileno(), size, self.pace)
        return None


def send_paced(connection: socket.socket, file: int, size: int, mib_per_second: int) -> None:
    began, sent = time.perf_counter(), 0
    most = MIB if mib_per_second else 64 * MIB
    while sent < size:
        sent += os.sendfile(connection.fileno(), file, sent, min(most, size - sent))
        if mib_per_second:
            time.sleep(max(0.0, sent / MIB / mib_per_second - (time.perf_counter() - began)))


class Sink(Handler):
    """A bucket that keeps names, sizes and metadata, and drops the bytes."""

    objects: ClassVar[dict[str, dict[str, object]]] = {}
    sessions: ClassVar[dict[str, dict[str, object]]] = {}

    def do_GET(self) -> None:
        self.answer(200, {"items": list(self.objects.values())})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = parse_qs(urlsplit(self.path).query)["name"][0]
        path = f"/session/{len(self.sessions)}"
        self.sessions[path] = {"name": name, "metadata": body["metadata"], "generation": "1"}
        self.answer(200, Location=path)

    def do_PUT(self) -> None:
        drop(self.connection, int(self.headers["Content-Length"]))
        span, _, size = self.headers["Content-Range"].removeprefix("bytes ").partition("/")
        last = int(span.partition("-")[2])
        if last + 1 < int(size):
            return self.answer(308, Range=f"bytes=0-{last}")
        stored = {**self.sessions[self.path], "size": size}
        self.objects[str(stored["name"])] = stored
        return self.answer(200, stored)

    def do_DELETE(self) -> None:
        self.answer(499)


def drop(connection: socket.socket, length: int) -> None:
    """Take bytes off a connection; where the kernel can (Linux), without copying them."""
    scratch = bytearray(MIB)
    flags = socket.MSG_TRUNC if sys.platform == "linux" else 0
    while length:
        length -= connection.recv_into(scratch, min(len(scratch), length), flags)


if __name__ == "__main__":
    raise SystemExit(main())
