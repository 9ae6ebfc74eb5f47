"""What affinity at the gateway does for the prefix caches of four invented servers, and to the balance between them.

    .venv/bin/python -m scripts.simulate_affinity

Routing is HAProxy's own, computed: the ring and the bound on a member's load as in its `balance hash`, least connections as
in its `balance leastconn`; tests/planning/gateway holds the first against a real HAProxy. A server is modelled by what
decides here: a cache of blocks of 16 tokens that forgets the longest unused one, as vLLM's does; prefill one request after
the other, at a given rate; decoding at a given pace; and so many requests at once. docs/decisions/0020 has the results.
"""

from __future__ import annotations

import heapq
import itertools
import random
import statistics
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from infra.planning.gateway.affinity import LOAD_FACTOR_PERCENT, WEIGHT

MEMBERS = 4
BLOCK = 16
"""Tokens of a block of vLLM's prefix cache."""
_WORD = 0xFFFFFFFF


class Ring:
    """HAProxy's `hash-type consistent wt6 avalanche` over members of one weight, with its `hash-balance-factor`."""

    def __init__(self, members: int, *, weight: int = WEIGHT, factor_percent: int = LOAD_FACTOR_PERCENT) -> None:
        self.factor_percent = factor_percent
        # A server's points follow from its number, which counts from 1, and the number of the point; 16 for each unit of
        # weight, and room for 256 units.
        points = [
            (_avalanche((number + 1) * 4096 + j), number) for number in range(members) for j in range(weight * 16)
        ]
        points.sort()
        self._hashes = [at for at, _ in points]
        self._owners = [owner for _, owner in points]

    def choose(self, key: str, in_flight: Sequence[int]) -> int:
        """Return the member for a key, with so many requests in flight at each."""
        at = _avalanche(_wt6(key.encode()))
        after = bisect_left(self._hashes, at) % len(self._hashes)
        before = after - 1
        nearer_before = (at - self._hashes[before]) & _WORD <= (self._hashes[after] - at) & _WORD
        place = before % len(self._hashes) if nearer_before else after
        if not self.factor_percent:
            return self._owners[place]
        slots, count = -(-(sum(in_flight) + 1) * self.factor_percent // 100), len(in_flight)
        for step in range(len(self._owners)):
            owner = self._owners[(place + step) % len(self._owners)]
            share = (owner + 1) * slots // count - owner * slots // count  # together the members have all slots
            if in_flight[owner] < max(1, share):
                return owner
        return self._owners[place]


def _wt6(data: bytes) -> int:
    """Return HAProxy's hash of that name."""
    low, high, turn, other = 0xA53C965A, 0x5CA6953A, 6, 18
    for byte in data:
        low = ~(low ^ byte) & _WORD
        high = ~(high + byte) & _WORD
        low, high = _rotated(high, turn), _rotated(low, other)
        mixed = ((low >> 16) ^ high) & 0xFFFF
        turn, other = mixed & 0x1F, mixed >> 11
    return low ^ high


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD


def _avalanche(word: int) -> int:
    """Return Bob Jenkins' mix of a word, times the large prime by which HAProxy spreads it."""
    word = ((word + 0x7ED55D16) + (word << 12)) & _WORD
    word = ((word ^ 0xC761C23C) ^ (word >> 19)) & _WORD
    word = ((word + 0x165667B1) + (word << 5)) & _WORD
    word = ((word + 0xD3A2646C) ^ (word << 9)) & _WORD
    word = ((word + 0xFD7046C5) + (word << 3)) & _WORD
    word = ((word ^ 0xB55A4F09) ^ (word >> 16)) & _WORD
    return word * 3221225473 & _WORD


class LeastConnections:
    """HAProxy's `balance leastconn`: the fewest requests in flight, and among equals the one that was chosen longest ago."""

    def __init__(self, members: int) -> None:
        self._order = list(range(members))

    def choose(self, key: str, in_flight: Sequence[int]) -> int:
        """Return the member; the key is of no matter."""
        chosen = min(self._order, key=lambda member: in_flight[member])
        self._order.remove(chosen)
        self._order.append(chosen)
        return chosen


Router = LeastConnections | Ring


class BlockCache:
    """The prefix cache of one server. Blocks that a running request uses are not forgotten."""

    def __init__(self, tokens: int) -> None:
        self._room = tokens // BLOCK
        self._used: dict[object, int] = {}
        self._idle: OrderedDict[object, None] = OrderedDict()

    def take(self, blocks: Sequence[object]) -> int:
        """Hold the blocks of a request; return how many of them, from the first on, were there."""
        known = itertools.takewhile(lambda block: block in self._used or block in self._idle, blocks)
        there = sum(1 for _ in known)
        for block in blocks:
            self._idle.pop(block, None)
            self._used[block] = self._used.get(block, 0) + 1
        while self._idle and len(self._used) + len(self._idle) > self._room:
            self._idle.popitem(last=False)
        return there

    def release(self, blocks: Sequence[object]) -> None:
        """Let go of the blocks; the last of them is forgotten first."""
        for block in reversed(blocks):
            self._used[block] -= 1
            if not self._used[block]:
                del self._used[block]
                self._idle[block] = None


@dataclass(frozen=True)
class Server:
    """What a server can do."""

    cache_tokens: int = 160_000
    at_once: int = 64
    prefill_tokens_per_s: float = 8000.0
    token_s: float = 0.025
    """Between two tokens of one answer."""


@dataclass(frozen=True)
class Conversations:
    """Users who each hold one conversation after the other."""

    users: int = 128
    instructions: int = 600
    """Tokens that all conversations of one application begin with."""
    applications: int = 4
    message: tuple[int, int] = (40, 400)
    answer: tuple[int, int] = (80, 400)
    turns: tuple[int, int] = (3, 9)
    pause_s: float = 15.0
    """Between an answer and the next message, mean of an exponential distribution."""
    keyed_by_application: bool = False
    """Whether all conversations of an application have one key, as those that begin with the same examples."""


SINGLE = Conversations(users=128, instructions=2400, applications=24, turns=(1, 1), pause_s=1.0)
"""Shared instructions: a long text that many short questions begin with, each asked once."""
EXAMPLES = Conversations(
    users=256, instructions=2400, applications=1, turns=(1, 1), pause_s=1.0, keyed_by_application=True
)
"""The same examples before every question: one key for all."""


@dataclass
class Chat:
    """A conversation so far. `blocks` name its content: equal names are equal tokens after an equal beginning."""

    name: int
    application: int
    turns_left: int
    tokens: int
    instructions: int

    def blocks(self) -> list[object]:
        """Return the full blocks of the prompt, by which a server knows it again."""
        shared = self.instructions // BLOCK
        own = range(shared, self.tokens // BLOCK)
        return [*((self.application, "all", i) for i in range(shared)), *((self.name, i) for i in own)]


@dataclass
class _Member:
    cache: BlockCache
    waiting: deque[_Request] = field(default_factory=deque)
    running: int = 0
    in_flight: int = 0
    prefilled_at: float = 0.0
    load: float = 0.0
    """Requests in flight, times seconds."""
    requests: int = 0


@dataclass
class _Request:
    chat: Chat
    member: int
    asked_at: float
    answer: int
    blocks: list[object]


@dataclass(frozen=True)
class Outcome:
    """What came of a run, its first fifth left out."""

    hit_rate: float
    """Of the prompts' tokens, those that a cache held."""
    imbalance: float
    """The largest member's load, of the mean; load is requests in flight over time."""
    first_token_s: tuple[float, float]
    """Median and 95th percentile."""


def simulate(
    router: Router,
    workload: Conversations,
    *,
    members: int = MEMBERS,
    server: Server | None = None,
    requests: int = 4000,
    seed: int = 1,
) -> Outcome:
    """Return what comes of so many requests of the workload, sent through the router."""
    return _Run(router, workload, members, server or Server(), seed).outcome(requests)


class _Run:
    def __init__(self, router: Router, workload: Conversations, members: int, server: Server, seed: int) -> None:
        self.router, self.workload, self.server = router, workload, server
        self.random = random.Random(seed)  # noqa: S311 - a simulation
        self.members = [_Member(BlockCache(server.cache_tokens)) for _ in range(members)]
        self.names = itertools.count()
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.now = 0.0
        self.asked = self.cached = self.prompts = 0
        self.firsts: list[float] = []

    def outcome(self, requests: int) -> Outcome:
        for _ in range(self.workload.users):
            self._after(self.random.random() * 2 * self.workload.pause_s, self._begin)
        warm = requests // 5
        while self.asked < requests:
            if self.asked >= warm > 0:
                warm, self.cached, self.prompts, self.firsts = 0, 0, 0, []
                for member in self.members:
                    member.load = 0.0
            at, _, happens = heapq.heappop(self.events)
            for member in self.members:
                member.load += member.in_flight * (at - self.now)
            self.now = at
            happens()
        loads = [member.load for member in self.members]
        tail = statistics.quantiles(self.firsts, n=20)[-1]
        return Outcome(
            self.cached / self.prompts, max(loads) / statistics.mean(loads), (statistics.median(self.firsts), tail)
        )

    def _after(self, seconds: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.order), happens))

    def _begin(self) -> None:
        load = self.workload
        chat = Chat(
            next(self.names),
            self.random.randrange(load.applications),
            self.random.randint(*load.turns),
            load.instructions,
            load.instructions,
        )
        self._ask(chat)

    def _ask(self, chat: Chat) -> None:
        chat.tokens += self.random.randint(*self.workload.message)
        chat.turns_left -= 1
        self.asked += 1
        key = f"application {chat.application}" if self.workload.keyed_by_application else f"chat {chat.name}"
        number = self.router.choose(key, [member.in_flight for member in self.members])
        member = self.members[number]
        member.in_flight += 1
        member.requests += 1
        member.waiting.append(
            _Request(chat, number, self.now, self.random.randint(*self.workload.answer), chat.blocks())
        )
        self._admit(member)

    def _admit(self, member: _Member) -> None:
        while member.waiting and member.running < self.server.at_once:
            request = member.waiting.popleft()
            member.running += 1
            cached = BLOCK * member.cache.take(request.blocks)
            # The last token of a prompt is always computed.
            cached = min(cached, (request.chat.tokens - 1) // BLOCK * BLOCK)
            self.cached += cached
            self.prompts += request.chat.tokens
            begins = max(self.now, member.prefilled_at)
            member.prefilled_at = begins + (request.chat.tokens - cached) / self.server.prefill_tokens_per_s
            self.firsts.append(member.prefilled_at - request.asked_at)
            ends = member.prefilled_at + request.answer * self.server.token_s
            self._after(ends - self.now, lambda request=request: self._answered(request))  # type: ignore[misc]

    def _answered(self, request: _Request) -> None:
        member, chat = self.members[request.member], request.chat
        chat.tokens += request.answer
        member.cache.release(request.blocks)
        answered = chat.blocks()
        member.cache.take(answered)
        member.cache.release(answered)
        member.running -= 1
        member.in_flight -= 1
        pause = self.random.expovariate(1 / self.workload.pause_s)
        self._after(pause, (lambda: self._ask(chat)) if chat.turns_left else self._begin)
        self._admit(member)


ROUTERS: dict[str, Callable[[int], Router]] = {
    "least connections": LeastConnections,
    **{
        f"ring, {percent} %" if percent else "ring, unbounded": lambda members, percent=percent: Ring(  # type: ignore[misc]
            members, factor_percent=percent
        )
        for percent in (150, LOAD_FACTOR_PERCENT, 250)
    },
}
WORKLOADS: dict[str, tuple[Conversations, Server]] = {
    "conversations": (Conversations(), Server()),
    "a quarter of the users": (Conversations(users=32), Server()),
    "caches of a quarter": (Conversations(), Server(cache_tokens=40_000)),
    "overload: four times the users": (Conversations(users=512), Server()),
    "single questions after shared instructions": (SINGLE, Server()),
    "the same, overloaded": (SINGLE, Server(cache_tokens=40_000)),
    "the same examples before every question": (EXAMPLES, Server()),
}


def main() -> None:
    """Print a table of workloads and routers."""
    print(
        "| workload | routing | tokens found in the cache | times least connections | largest load, of the mean | first token |"
    )
    print("|---|---|---|---|---|---|")
    for title, (workload, server) in WORKLOADS.items():
        least = 0.0
        for name, router in ROUTERS.items():
            one = simulate(router(MEMBERS), workload, members=MEMBERS, server=server)
            least = least or one.hit_rate
            median, tail = (f"{1000 * seconds:.0f} ms" for seconds in one.first_token_s)
            rates = f"{one.hit_rate:.1%} | {one.hit_rate / least:.2f}"
            print(f"| {title} | {name} | {rates} | {one.imbalance:.2f} | {median}, p95 {tail} |")


if __name__ == "__main__":
    main()
