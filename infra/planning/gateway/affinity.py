"""Where requests go that belong together: to a member that has read their beginning before, by a hash of a key of theirs.

A key is the header x-session-id, else prompt_cache_key of the body, else, where the prefix decides, the first messages of a
chat: the first one, and the second where the first gives instructions, which many chats share. Further messages are left
out, so that a chat keeps its key while it grows. A request without a key goes anywhere.

Keys are spread by consistent hashing, the same way in every instance of the gateway and without memory: a member that goes
moves its own keys and no others, and gets them back. A member with more than `LOAD_FACTOR_PERCENT` of the mean load passes
requests on to the next one, so that one key in great demand is served by several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from infra.planning.gateway.routing import Routing

Affinity = Literal["none", "session", "prefix"]
"""What `gateway.affinity` takes."""
LOAD_FACTOR_PERCENT = 175
"""Requests in flight that a member may have, of the mean of all that are ready. A lower bound finds less in the caches while
few are in flight, and a higher one leaves half of the members idle where everybody has one key (docs/decisions/0020)."""
WEIGHT = 100
"""Of each member. The more points on the ring, the more even the shares: at 1 the largest of four was 16 % above the mean,
from 16 on 2 to 10 %."""
LARGE_BUFFER_BYTES = 262_144
"""Of a body so much is read for a key, and held only until the key is known."""
LARGE_BUFFERS_SINCE = "3.4.3"
"""HAProxy 3.4.0 has large buffers, and delays bodies of 16 to 32 KB in them by 0.2 s (haproxy/haproxy#3447)."""
BODY_TIMEOUT_S = 60
"""For the part of the body that is read."""
LONGEST_KEY = 256
"""Characters of the header; a longer one counts as none."""

_BEGINNING_BYTES, _LARGE_BEGINNING_BYTES = 8192, 131_072
"""Of a body whose first message is longer than what is read, these bytes are the key. Less than the buffer, which holds the
headers as well."""


def affinity_routing(affinity: Affinity) -> Routing:
    """Return the lines for HAProxy that send requests with one key to one member."""
    if affinity == "none":
        return Routing()
    return Routing(
        global_lines=_where_large((f"tune.bufsize.large {LARGE_BUFFER_BYTES}",), ()),
        frontend=tuple(_find_key(affinity)),
        balanced=(
            "http-request set-var(txn.key) uuid if !{ var(txn.key) -m found }",
            "balance hash var(txn.key)",
            "hash-type consistent wt6 avalanche",
            f"hash-balance-factor {LOAD_FACTOR_PERCENT}",
            ".if version_atleast(3.2)",
            "hash-preserve-affinity maxconn  # a full member passes on, whatever the others have",
            ".endif",
        ),
        server=f"weight {WEIGHT}",
    )


def _find_key(affinity: Affinity) -> Iterator[str]:
    """Yield what sets `txn.key`, where a request has one. A request to a member by its name needs none."""
    read = "if METH_POST generation !{ var(txn.name) -m found } !keyed"
    wait = f"http-request wait-for-body time {BODY_TIMEOUT_S}s"
    yield "acl keyed var(txn.key) -m found"
    yield "acl generation path_end /chat/completions /completions /responses /messages"
    yield f"http-request set-var(txn.key) req.hdr(x-session-id) if {{ req.hdr(x-session-id) -m len 1:{LONGEST_KEY} }}"
    yield from _where_large((f"{wait} use-large-buffer {read}",), (f"{wait} {read}",))
    yield f"http-request set-var(txn.key) {_in_body('prompt_cache_key')} {read}"
    if affinity == "session":
        return
    for place, name in enumerate(("first", "second")):
        of_instructed = f" {{ {_in_body('messages[0].role')} -m str system developer }}" if place else ""
        for text in ("content", "content[0].text"):  # before 3.0 a list of parts is not read as a whole
            found = f"{_in_body(f'messages[{place}].{text}')},xxh64,hex"
            yield f"http-request set-var(txn.{name}) {found} {read} !{{ var(txn.{name}) -m found }}{of_instructed}"
    yield f"http-request set-var(txn.key) var(txn.first),concat(,txn.second) {read} {{ var(txn.first) -m found }}"
    yield from _where_large(_beginning(_LARGE_BEGINNING_BYTES, read), _beginning(_BEGINNING_BYTES, read))


def _beginning(length: int, read: str) -> tuple[str, ...]:
    return (
        f"http-request set-var(txn.key) req.body,bytes(0,{length}),xxh64,hex {read} {{ req.body_len gt {length} }}",
    )


def _in_body(path: str) -> str:
    return f"req.body,json_query('$.{path}')"


def _where_large(lines: tuple[str, ...], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """Return `lines` for a HAProxy that has large buffers, and others for one that has not."""
    other = (".else", *otherwise) if otherwise else ()
    return (f".if version_atleast({LARGE_BUFFERS_SINCE})", *lines, *other, ".endif")
