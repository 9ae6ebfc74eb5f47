"""The desired specification: the attribute `gemma4-spec`, read strictly, with every fault named at once."""

from __future__ import annotations

import hashlib
import itertools
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1
ADDRESS = "${VPC_ADDRESS}"
"""Stands in `argv` for the machine's own address, which is not known when the machine is asked for."""
PORT = "${PORT}"
"""Stands in `argv` for the server's port."""

_KINDS: Mapping[str, tuple[type, ...]] = {
    "a whole number": (int,),
    "a number": (int, float),
    "text": (str,),
    "text or null": (str, type(None)),
    "a list": (list,),
    "an object": (dict,),
    "true or false": (bool,),
    "anything": (object,),
}
_REQUIRED = object()
_FIELDS: Mapping[str, tuple[str, Any]] = {
    "schema": ("a whole number", _REQUIRED),
    "hash": ("text", _REQUIRED),
    "image": ("text", _REQUIRED),
    "registry": ("text", ""),
    "argv": ("a list", _REQUIRED),
    "env": ("an object", _REQUIRED),
    "weights": ("a list", []),
    "hfTokenSecret": ("text or null", None),
    "servers": ("a list", _REQUIRED),
    "model": ("text", _REQUIRED),
    "readyTimeoutSeconds": ("a number", _REQUIRED),
    "drainSeconds": ("a number", 45),
    "privileged": ("true or false", False),
    "generation": ("anything", ""),
}
"""Kind and default of each key."""
_CONTAINER_FIELDS = ("image", "argv", "env", "weights", "hfTokenSecret", "drainSeconds", "privileged")
_TOKEN_NAMES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_TOKEN = re.compile(r"hf_[A-Za-z0-9]{16,}|ya29\.[\w-]{16,}")
_SECRET = re.compile(r"projects/[^/]+/secrets/[^/]+(/versions/[^/]+)?")
_SUFFIX = re.compile(r"(-[0-9]{1,3})?")


class SpecError(Exception):
    """The attribute is not a specification; the message names every fault, and no value that may be a secret."""


@dataclass(frozen=True)
class WeightsFolder:
    """A checkpoint below `gs://bucket/prefix/`, and the folder that it is copied to."""

    bucket: str
    prefix: str
    destination: str

    @property
    def place(self) -> str:
        """Return its address, as messages show it."""
        return f"gs://{self.bucket}/{self.prefix}"


@dataclass(frozen=True)
class ServerPlace:
    """Where one server of the machine runs. `suffix` ends the names of its member and its container; `devices` are numbers of
    GPUs, empty where it has all of the machine's chips or GPUs. `fingerprint` is of all that its container depends on."""

    suffix: str
    port: int
    devices: tuple[int, ...]
    fingerprint: str

    def excludes(self, other: ServerPlace) -> bool:
        """Return True if no servers can run at both places at once: they would share a port or a device."""
        has_all = not self.devices or not other.devices
        return has_all or self.port == other.port or not {*self.devices}.isdisjoint(other.devices)


@dataclass(frozen=True)
class Spec:
    """One specification. `digest` is of its whole text. Two that need the same containers have equal `servers`."""

    document: Mapping[str, Any]
    hash: str
    image: str
    registry: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    weights: tuple[WeightsFolder, ...]
    token_secret: str
    servers: tuple[ServerPlace, ...]
    model: str
    ready_s: float
    drain_s: float
    privileged: bool
    digest: str

    def place(self, suffix: str) -> ServerPlace | None:
        """Return the place of a server, None where the specification has no such server."""
        return next((place for place in self.servers if place.suffix == suffix), None)

    def command(self, address: str, port: int) -> tuple[str, ...]:
        """Return a server's command line, with the machine's own address and the server's port in it."""
        return tuple(part.replace(ADDRESS, address).replace(PORT, str(port)) for part in self.argv)


