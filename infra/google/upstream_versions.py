"""Looks up what a tag or a branch names today: the digest of an image, the commit of a model.

It reads registries and the Hugging Face Hub, without Google credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from infra.errors import GoogleError
from infra.google.session import keep_authorization
from infra.image_names import DOCKER_HUB, split_host

if TYPE_CHECKING:
    import requests

_HUB_ADDRESS = "https://registry-1.docker.io"
HUGGING_FACE = "https://huggingface.co"
_TIMEOUT = (3, 15)
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


def image_digest(repository: str, tag: str, *, registry: str | None = None) -> str:
    """Return the digest (`sha256:…`) of `repository:tag`. Without a host it is Docker Hub's; `registry` is another address.

    Raises GoogleError where there is no such tag or no answer.
    """
    host, path = split_host(repository)
    address = registry or (_HUB_ADDRESS if host == DOCKER_HUB else f"https://{host}")
    url = f"{address}/v2/{path}/manifests/{tag}"
    answer = _request("HEAD", url, {"Accept": _MANIFESTS})
    if answer.status_code == 401:
        token = _anonymous_token(answer.headers.get("WWW-Authenticate", ""))
        answer = _request("HEAD", url, {"Accept": _MANIFESTS, "Authorization": f"Bearer {token}"})
    digest = answer.headers.get("Docker-Content-Digest", "")
    if answer.status_code == 404:
        raise GoogleError(
            f"there is no image {repository}:{tag}; name another under images.serving, or write another tag in "
            "infra/catalog/images.toml for every stack.",
            status=404,
        )
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise GoogleError(
            f"{url} answered {answer.status_code} without a digest; try again later.", status=answer.status_code
        )
    return digest


def model_revision(hub_id: str, *, token: str = "", hub: str = HUGGING_FACE) -> str:
    """Return the commit that `main` of a Hugging Face repository names today. A gated one needs a `token`."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = _request("GET", f"{hub}/api/models/{hub_id}", headers)
    if answer.status_code in (401, 403):
        fix = "set HF_TOKEN to a token whose account has accepted the licence"
        raise GoogleError(
            f"Hugging Face does not show {hub_id} ({answer.status_code}); {fix}.", status=answer.status_code
        )
    commit = str(_json(answer).get("sha", "")) if answer.ok else ""
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise GoogleError(
            f"Hugging Face answered {answer.status_code} for {hub_id}, without a commit.", status=answer.status_code
        )
    return commit


def _anonymous_token(challenge: str) -> str:
    """Return the token that a registry gives to anybody for reading public images, from the address in its challenge."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if "realm" not in fields:
        raise GoogleError("the registry asks for a login of an unknown kind; pin this image by hand.", status=401)
    realm = fields.pop("realm")
    return str(_json(_request("GET", realm, {}, fields)).get("token", ""))


def _request(
    method: str, url: str, headers: Mapping[str, str], params: Mapping[str, str] | None = None
) -> requests.Response:
    import requests

    try:
        return requests.request(
            method, url, headers=dict(headers), params=dict(params or {}), auth=keep_authorization, timeout=_TIMEOUT
        )
    except requests.RequestException as error:
        raise GoogleError(
            f"{url} could not be reached ({type(error).__name__}); this needs the internet.", reason="UNREACHABLE"
        ) from None


def _json(answer: requests.Response) -> Mapping[str, Any]:
    try:
        parsed = answer.json()
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, Mapping) else {}
