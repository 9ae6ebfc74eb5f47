"""What affinity at the gateway does for real vLLM servers: tokens found in their caches, and time to the first token.

    .venv/bin/python -m scripts.measure_affinity http://127.0.0.1:8911 http://127.0.0.1:8912 --into docs/decisions/0020-….md

A real HAProxy on the rendered configuration stands before the servers. Each round asks the same workload with each affinity,
in texts of its own that no server has seen: conversations, in which each request repeats what was said before; and single
questions after long instructions that many of them share. Hits are counted by the servers themselves
(vllm:prefix_cache_hits over vllm:prefix_cache_queries, in tokens). The servers should have nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import functools
import json
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import get_args
from urllib.parse import urlsplit

import aiohttp

from infra.planning.gateway.affinity import Affinity
from infra.planning.gateway.chosen_routing import choose_routing
from infra.planning.gateway.members import GatewayMember
from infra.planning.settings.declarations import GatewaySettings
from tests.fakes.gateway import Gateway, missing, until

AFFINITIES: tuple[Affinity, ...] = get_args(Affinity)
BEGINS, ENDS = "<!-- measured by scripts/measure_affinity.py -->", "<!-- end of what was measured -->"
_WORDS = [
    "river",
    "stone",
    "cloud",
    "maple",
    "train",
    "copper",
    "lantern",
    "harbour",
    "violet",
    "engine",
    "meadow",
    "signal",
    "winter",
    "paper",
    "orbit",
    "garden",
]


@dataclass(frozen=True)
class Workload:
    """Users who ask at the same time, each one question after the other."""

    title: str
    users: int
    chats: int
    """Of each user, one after the other."""
    turns: int
    """Of each chat; each repeats the ones before."""
    instructions: int
    """Words."""
    applications: int
    """How many instructions there are."""
    message: tuple[int, int]
    """Words."""
    answer: int = 16
    """Tokens."""
    pause_s: float = 1.0
    """Between an answer and the next question, mean of an exponential distribution. Without a pause, whoever gets an answer
    asks again while that server is the least busy, and least connections look like affinity."""
    keyed_by_application: bool = False
    """Whether the session is the application, not the chat."""


CONVERSATIONS = Workload("conversations", 12, 2, 6, 150, 2, (100, 250))
SHARED = Workload("shared instructions", 12, 10, 1, 900, 12, (10, 40), keyed_by_application=True)


@dataclass
class Outcome:
    """Of all rounds with one affinity."""

    asked_tokens: float = 0.0
    found_tokens: float = 0.0
    first_token_s: list[float] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)

    @property
    def hit_rate(self) -> float:
        return self.found_tokens / self.asked_tokens

    @property
    def imbalance(self) -> float:
        """Requests of the busier server, of the mean."""
        return max(self.served.values()) * len(self.served) / self.served.total()


def main() -> int:
    options = _parse()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    names = {f"server-{number}": url for number, url in enumerate(options.servers, 1)}
    outcomes = measure(names, (CONVERSATIONS, SHARED), rounds=options.rounds)
    report = "\n".join(_report(outcomes, options))
    print(report)
    if options.into:
        text = options.into.read_text("utf-8")
        before, _, rest = text.partition(BEGINS)
        _, _, after = rest.partition(ENDS)
        options.into.write_text(f"{before}{BEGINS}\n\n{report}\n\n{ENDS}{after}", "utf-8")
    return 0


def measure(
    servers: Mapping[str, str], workloads: Sequence[Workload], *, rounds: int, seed: int = 1
) -> dict[str, dict[Affinity, Outcome]]:
    """Return, by workload and affinity, what came of the rounds before these servers, by name their URL."""
    outcomes = {load.title: {affinity: Outcome() for affinity in AFFINITIES} for load in workloads}
    with _gateways(servers) as gateways:
        for number in range(rounds):
            for load in workloads:
                for affinity in random.Random(seed + number).sample(AFFINITIES, len(AFFINITIES)):  # noqa: S311
                    outcome = outcomes[load.title][affinity]
                    salt = f"{seed}.{number}.{affinity}"
                    before = _counters(servers.values())
                    url = f"http://127.0.0.1:{gateways[affinity].port}/v1/chat/completions"
                    asyncio.run(_Asking(url, load, affinity, salt, outcome).all())
                    asked, found = (now - was for now, was in zip(_counters(servers.values()), before, strict=True))
                    outcome.asked_tokens += asked
                    outcome.found_tokens += found
    return outcomes


class _Asking:
    """One round of a workload."""

    def __init__(self, url: str, load: Workload, affinity: Affinity, salt: str, outcome: Outcome) -> None:
        self.url, self.load, self.affinity, self.salt, self.outcome = url, load, affinity, salt, outcome

    async def all(self) -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            await asyncio.gather(*(self._user(client, number) for number in range(self.load.users)))

    async def _user(self, client: aiohttp.ClientSession, number: int) -> None:
        load = self.load
        for chat in range(load.chats):
            texts = random.Random(f"{self.salt} {number} {chat}")  # noqa: S311
            application = texts.randrange(load.applications)
            instructions = _text(random.Random(f"{self.salt} {application}"), load.instructions)  # noqa: S311
            messages = [{"role": "system", "content": instructions}]
            session = (
                f"{self.salt} application {application}"
                if load.keyed_by_application
                else f"{self.salt} {number} {chat}"
            )
            for _ in range(load.turns):
                messages.append({"role": "user", "content": _text(texts, texts.randint(*load.message))})
                answer = await self._ask(client, messages, session)
                messages.append({"role": "assistant", "content": answer})
                await asyncio.sleep(texts.expovariate(1 / load.pause_s))

    async def _ask(self, client: aiohttp.ClientSession, messages: Sequence[Mapping[str, str]], session: str) -> str:
        body = {
            "model": "gemma",
            "messages": messages,
            "max_tokens": self.load.answer,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        headers = {"x-session-id": session} if self.affinity == "session" else {}
        began, first, said = time.perf_counter(), 0.0, []
        async with client.post(self.url, json=body, headers=headers) as answer:
            answer.raise_for_status()
            self.outcome.served[answer.headers["X-Member"]] += 1
            async for line in answer.content:
                if not line.startswith(b"data: {"):
                    continue
                choices = json.loads(line[6:])["choices"]
                if choices and choices[0]["delta"].get("content"):
                    first = first or time.perf_counter() - began
                    said.append(choices[0]["delta"]["content"])
        self.outcome.first_token_s.append(first or time.perf_counter() - began)
        return "".join(said)


def _text(words: random.Random, count: int) -> str:
    return " ".join(f"{words.choice(_WORDS)} {words.randrange(1000)}" for _ in range(count // 2))


def _counters(urls: Iterable[str]) -> tuple[float, float]:
    """Return tokens asked for and tokens found, of all servers since they started."""
    import requests

    texts = [requests.get(f"{url}/metrics", timeout=30).text for url in urls]
    return tuple(  # type: ignore[return-value]
        sum(
            float(value)
            for text in texts
            for value in re.findall(rf"^vllm:prefix_cache_{name}_total{{.*}} (.+)$", text, re.MULTILINE)
        )
        for name in ("queries", "hits")
    )


class _Readiness(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Quiet: HAProxy does not wait for the end of an answer."""


