"""What is known of a serving image by its name alone: whether it can be pulled, what it holds, and which vLLM.

Nothing is asked of a registry. What surely fails is refused; what cannot be known is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from infra.catalog import Accelerator, Device, catalog
from infra.catalog.flags import flag_table
from infra.catalog.versions import minor_version
from infra.errors import Fault, Findings
from infra.image_names import ImageName, parse_image_name
from infra.planning.memory.kv_blocks import NEWEST, OLDEST
from infra.planning.names import UNKNOWN_PROJECT, Names
from infra.planning.server.implementations import IMPLEMENTATIONS
from infra.planning.settings.declarations import Settings

_KEY = "images.serving"
_NOT_VLLM = {"lmsysorg/sglang": "SGLang", "ollama/ollama": "Ollama"}


def check_image(settings: Settings, accelerator: Accelerator) -> Findings:
    """Return what is wrong or unknown about the image that `images.serving` names; nothing where the catalog chooses."""
    if settings.images.serving is None:
        return Findings()
    name = parse_image_name(settings.images.serving)
    refusals = tuple(_refusals(settings, name, accelerator))
    return Findings(refusals, () if refusals else tuple(_version_warnings(name, accelerator)))


def counted_version(image_version: str | None) -> str:
    """Return the version whose arithmetic stands for an image's: its own within what was compared, else the nearest such one,
    and the default images' where the image says none."""
    if image_version is None:
        return flag_table().version
    minor = minor_version(image_version)
    return image_version if OLDEST <= minor <= NEWEST else f"0.{min(max(minor, OLDEST), NEWEST)}"


def image_note(settings: Settings, names: Names, puller: str) -> Iterator[str]:
    """Yield what is not plain: that `puller` must be let into another project's registry, whose flags were checked."""
    if settings.images.serving is None:
        return
    name = parse_image_name(settings.images.serving)
    if name.project and names.project not in (name.project, UNKNOWN_PROJECT) and settings.images.mode == "mirror":
        yield (
            f"The serving image is in project {name.project}: unless it is public, {puller} and whoever runs `pulumi up` "
            "need roles/artifactregistry.reader there."
        )
    version, table = name.vllm_version, flag_table(name.vllm_version).version
    if version is not None and version != table and OLDEST <= minor_version(version) <= NEWEST:
        yield f"Flags were checked against vLLM {table}; the image says {version}, where some may be missing or new."


def _refusals(settings: Settings, name: ImageName, accelerator: Accelerator) -> Iterator[Fault]:
    """Yield why an image surely cannot be pulled, or why what it holds cannot run here."""
    if name.host.endswith("-docker.pkg.dev") and name.path.count("/") < 2:
        fact = f"{name.host}/{name.path} is too short for an image in Artifact Registry."
        consequence = "It could not be pulled, which shows only after the weights are in place."
        yield Fault(_KEY, fact, consequence, "Write REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE:TAG.")
    if not (name.on_docker_hub or name.on_google or settings.images.mode == "build"):
        yield Fault(
            _KEY,
            f"{name.host} is neither Docker Hub nor a registry of Google's.",
            "The image could not be pulled, which shows only after the weights are in place.",
            "Copy it to Artifact Registry and name it there (REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE:TAG), or write "
            "images.mode: build, which takes it as the base of a build.",
        )
    if not name.on_docker_hub:
        return
    if (held := _NOT_VLLM.get(name.path)) is not None:
        fact, consequence = f"{name.path} holds {held}.", "The command is `vllm serve`, which is not in it."
        yield Fault(_KEY, fact, consequence, "Leave it out, or name an image of vLLM.")
    made_for = next((device for device in IMPLEMENTATIONS if _published(device) == name.path), accelerator.device)
    if made_for is not accelerator.device:
        fact = f"{name.path} is vLLM for a {made_for.name}, and {accelerator.id} has none."
        fitting = _published(accelerator.device)
        yield Fault(_KEY, fact, "vLLM would find no device.", f"Leave it out, or name an image of {fitting}.")


def _version_warnings(name: ImageName, accelerator: Accelerator) -> Iterator[Fault]:
    version = name.vllm_version
    table = flag_table(version).version
    image = catalog().images[IMPLEMENTATIONS[accelerator.device].image]
    fitting = f"{image.repository}:{image.tag}"
    if "vllm" not in name.path.rpartition("/")[2]:
        fact = "is not known to hold vLLM: its name does not say so."
        consequence = f"Flags, capacity and times are those of vLLM {table}, and without vLLM nothing would start."
        yield Fault(_KEY, fact, consequence, f"Make sure that `vllm serve` runs in it, or use {fitting}.")
        return
    if version is None:
        said = f"the tag {name.tag}" if name.tag else "a digest alone" if name.digest else "a name without a tag"
        consequence = f"Flags, capacity and times are those of vLLM {table}, whatever the image holds."
        fix = f"Name a release, for example {fitting}{' before the digest' if name.digest else ''}."
        yield Fault(_KEY, f"{said} does not say which version of vLLM it is.", consequence, fix)
    elif not OLDEST <= minor_version(version) <= NEWEST:
        fact = f"vLLM {version} is outside what was compared: 0.{OLDEST} to 0.{NEWEST}."
        consequence = (
            f"Capacity is counted as {counted_version(version)} does, flags are checked against {table}: a flag that is gone "
            "stops the server at its command line."
        )
        yield Fault(_KEY, fact, consequence, f"Name {fitting}, or read the release notes in between.")
    elif image.newest_release and minor_version(version) > minor_version(image.newest_release):
        device, newest = accelerator.device.name, image.newest_release
        fact = f"vLLM {version} is newer than the newest release for a {device} that was found: {newest}."
        consequence = (
            f"Unless the image is your own it cannot be pulled, and what a {device} does is planned as in {newest}."
        )
        yield Fault(_KEY, fact, consequence, f"Name {fitting}.")


def _published(device: Device) -> str:
    """Return vLLM's own repository at Docker Hub with images for a kind of device."""
    return catalog().images[IMPLEMENTATIONS[device].image].repository
