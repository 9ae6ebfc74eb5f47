"""Finds the endpoint that a command line means: a stack's, by its state, or any vLLM, by its URL."""

from __future__ import annotations

import os
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from infra.errors import Gemma4Error, SettingsError
from infra.google.gcp_settings import GcpSettings
from infra.google.identity_tokens import IdentityTokens
from infra.google.session import ONCE_MORE, QUICK, GoogleSession
from infra.ops.endpoint.endpoint import Endpoint, Member, TokenSource
from infra.ops.endpoint.stack_state import read_state
from infra.ops.google_access import stack_session
from infra.ops.plan_inputs import plan_stack, project_root
from infra.suggestions import printable

API_KEY = "GEMMA4_API_KEY"
"""The environment variable with the key for a server that was started with --api-key."""
_CLOUD_RUN = ".run.app"


_trusted: frozenset[str] | None = None
"""URLs that get a key or a token when they are named; None: all, since a person at a terminal has typed them."""


def trust_only(urls: Collection[str]) -> None:
    """Send keys and tokens to these URLs alone from now on, and to stacks: for an assistant, which others may talk into naming
    a server of theirs. Raises SettingsError for what is not a URL."""
    global _trusted
    _trusted = None
    _trusted = frozenset(_of_url(url).url for url in urls)


def refuse_both(stack: str | None, url: str | None) -> None:
    """Raise SettingsError where a stack and a URL are given: two servers would be meant."""
    if stack is not None and url is not None:
        raise SettingsError.of(
            "--url", f"is given beside the stack {stack}.", "Two servers would be meant.", "Give one."
        )


def find_endpoint(stack: str | None, url: str | None = None) -> Endpoint:
    """Return the endpoint of a stack that is deployed, or of a URL. Raises SettingsError unless exactly one is given, and
    Gemma4Error where the stack's state cannot be read or names no address."""
    refuse_both(stack, url)
    if url is not None:
        return _of_url(url)
    if stack is None:
        fix = "Name a stack, e.g. l4, or a server with --url http://127.0.0.1:8000."
        raise SettingsError.of("stack", "is missing, and so is --url.", "There is nobody to ask.", fix)
    return _of_stack(stack)


def find_member(endpoint: Endpoint, name: str | None) -> Member | None:
    """Return the server of that name, None where no name is given. Raises SettingsError where there is no such server."""
    if name is None:
        return None
    for member in endpoint.members:
        if member.name == name:
            return member
    known = ", ".join(one.name for one in endpoint.members if one.name)
    fix = f"Name one of: {known}." if known else "Leave it out."
    raise SettingsError.of(
        "--slice", f"{endpoint.name} has no slice or machine {name!r}.", "There is nobody to ask.", fix
    )


def _of_stack(stack: str) -> Endpoint:
    root = project_root()
    planned = plan_stack(stack, root=root)
    state = read_state(root, stack)
    url = state.outputs.get("url")
    if not isinstance(url, str) or not url:
        raise Gemma4Error(f"{stack} is not deployed: its state names no address. Deploy it with: pulumi up -s {stack}")
    session = stack_session(planned.file)
    identity = IdentityTokens(session, invoker=str(state.outputs.get("invokerAccount") or ""))
    return Endpoint(
        url=url,
        members=tuple(Member(name, path) for name, path in planned.plan.deployment.member_paths().items()),
        served_model=str(state.outputs.get("model") or planned.plan.model.hub_id),
        planned=planned,
        state=state,
        session=session,
        tokens=TokenSource(lambda: identity.token(url), identity.forget),
    )


def _of_url(url: str) -> Endpoint:
    address = _address(url)
    if address is None:
        fix = "Write one like https://….run.app or http://127.0.0.1:8000."
        raise SettingsError.of("--url", f"{printable(url)} is not the URL of a server.", "Nobody would be asked.", fix)
    if address.username is not None:
        fix = f"Leave it out, and set {API_KEY} where the server asks for a key."
        raise SettingsError.of("--url", "holds a user name or password.", "It would be printed and stored.", fix)
    host = str(address.hostname)
    # Cloud Run answers plain HTTP with a redirect only: by then the token has been sent for everybody to read.
    scheme = "https" if host.endswith(_CLOUD_RUN) else address.scheme
    base = f"{scheme}://{address.netloc}{address.path.rstrip('/').removesuffix('/v1')}"
    trusted = _trusted is None or base in _trusted
    return Endpoint(url=base, members=(Member("", ""),), tokens=_tokens_for(host, base) if trusted else None)


def _address(url: str) -> SplitResult | None:
    """Return the parts of a URL, http where it says no scheme; None where no server can be at it."""
    try:
        address = urlsplit(url if "://" in url else f"http://{url}")
        known = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # a bracket that does not close, a port beyond 65535
        return None
    return address if known else None


def _tokens_for(host: str, base: str) -> TokenSource | None:
    if key := os.environ.get(API_KEY, ""):
        return TokenSource(lambda: key, is_identity=False)
    if not host.endswith(_CLOUD_RUN):
        return None
    identity = IdentityTokens(GoogleSession(GcpSettings.read(lambda _: None), retry=ONCE_MORE, timeouts=QUICK))
    audience = "://".join(urlsplit(base)[:2])
    return TokenSource(lambda: identity.token(audience), identity.forget)
