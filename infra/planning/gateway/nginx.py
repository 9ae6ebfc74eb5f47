"""Renders nginx's whole configuration for the gateway before the TPU slices, as a pure function.

Addresses of slices are known only while a stack is being deployed, so `render_nginx` takes plain data and is called
with them then. The configuration follows one that ran against real vLLM servers, with these changes and their reasons:

* Every request has connections of its own, on both sides. vLLM closes idle ones after 5 s, nginx since 1.29.7 keeps
  them for 60 s unless told otherwise, and an instance without CPU between requests may notice too late: a POST on such
  a connection is lost. A handshake inside the VPC costs less than a millisecond.
* Request bodies pass through as they come: whatever nginx stores on Cloud Run, it stores in memory, and hundreds of
  requests with images would not fit. A POST could not be repeated on another slice once it was sent anyway. Towards the
  caller this, too, needs connections that end: one whose body was not read to its end cannot carry a next request.
* A slice by name has a location of its own: no captured text of a request ever becomes part of an address.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from string import Template

from infra.planning.gateway.service_limits import REQUEST_TIMEOUT_MAX_S
from infra.planning.server.command import PORT as SERVER_PORT

PORT = 8080
READY_PATH = "/gateway/ready"
ENV_NAME = "NGINX_CONF"
"""Environment variable that carries the configuration."""
SCRATCH = "/tmp"  # noqa: S108 - the only folder that the image's user may write; private to the container

VPC_PATIENCE_S = 100
"""After so long, silence no longer comes from the VPC: Direct VPC egress of a fresh instance passes nothing for 20 to 80 s."""

_WAITED = "waited"
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_PROJECT = re.compile(r"[a-z][a-z0-9.:-]*")


def render_nginx(
    *,
    project: str,
    slices: Mapping[str, str],
    in_flight_limit: int,
    request_timeout_s: int = REQUEST_TIMEOUT_MAX_S,
    server_port: int = SERVER_PORT,
    port: int = PORT,
    scratch: str = SCRATCH,
) -> str:
    """Return the configuration for `slices`, by name the IPv4 address of each, blank while it has none.

    A slice without an address takes no part in balancing and answers 503 under its own path; with no address at all the
    gateway is valid, ready, and answers 503 to everything. The text depends on the content of the mapping, not on its
    order. `port` and `scratch` are the gateway's own port and writable folder.

    Two slices with one address share it: one of them has ended, its address went to the other, and nobody has looked at
    it since (`pulumi up --refresh=false`). Which of them answers there is not known here.

    Raises:
        ValueError: a name, a project or an address that nginx could misread.
    """
    if not _PROJECT.fullmatch(project):
        raise ValueError(f"{project!r} is not a project id")
    if in_flight_limit < 1:
        raise ValueError(f"an in-flight limit of {in_flight_limit} would refuse every request")
    serving = _serving(slices, server_port)
    sharing: dict[str, list[str]] = {}
    for name, server in serving.items():
        sharing.setdefault(server, []).append(name)
    return _CONFIGURATION.substitute(
        project=project,
        port=port,
        scratch=scratch,
        timeout=request_timeout_s,
        names_by_address=_lines(f'"~\\b{re.escape(server)}$" {",".join(names)};' for server, names in sharing.items()),
        upstreams=_upstreams(sharing) if serving else "",
        ready=_READY.substitute(waited=f"{scratch}/{_WAITED}") if serving else "return 200;",
        locations="\n".join(_location(name, serving.get(name)) for name in sorted(slices)),
        unknown=_answer(404, "NotFoundError", f"no such slice; there is {', '.join(sorted(slices)) or 'none'}"),
        limit=in_flight_limit,
        balanced="proxy_pass http://slices;" if serving else _waiting("no slice has an address yet"),
        down=_answer(
            503,
            _UNAVAILABLE,
            "no slice answered: none is up, or the one at work on this request stopped; safe to retry",
        ),
        full=_answer(429, "RateLimitError", "too many requests in flight"),
        too_large=_answer(413, "BadRequestError", "the request is larger than 32 MiB, the most that Cloud Run takes"),
    )


def launch_script(scratch: str = SCRATCH, *, patience_s: int = VPC_PATIENCE_S) -> str:
    """Return shell text that starts nginx on the configuration in the environment, and ends with its exit status.

    After `patience_s` a file lets the startup probe take silence for slices that have ended.

    Cloud Run ends an instance with SIGTERM and waits 10 s. nginx takes that as an order to cut every stream, so the
    shell stays to pass it on as SIGQUIT: nothing new, but what runs may finish. That signal ends `wait` with 143, and
    an idle nginx may be gone before the next look: its own status is then still to be asked for. No "$(" here: Cloud
    Run would read a reference to a variable into it.
    """
    return (
        f'printf %s "${ENV_NAME}" >{scratch}/nginx.conf; '
        f"(sleep {patience_s}; : >{scratch}/{_WAITED}) & "  # before nginx, whose number $! must be
        "trap 'kill -QUIT $!' TERM; "
        f'nginx -e stderr -c {scratch}/nginx.conf -g "daemon off;" & '
        "s=143; while kill -0 $! 2>/dev/null; do wait $!; s=$?; done; "
        "[ $s -ne 143 ] && exit $s; wait $!"
    )


def _serving(slices: Mapping[str, str], server_port: int) -> dict[str, str]:
    """Return, by name, address and port of the slices that have an address."""
    serving: dict[str, str] = {}
    for name, address in sorted(slices.items()):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a slice")
        if not address:
            continue
        serving[name] = f"{ipaddress.IPv4Address(address)}:{server_port}"
    return serving


def _upstreams(servers: Iterable[str]) -> str:
    return _UPSTREAMS.substitute(
        balanced=_lines(f"server {server} max_fails=1 fail_timeout=10s;" for server in servers),
        again=_lines(f"server {server} max_fails=0 backup;" for server in servers),
        probed=_lines(f"server {server} max_fails=0;" for server in servers),
    )


def _location(name: str, server: str | None) -> str:
    inside = f"proxy_pass http://{server}/;" if server else _waiting(f"slice {name} has no address yet")
    return f"        location /slices/{name}/ {{ {inside} }}"


def _waiting(message: str) -> str:
    return f"add_header Retry-After 60 always; {_answer(503, _UNAVAILABLE, message)}"


def _answer(status: int, kind: str, message: str) -> str:
    """Return an nginx `return` of an error in vLLM's own form."""
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}})
    return f"return {status} '{body}';"


