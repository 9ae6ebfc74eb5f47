"""Whether the Pulumi CLI is there, signed in to its state, and has the plugins and the Docker that the program needs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil

from infra.preflight.preflight_check import PreflightResult, failed, not_needed, ok, unknown
from infra.preflight.subject import Subject

LEAST_CLI = (3, 100)
"""The oldest CLI that the program's options are known to work with."""
_INSTALL = "install it: https://www.pulumi.com/docs/iac/download-install/"


def check_cli(subject: Subject) -> PreflightResult:
    """Return whether the CLI is there, knows the language host, and reaches the stack's state."""
    pulumi, stack = subject.pulumi, subject.plan.stack
    if not pulumi.version:
        return failed(
            "there is no Pulumi CLI on the PATH",
            "There is nothing to type `pulumi up` with.",
            _INSTALL,
        )
    numbers = tuple(int(part) for part in re.findall(r"\d+", pulumi.version)[:2])
    if numbers < LEAST_CLI:
        least = ".".join(map(str, LEAST_CLI))
        return failed(
            f"Pulumi {pulumi.version} is older than {least}",
            "The program may not run on it.",
            _INSTALL,
        )
    if shutil.which("pulumi-language-python") is None:
        return failed(
            "pulumi-language-python is not on the PATH",
            "The program cannot be started.",
            _INSTALL,
        )
    if pulumi.resources is None:
        return failed(f"the state of {stack} cannot be read: {pulumi.problem}", "`up` would stop at once.", pulumi.fix)
    known = f"{len(pulumi.resources)} named resources in the state of {stack}"
    return ok(f"Pulumi {pulumi.version}, {known if pulumi.resources else f'nothing deployed yet as {stack}'}")


def check_plugin(subject: Subject) -> PreflightResult:
    """Return whether the gcp provider of the right version is there, or can be downloaded by `up`."""
    if not subject.pulumi.version:
        return not_needed("there is no CLI")
    version = importlib.metadata.version("pulumi-gcp")
    plugins = subject.pulumi.plugins
    if plugins is None:
        return unknown("the CLI did not list its plugins", f"pulumi plugin install resource gcp v{version}")
    there = [one for one in plugins if one.get("name") == "gcp" and one.get("kind") == "resource"]
    if any(str(one.get("version", "")).removeprefix("v") == version for one in there):
        return ok(f"gcp {version} is installed")
    if os.environ.get("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "").lower() in ("1", "true"):
        return failed(
            f"the provider gcp {version} is not installed, and the environment forbids downloading it",
            "`up` would stop at the first resource.",
            f"pulumi plugin install resource gcp v{version}",
        )
    return ok(f"gcp {version} is not installed yet: up downloads it")


def check_docker(subject: Subject) -> PreflightResult:
    """Return whether there is a Docker to build the image with."""
    if subject.plan.settings.images.mode != "build":
        return not_needed("no image is built")
    if shutil.which("docker"):
        return ok("docker is on the PATH")
    return failed(
        "images.mode is build, and there is no docker on the PATH",
        "The image could not be built.",
        f"install Docker, or: {subject.config('images.mode', 'mirror')}",
    )
