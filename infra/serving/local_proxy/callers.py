"""Who may ask the proxy: programs on this machine, not pages of the web.

A web page can send requests to 127.0.0.1 too: with a name of its own that it lets point there (then the Host header says
that name), or straight (then the Origin header says where the page is from). Either would be paid for by the user.
"""

from __future__ import annotations

from urllib.parse import urlsplit

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def stranger(host: str | None, origin: str | None) -> str:
    """Return why a request with these headers is refused, empty where it comes from this machine. A port may differ, as it
    does through a tunnel."""
    if not _is_loopback(f"//{host or ''}"):
        return (
            "this proxy answers only requests to 127.0.0.1 or localhost, and the Host header of this one says otherwise: a web "
            "page may have pointed a name at this machine. Write the base URL with 127.0.0.1."
        )
    if origin is not None and not _is_loopback(origin):
        return "this proxy does not answer web pages from elsewhere: the Origin header does not name this machine."
    return ""


def _is_loopback(address: str) -> bool:
    try:
        return urlsplit(address).hostname in _LOOPBACK
    except ValueError:  # brackets that do not close
        return False
