"""How much of the gateway one caller may have, and whose requests go first where some wait.

A caller is the `sub` of the identity token that Cloud Run has checked before it passed the request on: of
X-Serverless-Authorization where a request has it, for then Cloud Run checks that one alone, else of Authorization. The
signature is gone by then, so a token counts only in the header that was checked; a request with two of these, or with
something else than a token there, shares its numbers with all others of whom nobody is sure.
"""

from __future__ import annotations

from collections.abc import Iterator

from infra.planning.gateway.local_answers import refusal
from infra.planning.gateway.routing import Routing
from infra.planning.settings.declarations import GatewaySettings
from infra.planning.units import parse_duration

UNSURE = "unsure"
"""Stands for every caller whose token could not be read."""
RETRY_AFTER_S = 5
"""For a caller that has as many requests in flight as it may."""

_CHECKED = ("X-Serverless-Authorization", "Authorization")
"""Headers with identity tokens; Cloud Run checks the first that there is."""
_MOST_OFFSET_MS = 524_287
"""HAProxy's bound on how far a request may be moved in a queue."""


def fairness_routing(gateway: GatewaySettings) -> Routing:
    """Return the lines for HAProxy that count the requests of each caller, and put those of some before the others."""
    if gateway.per_caller is None and not gateway.priority:
        return Routing()
    limits = gateway.per_caller is not None
    return Routing(
        sections=(_COUNTS,) if limits else (),
        frontend=(*_identify(), *_count(gateway), *_prefer(gateway)),
        log_fields=(("caller", '"%[var(txn.caller),json(utf8s)]"'),),
    )


_COUNTS = """\
backend callers from common
    stick-table type string len 64 size 10k expire 10m store conn_cur"""


def _identify() -> Iterator[str]:
    """Yield what sets `txn.caller`."""
    serverless, plain = _CHECKED
    yield f"acl caller_asked_by_serverless req.fhdr_cnt({serverless}) gt 0"
    for header, condition in ((serverless, ""), (plain, " !caller_asked_by_serverless")):
        once = f"{{ req.hdr_cnt({header}) eq 1 }} {{ req.hdr({header}) -m beg -i 'bearer ' }}"
        yield f"http-request set-var(txn.caller) req.hdr({header}),word(2,' '),jwt_payload_query('$.sub') if {once}{condition}"
    yield f"http-request set-var(txn.caller) str({UNSURE}) unless {{ var(txn.caller) -m len 1:64 }}"


def _count(gateway: GatewaySettings) -> Iterator[str]:
    """Yield what refuses a caller's further requests. Every POST counts: it would be easy to spell a path otherwise."""
    if gateway.per_caller is None:
        return
    message = f"this caller has {gateway.per_caller} requests in flight, the most that one may have"
    yield "http-request track-sc0 var(txn.caller) table callers if METH_POST"
    yield f"http-request {refusal(429, message, RETRY_AFTER_S)} if METH_POST {{ sc0_conn_cur gt {gateway.per_caller} }}"


def _prefer(gateway: GatewaySettings) -> Iterator[str]:
    """Yield what lets requests of some callers go before those that came at most half of the longest wait earlier. So the
    others wait longer, and still get their turn before their time is up, unless the preferred alone are too many."""
    if not gateway.priority:
        return
    ahead_ms = min(500 * parse_duration(gateway.queue_timeout), _MOST_OFFSET_MS)
    preferred = " ".join(dict.fromkeys(gateway.priority))
    yield f"http-request set-priority-offset int(-{ahead_ms}) if {{ var(txn.caller) -m str {preferred} }}"
