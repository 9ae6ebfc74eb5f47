"""The attributes by which a slice's machine knows what to do: bootstrap, supervisor, specification. None is secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pulumi

from infra.planning.plan import Plan
from infra.planning.spec import serving_spec

BOOTSTRAP = Path("containers/tpu/bootstrap.sh")
SUPERVISOR = Path("containers/tpu/supervisor.py")


def slice_metadata(
    plan: Plan, image: pulumi.Output[str], token_secret: pulumi.Output[str] | None
) -> Mapping[str, pulumi.Input[str]]:
    """Attributes by name. The specification is an output where the image's digest or the secret's name is one."""
    secret = token_secret if token_secret is not None else pulumi.Output.from_input(None)
    spec = pulumi.Output.all(image, secret).apply(
        lambda known: serving_spec(plan, image=known[0], token_secret=known[1])
    )
    return {
        "startup-script": BOOTSTRAP.read_text(encoding="utf-8") if BOOTSTRAP.exists() else "",
        "gemma4-supervisor": SUPERVISOR.read_text(encoding="utf-8") if SUPERVISOR.exists() else "",
        "gemma4-spec": spec,
    }
