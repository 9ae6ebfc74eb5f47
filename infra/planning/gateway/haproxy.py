"""Renders HAProxy's whole configuration for the gateway, as a pure function of what is known before any machine exists.

A member is a name in the stack's private zone, never an address. What is decided here, and why:

* Names always exist, with a placeholder until a machine takes its own. So only an answer with an address changes anything:
  a DNS server that is dead, refuses or denies leaves the members where they are for an hour, and the checks decide.
* Each member is checked in a backend of its own, by its own name, and wherever else it is balanced, that check is followed:
  a machine that was given the address of another one answers 404 to the other's name, and gets nothing.
* Limits are computed at each request from the members that are ready, never from how many the settings name.
* Every request has connections of its own, on both sides. vLLM closes idle ones after 5 s, and an instance without CPU
  between requests may notice too late: a POST on such a connection is lost. A handshake in the VPC costs below 1 ms.
* What was sent is never sent again: only a connection that never came about moves a request to another member.
* A body passes through as it comes: hundreds of requests with images would not fit into memory.
* State changes go to stderr as HAProxy writes them, and stdout holds nothing but JSON: only the frontend has a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from infra.planning.gateway.container import STOP_AFTER_S
from infra.planning.gateway.local_answers import error_page, refusal
from infra.planning.gateway.members import READY_PORT, GatewayMember, by_path_name
from infra.planning.gateway.routing import Routing
from infra.planning.gateway.service_limits import REQUEST_TIMEOUT_MAX_S

PORT = 8080
READY_PATH = "/gateway/ready"
ALIVE_PATH = "/gateway/alive"
METRICS_PATH = "/gateway/metrics"
NAMESERVER = "169.254.169.254:53"
"""Google's resolver, which answers for the private zones of the VPC."""
MOST_CONNECTIONS = 2500
"""Of one instance; Cloud Run sends at most 1000 requests."""
VPC_PATIENCE_S = 100
"""After so long no member is expected any more: Direct VPC egress of a fresh instance passes nothing for 20 to 80 s."""
MOST_BODY_BYTES = 32 * 1024 * 1024
"""Cloud Run's own cap over HTTP/1."""
BALANCED = "members"
"""The backend with every member; HAProxy's own metrics carry the name."""

_NAMED = ("http-request replace-path /[^/]+/[^/]+/?(.*) /\\1", "balance leastconn")
"""Of a backend that is asked for by a name: the member hears nothing of it."""
_CHECKED = ("http-check expect status 200", ".if version_atleast(3.1)", "default-server init-state down", ".endif")
_FIRST_CHECKS_S = 3
"""Before 3.1 a server counts as ready until its first check has failed: after a second at most, and the check's own time."""
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_PROJECT = re.compile(r"[a-z][a-z0-9.:-]*")


def render_haproxy(
    *,
    project: str,
    domain: str,
    members: Sequence[GatewayMember],
    requests_each: int,
    request_timeout_s: int = REQUEST_TIMEOUT_MAX_S,
    routing: Routing | None = None,
    port: int = PORT,
    ready_port: int = READY_PORT,
    nameserver: str = NAMESERVER,
    patience_s: int = VPC_PATIENCE_S,
) -> str:
    """Return the configuration for `members`, whose hosts are names below `domain`.

    `requests_each` bounds the requests in flight of one member, running and waiting. What the tests need differently
    comes last: the gateway's own port, that of the members' readiness, the DNS server, and how long a member is awaited.

    Raises:
        ValueError: a name that HAProxy could misread or that two members share, or a limit that refuses everything.
    """
    _check(project, domain, members, requests_each)
    routing = routing or Routing()
    named, bounds = by_path_name(members), tuple(_bounds(requests_each))
    return "\n\n".join(
        (
            _section("global", _global(routing)),
            _section("defaults common", _defaults(request_timeout_s, requests_each)),
            _section("defaults balanced from common", bounds),
            _section("defaults named from common", [*bounds, *_NAMED]),
            _section("defaults checked from common", [*bounds, *_NAMED, *_CHECKED]),
            _section("resolvers vpc", _resolvers(nameserver)),
            *routing.sections,
            _section("frontend gateway from common", _frontend(project, port, patience_s, routing, named)),
            _section("backend unknown from common", [f"http-request {refusal(404)}"]),
            _section(f"backend {BALANCED} from balanced", _balanced(domain, members, routing)),
            *(_by_name(name, found, domain, ready_port) for name, found in named.items()),
        )
    )