class _Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet: there is one a second."""


@contextmanager
def _gateways(servers: Mapping[str, str]) -> Iterator[dict[Affinity, Gateway]]:
    """A gateway of each affinity before the servers, all of which count as ready."""
    ready = _Readiness(("127.0.0.1", 0), _Ready)
    Thread(target=ready.serve_forever, daemon=True).start()
    places = {name: urlsplit(url) for name, url in servers.items()}
    members = [GatewayMember(name, name, name, place.port or 80) for name, place in places.items()]
    started: dict[Affinity, Gateway] = {}
    try:
        for affinity in AFFINITIES:
            started[affinity] = gateway = Gateway(
                members,
                {name: place.hostname or "" for name, place in places.items()},
                ready.server_port,
                routing=choose_routing(GatewaySettings(affinity=affinity)),
            )
            for name in servers:
                until(functools.partial(_answers, gateway, name))
        yield started
    finally:
        for gateway in started.values():
            gateway.close()
        ready.shutdown()
        ready.server_close()


def _answers(gateway: Gateway, name: str) -> bool:
    return gateway.status(f"/members/{name}/health") == 200


def _report(outcomes: Mapping[str, Mapping[Affinity, Outcome]], options: argparse.Namespace) -> Iterator[str]:
    import requests

    version = requests.get(f"{options.servers[0]}/version", timeout=30).json()["version"]
    servers = f"{len(options.servers)} servers of vLLM {version} {options.servers_are}"
    yield f"{datetime.date.today():%d %B %Y}, {servers}; rounds: {options.rounds}."
    yield ""
    yield "| workload | affinity | tokens found | times `none` | first token, median | p95 | most requests, of the mean |"
    yield "|---|---|---|---|---|---|---|"
    for title, by_affinity in outcomes.items():
        for affinity, one in by_affinity.items():
            times = one.hit_rate / by_affinity["none"].hit_rate
            waits = statistics.median(one.first_token_s), statistics.quantiles(one.first_token_s, n=20)[-1]
            median, tail = (f"{1000 * seconds:.0f} ms" for seconds in waits)
            yield f"| {title} | `{affinity}` | {one.hit_rate:.1%} | {times:.2f} | {median} | {tail} | {one.imbalance:.2f} |"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="measure_affinity", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "servers", nargs="+", help="addresses of vLLM servers with prefix caching, such as http://127.0.0.1:8911"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each workload is asked with each affinity (default 3)"
    )
    parser.add_argument("--into", type=Path, help="a Markdown file with the two marks between which the figures go")
    parser.add_argument("--servers-are", default="on this machine", help="what to say of the servers in the report")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
