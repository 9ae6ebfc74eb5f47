"""`gemma4 env`: the address and a token as lines that a shell runs, for programs that know OpenAI's variables."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Mapping
from typing import Literal

from infra.google.identity_tokens import expiry
from infra.google.times import moment, timestamp_s
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.connection_answers import Connection
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.endpoint.find_endpoint import find_endpoint
from infra.planning.units import read_duration

Shell = Literal["bash", "fish", "powershell"]
NO_KEY = "unused"
"""OpenAI's clients insist on a key; a server that asks for none reads none."""


def connection(endpoint: Endpoint) -> Connection:
    """Return what a client needs to ask an endpoint, a newly made token among it. Raises GoogleError where none can be
    made."""
    key = endpoint.tokens.token() if endpoint.tokens else NO_KEY
    ends = expiry(key) if endpoint.tokens and endpoint.tokens.is_identity else 0.0
    return Connection(
        base_url=f"{endpoint.url}/v1",
        api_key=key,
        expires_at=moment(ends) if ends else None,
        model=endpoint.served_model,
    )


def shell_lines(variables: Mapping[str, str], shell: Shell) -> list[str]:
    """Return lines that set variables in a shell, whatever characters their values hold."""
    return [_SET[shell](name, value) for name, value in variables.items()]


def show_env(stack: str | None, url: str | None, *, shell: Shell = "bash", as_json: bool = False) -> None:
    """Print the lines, or the same as JSON; on stderr until when they hold."""
    endpoint = find_endpoint(stack, url)
    found = connection(endpoint)
    if as_json:
        print_answer(found)
    else:
        variables = {"OPENAI_BASE_URL": found.base_url, "OPENAI_API_KEY": found.api_key}
        print("\n".join(shell_lines(variables, shell)))
    if found.expires_at:
        left = read_duration((timestamp_s(found.expires_at) or 0.0) - time.time())
        print(
            f"the token is valid until {found.expires_at} ({left}); gemma4 proxy {endpoint.words} serves the same address "
            "with tokens that are renewed",
            file=sys.stderr,
        )


def _fish(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _powershell(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_SET: Mapping[Shell, Callable[[str, str], str]] = {
    "bash": lambda name, value: f"export {name}={shlex.quote(value)}",
    "fish": lambda name, value: f"set -gx {name} {_fish(value)}",
    "powershell": lambda name, value: f"$env:{name} = {_powershell(value)}",
}