def parse_spec(text: str, weights_root: Path) -> Spec:
    """Return the specification in `text`. Raises SpecError, also where weights would not go below `weights_root`."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SpecError(f"gemma4-spec is not JSON ({error}).") from None
    if not isinstance(document, dict):
        raise SpecError("gemma4-spec is not a JSON object.")
    if document.get("schema") != SCHEMA:
        raise SpecError(
            f"gemma4-spec has schema {document.get('schema')!r}, this supervisor reads {SCHEMA}; "
            "put the supervisor that belongs to it into gemma4-supervisor."
        )
    document = {**{key: default for key, (_, default) in _FIELDS.items() if default is not _REQUIRED}, **document}
    faults = [*_type_faults(document)] or [*_value_faults(document, weights_root)]
    if faults:
        raise SpecError("gemma4-spec: " + " ".join(faults))
    return Spec(
        document=document,
        hash=document["hash"],
        image=document["image"],
        registry=document["registry"],
        argv=tuple(document["argv"]),
        env=document["env"],
        weights=tuple(WeightsFolder(**each) for each in document["weights"]),
        token_secret=document["hfTokenSecret"] or "",
        servers=_places(document),
        model=document["model"],
        ready_s=document["readyTimeoutSeconds"],
        drain_s=document["drainSeconds"],
        privileged=document["privileged"],
        digest=_digest(document),
    )


def _places(document: Mapping[str, Any]) -> tuple[ServerPlace, ...]:
    shared = {key: document[key] for key in _CONTAINER_FIELDS}
    return tuple(
        ServerPlace(one["suffix"], one["port"], tuple(one["devices"]), _digest({**shared, "server": one}))
        for one in document["servers"]
    )


def _digest(part: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:16]


def _type_faults(document: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(document.keys() - _FIELDS.keys()):
        yield f"{key} is not known."
    for key, (kind, _) in _FIELDS.items():
        value, kinds = document.get(key), _KINDS[kind]
        if key not in document:
            yield f"{key} is missing."
        elif not isinstance(value, kinds) or (isinstance(value, bool) and not {bool, object} & {*kinds}):
            yield f"{key} is not {kind}."


def _value_faults(document: Mapping[str, Any], weights_root: Path) -> Iterator[str]:
    for key in ("hash", "image", "model"):
        if not re.fullmatch(r"[!-~]+", document[key]):
            yield f"{key} is empty or has blanks in it."
    if not re.fullmatch(r"[a-z0-9.:-]*", document["registry"]):
        yield "registry is not a host name."
    if len(document["argv"]) < 2 or not all(isinstance(part, str) and "\0" not in part for part in document["argv"]):
        yield "argv is not the full command (vllm serve …) as a list of texts."
    if document["readyTimeoutSeconds"] <= 0 or document["drainSeconds"] < 0:
        yield "readyTimeoutSeconds must be above 0, drainSeconds not below."
    if document["hfTokenSecret"] is not None and not _SECRET.fullmatch(document["hfTokenSecret"]):
        yield "hfTokenSecret is not of the form projects/P/secrets/S."
    for name, value in document["env"].items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield f"env: {name!r} is not a name."
        elif name in _TOKEN_NAMES:
            yield f"env.{name} has no place in metadata, where many can read it; name a secret in hfTokenSecret."
        elif not isinstance(value, str) or re.search(r"[\r\n\0]", value):
            yield f"env.{name} is not text on one line."
    if _TOKEN.search(json.dumps(document)):
        yield "it carries something that looks like a token, which everybody who may see the node can read; "
        yield "revoke it, and name a secret in hfTokenSecret."
    yield from _server_faults(document)
    for number, weights in enumerate(document["weights"]):
        yield from (f"weights[{number}] {fault}" for fault in _weight_faults(weights, weights_root))


def _server_faults(document: Mapping[str, Any]) -> Iterator[str]:
    if not document["servers"]:
        yield "servers is empty: nothing would be served."
    faults = [*_place_faults(document["servers"])]
    yield from faults
    if faults:
        return
    for one, other in itertools.combinations(_places(document), 2):
        if one.suffix == other.suffix or one.excludes(other):
            yield f"the servers {one.suffix!r} and {other.suffix!r} share a suffix, a port or a device."
    if len(document["servers"]) > 1 and not any(PORT in part for part in document["argv"] if isinstance(part, str)):
        yield f"argv has no {PORT}, so all servers would listen on one port."


def _place_faults(servers: Sequence[Any]) -> Iterator[str]:
    for number, one in enumerate(servers):
        if not isinstance(one, dict) or one.keys() != {"suffix", "port", "devices"}:
            yield f"servers[{number}] is not an object of suffix, port and devices."
            continue
        if not isinstance(one["suffix"], str) or not _SUFFIX.fullmatch(one["suffix"]):
            yield f"servers[{number}].suffix is neither blank nor of the form -0."
        if type(one["port"]) is not int or not 0 < one["port"] < 65536:
            yield f"servers[{number}].port is not a whole number between 1 and 65535."
        devices = one["devices"]
        is_list = isinstance(devices, list) and all(type(each) is int and each >= 0 for each in devices)
        if not is_list or len({*devices}) < len(devices):
            yield f"servers[{number}].devices is not a list of different GPU numbers, such as [0, 1]."


def _weight_faults(weights: Any, root: Path) -> Iterator[str]:
    if not isinstance(weights, dict) or weights.keys() != {"bucket", "prefix", "destination"}:
        yield "is not an object of bucket, prefix and destination."
        return
    if not all(isinstance(value, str) and value for value in weights.values()):
        yield "has an empty bucket, prefix or destination."
        return
    destination = weights["destination"]
    if posixpath.normpath(destination) != destination or not destination.startswith(f"{root}/"):
        yield f"does not go below {root}/."
