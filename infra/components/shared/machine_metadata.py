"""The attributes by which a machine knows what to do: startup script, supervisor, specification. None is secret.

The specification is one JSON text, which the supervisor follows. It names places and never holds a secret;
containers/supervisor/README.md says what each field means to the supervisor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from infra.components.shared.packed_programs import packed
from infra.image_names import parse_image_name
from infra.planning.plan import Plan
from infra.planning.server.command import PORT
from infra.planning.server.hosting import SPEC

SUPERVISOR, STARTUP = "gemma4-supervisor", "startup-script"
SCHEMA = 1
STOP_SPARE_S = 15
"""What a container gets beyond vLLM's own time for finishing requests before it is killed."""


ONE_SERVER: Sequence[Mapping[str, Any]] = ({"suffix": "", "port": PORT, "devices": []},)
"""The servers of a machine with one, which has all chips or GPUs."""


def machine_metadata(
    plan: Plan,
    image: pulumi.Output[str],
    token_secret: pulumi.Output[str] | None,
    *,
    accelerator: str = "tpu",
    servers: Sequence[Mapping[str, Any]] = ONE_SERVER,
) -> Mapping[str, pulumi.Input[str]]:
    """Return the attributes by name, for a machine with that `accelerator`, tpu or gpu. The specification is an output where
    the image's digest or the secret's name is one.
    """
    secret: pulumi.Output[str | None] = pulumi.Output.from_input(None) if token_secret is None else token_secret
    return {
        STARTUP: packed("startup_script", accelerator),
        SUPERVISOR: packed("in_base64", packed("supervisor")),
        SPEC: pulumi.Output.all(image, secret).apply(
            lambda known: serving_spec(plan, image=known[0], token_secret=known[1], servers=servers)
        ),
    }


def serving_spec(
    plan: Plan, *, image: str, token_secret: str | None, servers: Sequence[Mapping[str, Any]] = ONE_SERVER
) -> str:
    """Return the specification of a plan. `image` is the reference that the machine pulls, by digest where it was built here;
    `token_secret` is the full name of the secret with the Hugging Face token, None where the weights are in a bucket;
    `servers` are those of one machine, each with the end of its name, its port and the numbers of its devices.
    """
    name, argv, folder = parse_image_name(image), plan.command.argv, plan.server.hosting.weights_folder
    staged = () if plan.settings.weights.from_hub else plan.weights
    # What the command gives requests to finish; vLLM's default is none, where `vllmArgs` took the flag out.
    shutdown_s = int(argv[argv.index("--shutdown-timeout") + 1]) if "--shutdown-timeout" in argv else 0
    spec: dict[str, Any] = {
        "schema": SCHEMA,
        "hash": plan.command.spec_hash,
        "model": plan.model.hub_id,
        "image": image,
        "registry": name.host if name.on_google else "",  # the host to log in to
        "argv": list(argv),
        "env": dict(sorted(plan.command.env.items())),
        "weights": [
            {"bucket": plan.names.bucket, "prefix": one.prefix, "destination": f"{folder}/{one.prefix}"}
            for one in staged
        ],
        "hfTokenSecret": token_secret,
        "servers": [dict(one) for one in servers],
        "readyTimeoutSeconds": plan.ready_timeout_s,
        "drainSeconds": shutdown_s + STOP_SPARE_S,
    }
    if plan.server.hosting.privileged:
        spec["privileged"] = True
    return json.dumps(spec, indent=1)
