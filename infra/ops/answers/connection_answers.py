"""The answer of `gemma4 env`."""

from __future__ import annotations

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer


class Connection(JsonAnswer):
    """What `gemma4 env --json` prints: all that an OpenAI client needs. It holds a secret."""

    base_url: str = Field(description="value of OPENAI_BASE_URL")
    api_key: str = Field(
        description="value of OPENAI_API_KEY: a secret, but for `unused` where the server asks for none"
    )
    expires_at: str | None = Field(description="moment at which the key ends; null where it does not")
    model: str = Field(description="name to ask for; empty where only the server knows it")
