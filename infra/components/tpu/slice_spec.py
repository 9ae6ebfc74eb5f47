"""What a TPU slice is told to serve: one JSON text in its node's metadata, followed by the supervisor on the machine.

It names places and never holds a secret. containers/tpu/README.md says what each field means to the supervisor.
"""

from __future__ import annotations

import json
from typing import Any

from infra.image_names import parse_image_name
from infra.planning.plan import Plan
from infra.planning.server.command import PORT

SCHEMA = 1
STOP_SPARE_S = 15
"""What a container gets beyond vLLM's own time for finishing requests before it is killed."""


def serving_spec(plan: Plan, *, image: str, token_secret: str | None) -> str:
    """Return the specification of a plan. `image` is the reference that the machine pulls, by digest where it was built here;
    `token_secret` is the full name of the secret with the Hugging Face token, None where the weights are in a bucket.
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
        "port": PORT,
        "readyTimeoutSeconds": plan.ready_timeout_s,
        "drainSeconds": shutdown_s + STOP_SPARE_S,
    }
    if plan.settings.tpu.privileged:
        spec["privileged"] = True
    return json.dumps(spec, indent=1)