def _global(routing: Routing) -> Iterator[str]:
    yield f"maxconn {MOST_CONNECTIONS}"
    yield "nbthread 1  # one CPU, and exact counts"
    yield "log stdout format raw daemon info"
    yield f"hard-stop-after {STOP_AFTER_S}s"
    yield "set-var proc.started date"
    yield from routing.global_lines


def _defaults(request_timeout_s: int, requests_each: int) -> Iterator[str]:
    yield "mode http"
    yield "option httpclose"
    yield "option http-no-delay"
    yield "option abortonclose  # a caller that leaves ends the generation"
    yield "option dontlognull"
    yield "timeout connect 2s  # a machine that is gone does not answer at all"
    yield f"timeout client {request_timeout_s}s"
    yield f"timeout server {request_timeout_s}s  # an answer that is not streamed is silent until it is whole"
    yield "timeout http-request 60s"
    yield "timeout queue 10s"
    yield "timeout check 800ms"
    yield "retries 2"
    yield "option redispatch 1"
    yield "retry-on conn-failure"
    yield from (error_page(status) for status in (400, 408, 500, 502, 503, 504))
    yield (  # no address before DNS has given one, else from 3.1 on whoever follows a check counts as up before it
        "default-server inter 1s fastinter 250ms downinter 500ms fall 2 rise 1 "
        f"maxconn {requests_each} init-addr none resolvers vpc resolve-prefer ipv4"
    )


def _bounds(requests_each: int) -> Iterator[str]:
    """Yield what is asked of each backend with members: is one ready, and has it room?"""
    yield f"http-request {refusal(503)} if {{ nbsrv lt 1 }}"
    yield f"http-request set-var(txn.most) nbsrv,mul({requests_each})"
    yield f"http-request {refusal(429)} if {{ be_conn,sub(txn.most) gt 0 }}"


def _resolvers(nameserver: str) -> Iterator[str]:
    yield f"nameserver vpc {nameserver}"
    yield "accepted_payload_size 1232"
    yield "resolve_retries 3"
    yield "timeout resolve 1s"
    yield "timeout retry 1s"
    yield "hold valid 1s"
    yield "hold obsolete 0s  # a changed address counts at once"
    yield from (f"hold {trouble} 1h" for trouble in ("nx", "other", "refused", "timeout"))


def _frontend(
    project: str, port: int, patience_s: int, routing: Routing, named: dict[str, tuple[GatewayMember, ...]]
) -> Iterator[str]:
    yield f"bind :{port}"
    yield "unique-id-format %[uuid]"
    yield f"log global\n    log-format '{_log_line(routing)}'"
    yield "http-request set-var(txn.path) path"
    yield (
        "http-request set-var(txn.trace) req.hdr(x-cloud-trace-context),field(1,/),"
        f"regsub(^,projects/{project}/traces/) if {{ req.hdr(x-cloud-trace-context) -m reg ^[0-9a-f]{{32}}(/|$) }}"
    )
    yield "http-after-response set-var(txn.severity) str(WARNING) if { status 400:499 }"
    yield "http-after-response set-var(txn.severity) str(ERROR) if { status ge 500 }"
    yield "http-after-response set-header X-Request-Id %[unique-id]"
    yield "http-after-response set-header X-Member %[srv_name] if { srv_name -m found }"
    yield "http-request set-log-level silent if { path_beg /gateway/ } or { path_end /health /metrics }"
    yield from _own_answers(patience_s)
    yield f"http-request {refusal(413)} if {{ req.hdr_val(content-length) gt {MOST_BODY_BYTES} }}"
    yield "http-request set-var(txn.name) path,field(3,/) if { path_beg /members/ /slices/ }"
    yield from routing.frontend
    yield "http-request del-header Authorization  # the caller's identity token ends here"
    yield "http-request del-header X-Serverless-Authorization"
    yield "http-request set-header X-Request-Id %[unique-id]"
    yield "acl named path_beg /members/ /slices/"
    for name, found in named.items():
        yield f"use_backend {_backend(name, found)} if named {{ var(txn.name) -m str {name} }}"
    yield "use_backend unknown if named"
    yield f"default_backend {BALANCED}"


