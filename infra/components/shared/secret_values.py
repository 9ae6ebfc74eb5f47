"""The secret values of a stack: read by infra/config.py, handed to the components that store them."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True)
class Secrets:
    """Secret values of the stack; never part of the Plan."""

    hf_token: pulumi.Output[str] | None
