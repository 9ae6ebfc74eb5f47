"""`gemma4 proxy`: the endpoint on this machine, for any OpenAI client, with tokens that are renewed."""

from __future__ import annotations

import asyncio
import sys

from infra.google.identity_tokens import expiry
from infra.ops.commands.env import NO_KEY, shell_lines
from infra.ops.endpoint.endpoint import Endpoint, TokenSource
from infra.ops.endpoint.find_endpoint import find_endpoint
from infra.planning.units import counted
from infra.serving.local_proxy.fresh_token import FreshToken
from infra.serving.local_proxy.proxy_server import RunningProxy, serve_until_told
from infra.suggestions import printable

PORT = 8000


def serve_proxy(stack: str | None, url: str | None, *, port: int = PORT) -> None:
    """Serve until Ctrl-C. Raises Gemma4Error where the port cannot be had, or no token can be made."""
    endpoint = find_endpoint(stack, url)
    answered = asyncio.run(
        serve_until_told(
            endpoint.url,
            token=fresh_token(endpoint.tokens),
            port=port,
            began=lambda proxy: print("\n".join(_instructions(endpoint, proxy)), flush=True),
            said=_say,
        )
    )
    _say(f"ended; {counted(answered, 'request')} answered")


def fresh_token(tokens: TokenSource | None) -> FreshToken | None:
    """Return what keeps a token fresh; None where the server asks for none."""
    if tokens is None:
        return None
    return FreshToken(tokens.token, forget=tokens.forget, expires_at=expiry if tokens.is_identity else lambda _: 0.0)


def _instructions(endpoint: Endpoint, proxy: RunningProxy) -> list[str]:
    model = f" as model {endpoint.served_model}" if endpoint.served_model else ""
    return [
        f"{endpoint.name}{model} at {proxy.url}, for programs on this machine. Ctrl-C ends it. Set:",
        *(f"  {line}" for line in shell_lines({"OPENAI_BASE_URL": proxy.url, "OPENAI_API_KEY": NO_KEY}, "bash")),
    ]


def _say(words: str) -> None:
    print(printable(words), file=sys.stderr, flush=True)
