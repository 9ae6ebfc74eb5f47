"""Faults of values in themselves that need more than a type and a range to see: what cannot be read as settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.errors import Fault
from infra.planning.names import check_stack_name
from infra.planning.platforms.registry import PLATFORMS
from infra.planning.server.user_flags import check_arguments
from infra.planning.settings.declarations import Settings

OWN_LABELS = ("app", "stack", "managed-by", "slice")
"""Reserved labels. Commands find a stack's resources by `app`, `stack` and `slice`."""


def bad_settings(stack: str, settings: Settings) -> list[Fault]:
    """Return all faults found in the settings of `stack`."""
    faults = [
        *check_stack_name(stack, (end for one in PLATFORMS.values() for end in one.part_suffixes)),
        *check_arguments(settings),
    ]
    if settings.hf_token and settings.hf_token_secret:
        fact = "is set together with hfToken."
        faults.append(
            Fault(
                "hfTokenSecret", fact, "Two sources of one token would contradict each other.", "Keep one of the two."
            )
        )
    faults += _secrets_in_clear(settings)
    faults += _docker_hub(settings)
    if settings.weights.source == "existing" and settings.weights.bucket is None:
        fact = "is missing with weights.source: existing."
        faults.append(Fault("weights.bucket", fact, "There is no bucket to read.", "Write weights.bucket: my-bucket."))
    for member in settings.access.invokers:
        if member.startswith(("domain:", "principalSet:")) and member.endswith("*"):
            faults.append(
                Fault("access.invokers", f"{member} is everybody.", "The endpoint would be public.", "Name a group.")
            )
    for key in settings.labels:
        fix = "Choose another key."
        if key in OWN_LABELS:
            fact = "is reserved: a stack's slices are found by this label."
            faults.append(Fault(f"labels.{key}", fact, "Slices that are paid for could not be found.", fix))
        elif key.startswith("goog"):
            fact = "begins with goog, which Google keeps for itself."
            faults.append(Fault(f"labels.{key}", fact, "The deployment would be refused.", fix))
    for platform in PLATFORMS.values():
        faults += platform.bad_settings(settings)
    return faults


def _docker_hub(settings: Settings) -> Iterator[Fault]:
    images = settings.images
    given = {"images.dockerHubUser": images.docker_hub_user, "images.dockerHubSecret": images.docker_hub_secret}
    missing = [key for key, value in given.items() if value is None]
    if len(missing) == 1:
        (other,) = given.keys() - missing
        fact, consequence = f"is missing beside {other}.", "Docker Hub takes an account and its token together."
        yield Fault(missing[0], fact, consequence, "Write both, or neither.")
    elif not missing and images.mode == "build":
        fact, consequence = "is set with images.mode: build.", "There is no mirror, so nobody would use it."
        yield Fault(
            "images.dockerHubUser", fact, consequence, "Take both out, and run `docker login` before `pulumi up`."
        )


_SECRET_NAME = re.compile(r"(\w+_)?(TOKEN|SECRET|PASSWORD|API_KEY)", re.IGNORECASE)
_TOKEN = re.compile(r"hf_\w{20,}")
_DOCKER_TOKEN = re.compile(r"dckr_\w{3}_[\w-]{10,}")


def _secrets_in_clear(settings: Settings) -> Iterator[Fault]:
    """Yield a fault for each secret in clear. The message never holds its value."""
    consequence = "It would stand in the repository and in the state for everyone to read."
    remedy = "Take it out, revoke it, and run: pulumi config set --secret gemma4:hfToken"
    if _TOKEN.fullmatch(settings.hf_token_secret or ""):
        yield Fault("hfTokenSecret", "holds a token itself, not the name of a secret.", consequence, remedy)
    for key, text in (
        ("images.dockerHubUser", settings.images.docker_hub_user),
        ("images.dockerHubSecret", settings.images.docker_hub_secret),
    ):
        if _DOCKER_TOKEN.fullmatch(text or ""):
            fix = (
                "Take it out, revoke it, and put a new one into Secret Manager: gcloud secrets create docker-hub-token"
            )
            yield Fault(key, "holds a token itself.", consequence, f"{fix} --data-file=-")
    for name, value in settings.serving.env.items():
        if _TOKEN.fullmatch(value):
            yield Fault(f"serving.env.{name}", "holds a token.", consequence, remedy)
        elif _SECRET_NAME.fullmatch(name):
            fix = "Use hfToken or hfTokenSecret for Hugging Face; callers are let in with access.invokers."
            yield Fault(f"serving.env.{name}", "is a secret by its name.", consequence, fix)
