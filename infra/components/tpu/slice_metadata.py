"""The attributes by which a slice's machine knows what to do: startup script, supervisor, specification. None is secret."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from pathlib import Path

import pulumi

from infra.components.tpu.slice_spec import serving_spec
from infra.google.logs import LogSource
from infra.planning.plan import Plan

ARCHIVE = Path("containers/archive.py")
SPEC, SUPERVISOR, STARTUP = "gemma4-spec", "gemma4-supervisor", "startup-script"
LOG = "gemma4-log"


def slice_metadata(
    plan: Plan, image: pulumi.Output[str], token_secret: pulumi.Output[str] | None
) -> Mapping[str, pulumi.Input[str]]:
    """Return the attributes by name. The specification is an output where the image's digest or the secret's name is one.

    containers/archive.py packs the supervisor. It is run rather than imported: containers/ is not part of this package.
    """
    secret: pulumi.Output[str | None] = pulumi.Output.from_input(None) if token_secret is None else token_secret
    archive = runpy.run_path(str(ARCHIVE))
    return {
        STARTUP: archive["startup_script"](),
        SUPERVISOR: archive["in_base64"](archive["supervisor"]()),
        SPEC: pulumi.Output.all(image, secret).apply(
            lambda known: serving_spec(plan, image=known[0], token_secret=known[1])
        ),
    }


def with_log(
    metadata: Mapping[str, pulumi.Input[str]], plan: Plan, slice_name: str, zone: str
) -> Mapping[str, pulumi.Input[str]]:
    """Return the attributes of one slice: those of all, and under which names it writes to Cloud Logging."""
    source = LogSource.slice(plan.names.member(slice_name), zone)
    place = {"project_id": plan.names.project, **source.resource_labels, "stack": plan.stack, "slice": slice_name}
    return {**metadata, LOG: json.dumps(place)}
