"""Parses the names of container images into registry, path, tag and digest.

A name without a host is Docker Hub's, as Docker reads it: `vllm/vllm-openai:v0.32.0` is `docker.io/vllm/vllm-openai:v0.32.0`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DOCKER_HUB = "docker.io"
_HUB_ALIASES = frozenset({DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
_COMPONENT = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>sha256:[0-9a-f]{{64}}))?",
    re.ASCII,
)
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?")


@dataclass(frozen=True)
class ImageName:
    """The parts of an image reference; `tag` and `digest` are empty where it has none."""

    host: str
    """`docker.io` for Docker Hub, however it was written."""
    path: str
    """The repository within the registry; Docker Hub's official images are below `library`."""
    tag: str = ""
    digest: str = ""

    @property
    def on_docker_hub(self) -> bool:
        """True if the image is on Docker Hub."""
        return self.host == DOCKER_HUB

    @property
    def on_google(self) -> bool:
        """True if the image is in Artifact Registry or at gcr.io, from which Google's platforms pull directly."""
        return self.host.endswith(("-docker.pkg.dev", ".gcr.io")) or self.host == "gcr.io"

    @property
    def project(self) -> str:
        """The Google Cloud project that the image is in; empty elsewhere."""
        first, _, rest = self.path.partition("/")
        scoped = "." in first and rest  # the path of a project within a domain: gcr.io/example.com/project/…
        return (f"{first}:{rest.partition('/')[0]}" if scoped else first) if self.on_google else ""

    @property
    def vllm_version(self) -> str | None:
        """The version of vLLM that the name says; None for a tag without one, and for images not named after vLLM."""
        match = re.match(r"v?([01]\.\d+(?:\.\d+)?(?:(?:rc|\.post|\.dev)\d+)?)(?![\w.])", self.tag)
        return match.group(1) if match and "vllm" in self.path.rpartition("/")[2] else None

    @property
    def within(self) -> str:
        """The reference without its host."""
        return self.path + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse_image_name(reference: str) -> ImageName:
    """Return the parts of `reference`. Raises ValueError where it is not the name of an image."""
    host, rest = split_host(reference)
    match = _NAME.fullmatch(rest)
    if match is None or not _HOST.fullmatch(host):
        raise ValueError("is not the name of an image; write it like vllm/vllm-openai:v0.32.0")
    return ImageName(host, match["path"], match["tag"] or "", match["digest"] or "")


def split_host(repository: str) -> tuple[str, str]:
    """Return the host and path of a repository or reference: Docker Hub where it names no host."""
    first, slash, rest = repository.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    host, path = (first, rest) if named else (DOCKER_HUB, repository)
    if host not in _HUB_ALIASES:
        return host, path
    return DOCKER_HUB, path if "/" in path else f"library/{path}"