def _own_answers(patience_s: int) -> Iterator[str]:
    """Yield what the gateway answers about itself.

    It is ready when a member is: before that, nobody knows whether the VPC passes anything. When none has been for longer
    than a VPC takes, it comes up all the same, for the member that comes next.
    """
    good = "http-request return status 200 content-type text/plain string ok if"
    yield f"{good} {{ path {ALIVE_PATH} }}"
    yield f".if version_atleast(3.1)\n    {good} {{ path {READY_PATH} }} {{ nbsrv({BALANCED}) gt 0 }}\n.else"
    yield f"{good} {{ path {READY_PATH} }} {{ nbsrv({BALANCED}) gt 0 }} {{ date,sub(proc.started) gt {_FIRST_CHECKS_S} }}"
    yield ".endif"
    yield f"{good} {{ path {READY_PATH} }} {{ date,sub(proc.started) ge {patience_s} }}"
    yield f"http-request {refusal(503)} if {{ path {READY_PATH} }}"
    yield f"http-request use-service prometheus-exporter if {{ path {METRICS_PATH} }}"
    yield f"http-request {refusal(404)} if {{ path_beg /gateway/ }}"


def _log_line(routing: Routing) -> str:
    fields = (
        ("severity", "%{+Q}[var(txn.severity,INFO)]"),
        ("logging.googleapis.com/trace", "%{+Q}[var(txn.trace)]"),
        ("requestId", "%{+Q}[unique-id]"),
        ("member", "%{+Q}[srv_name]"),
        ("ended", '"%tsc"'),
        ("retries", '"%rc"'),
        ("waitMs", "%Tw"),
        ("connectMs", "%Tc"),
        ("firstByteMs", "%Tr"),
        ("totalMs", "%Ta"),
        ("inFlight", "%bc"),
        ("queuedBefore", "%bq"),
        *routing.log_fields,
    )
    request = '{"requestMethod":%{+Q}HM,"requestUrl":"%[var(txn.path),json(utf8s)]","status":%ST}'
    return "{" + ",".join(f'"{name}":{value}' for name, value in (*fields, ("httpRequest", request))) + "}"


def _balanced(domain: str, members: Iterable[GatewayMember], routing: Routing) -> Iterator[str]:
    yield from routing.balanced
    for member in members:
        yield f"{_following(member, domain)} {routing.server}".rstrip()


def _by_name(name: str, found: Sequence[GatewayMember], domain: str, ready_port: int) -> str:
    """Return the backend behind one name: of a member, with its check, or of a group, which follows those of its members."""
    if _is_group(name, found):
        lines = [_following(member, domain) for member in found]
        return _section(f"backend {_backend(name, found)} from named", lines)
    lines = [f"option httpchk GET /ready/{name}", f"{_server(found[0], domain)} check port {ready_port}"]
    return _section(f"backend {_backend(name, found)} from checked", lines)


def _server(member: GatewayMember, domain: str) -> str:
    return f"server {member.name} {member.host}.{domain}:{member.port}"


def _following(member: GatewayMember, domain: str) -> str:
    return f"{_server(member, domain)} track member.{member.name}/{member.name}"


def _backend(name: str, found: Sequence[GatewayMember]) -> str:
    return f"{'group' if _is_group(name, found) else 'member'}.{name}"


def _is_group(name: str, found: Sequence[GatewayMember]) -> bool:
    return [member.name for member in found] != [name]


def _section(head: str, lines: Iterable[str]) -> str:
    return "\n".join([head, *(line if line.startswith(".") else f"    {line}" for line in lines)])


def _check(project: str, domain: str, members: Iterable[GatewayMember], requests_each: int) -> None:
    if not _PROJECT.fullmatch(project):
        raise ValueError(f"{project!r} is not a project id")
    if not _DOMAIN.fullmatch(domain):
        raise ValueError(f"{domain!r} is not a DNS name")
    if requests_each < 1:
        raise ValueError(f"a limit of {requests_each} requests would refuse every request")
    for member in members:
        for name in (member.name, member.group, member.host):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a member")
