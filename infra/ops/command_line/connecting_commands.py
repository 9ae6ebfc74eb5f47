"""For other programs that ask the model: env, proxy."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from infra.ops.command_line.options import AsJson, OptionalStack, Url, examples
from infra.ops.command_line.root import ASKING, app


@app.command(
    rich_help_panel=ASKING,
    epilog=examples(
        "env l4                           # the lines, the token among them",
        "env l4 --shell fish | source",
        "env --url http://127.0.0.1:8000",
        "env l4 --json | jq -r .apiKey",
    ),
)
def env(
    stack: OptionalStack = None,
    url: Url = None,
    shell: Annotated[
        Literal["bash", "fish", "powershell"], typer.Option(help="Whose words to write; bash means zsh and sh too.")
    ] = "bash",
    as_json: AsJson = False,
) -> None:
    """Print OPENAI_BASE_URL and a token for other tools.

    Prints a secret, on purpose: an identity token with which anybody can ask the model for an hour. Meant for
    eval "$(gemma4 env l4)", after which OpenAI's own clients work in that shell. Until when the token is valid is said on
    stderr; gemma4 proxy renews it instead. Exit code 1: no token can be made, or the stack is not deployed.
    """
    from infra.ops.commands.env import show_env

    show_env(stack, url, shell=shell, as_json=as_json)


@app.command(
    rich_help_panel=ASKING,
    epilog=examples(
        "proxy l4",
        "proxy v6e4 --port 8080",
        "proxy --url https://gemma4-l4-1234567890.us-east4.run.app",
    ),
)
def proxy(
    stack: OptionalStack = None,
    url: Url = None,
    port: Annotated[int, typer.Option(help="Port of 127.0.0.1; 0: any that is free.", min=0, max=65535)] = 8000,
) -> None:
    """Serve the endpoint on this machine, for any OpenAI client.

    Listens on 127.0.0.1 and sends each request on with an identity token, which is renewed before it ends; streams pass
    as they come. A client needs the base URL and no key: its own Authorization header is dropped. Whoever has a login on
    this machine can ask too; pages of the web cannot. Ctrl-C lets answers that are being written end, for up to ten
    seconds. Exit code 1: the port is in use, or no token can be made.
    """
    from infra.ops.commands.proxy import serve_proxy

    serve_proxy(stack, url, port=port)