def _lines(lines: Iterable[str]) -> str:
    return "\n        ".join(lines)


class _Nginx(Template):
    """Text with %placeholders, since nginx has its own use for the dollar and for braces."""

    delimiter = "%"


_UNAVAILABLE = "ServiceUnavailableError"

_READY = _Nginx("""\
if (-f %waited) { return 200; }
            proxy_pass http://reach/health;
            proxy_next_upstream off;
            proxy_read_timeout 2s;
            proxy_intercept_errors on;
            error_page 404 500 502 503 =200 /gateway/up;""")

_UPSTREAMS = _Nginx("""\
upstream slices {
        least_conn;
        %balanced
        # Asked when all above are marked: a slice that answered before it had read a whole body and then closed, as
        # vLLM does on a path that it does not know, looks like a dead one, and two such requests would mark two.
        %again
    }

    upstream reach {                         # for the startup probe, whose failures must leave no mark
        %probed
    }""")

_CONFIGURATION = _Nginx("""\
worker_processes 1;                          # one worker: counts and failure marks are exact
pid %scratch/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }          # two a request, and Cloud Run sends at most 1000 of them

http {
    map $http_x_cloud_trace_context $trace { default ""; "~^(?<id>[0-9a-f]{32})" "projects/%project/traces/$id"; }
    map $status $severity { default INFO; "~^4" WARNING; "~^5" ERROR; }
    map $uri $logged { default 1; "~/(health|metrics)$" 0; }
    map $upstream_addr $slice {              # the last one tried
        default "";
        %names_by_address
    }
    log_format line escape=json '{"severity":"$severity","logging.googleapis.com/trace":"$trace",'
        '"requestId":"$request_id","slice":"$slice","tried":"$upstream_status",'
        '"connect":"$upstream_connect_time","firstByte":"$upstream_header_time",'
        '"httpRequest":{"requestMethod":"$request_method","requestUrl":"$uri","status":$status,'
        '"latency":"${request_time}s"}}';
    access_log /dev/stdout line if=$logged;

    # Never written to, since bodies are not buffered; but nginx makes them at its start.
    client_body_temp_path %scratch/body;
    proxy_temp_path %scratch/proxy;
    fastcgi_temp_path %scratch/fastcgi;
    uwsgi_temp_path %scratch/uwsgi;
    scgi_temp_path %scratch/scgi;

    server_tokens off;
    client_max_body_size 32m;                # Cloud Run's own cap over HTTP/1
    client_body_buffer_size 64k;
    keepalive_timeout 0;                     # see the head of nginx.py
    send_timeout 300s;

    proxy_http_version 1.1;                  # a stream that was cut can be told from one that ended
    proxy_set_header Connection close;       # see the head of nginx.py
    proxy_set_header Host $host;
    proxy_set_header Authorization "";       # the caller's identity token ends here
    proxy_set_header X-Serverless-Authorization "";
    proxy_set_header X-Request-Id $request_id;
    proxy_request_buffering off;
    proxy_buffering off;                     # server-sent events leave as they come
    proxy_connect_timeout 2s;                # a deleted machine does not answer at all
    proxy_send_timeout 60s;
    proxy_read_timeout %{timeout}s;                # an answer that is not streamed is silent until it is whole
    proxy_next_upstream error timeout;       # a POST moves on only while nothing of it was sent

    %upstreams

    limit_conn_zone $server_name zone=in_flight:64k;
    limit_conn_status 429;

    server {
        listen %port;
        server_name gateway;
        absolute_redirect off;               # the caller knows neither this port nor plain http
        default_type application/json;
        add_header X-Slice $slice always;
        error_page 413 = @too_large;
        error_page 429 = @full;
        error_page 502 504 = @down;

        location = /gateway/up { access_log off; default_type text/plain; return 200 "ok\\n"; }

        # Startup probe. Is the VPC up? An answer or a refusal: yes. Silence (504): not yet; or, when it has lasted
        # longer than a VPC takes, yes, and all slices have ended: the service must come up for the next one all the same.
        location = /gateway/ready {
            access_log off;
            %ready
        }

        location /slices/ { %unknown }
%locations

        location / { limit_conn in_flight %limit; %balanced }

        location @down { add_header Retry-After 10 always; add_header X-Slice $slice always; %down }
        location @full { add_header Retry-After 5 always; %full }
        location @too_large { %too_large }
    }
}
""")
