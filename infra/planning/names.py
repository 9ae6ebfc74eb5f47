"""Every name that a stack uses in the cloud, derived in one place so that commands find what the program built."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from infra.errors import Fault

MAX_ACCOUNT_ID = 30  # Google's limit for a service account id; all our names keep to it
MAX_LABEL = 63  # Google's limit for the value of a label
UNKNOWN_PROJECT = "your-project"
_STAGER, _INVOKER = _SUFFIXES = ("-stage", "-invoke")
LONGEST_SUFFIX = len(_INVOKER)
"""No part of a stack, those of the platforms included, has a longer suffix: the prefix leaves room for so much."""


@dataclass(frozen=True)
class Names:
    """Cloud names of one stack; `project` is a placeholder while none is configured."""

    project: str
    stack: str
    bucket: str

    @property
    def prefix(self) -> str:
        """`gemma4-<stack>`: the service, the runtime account, the network and the repository carry it."""
        return _prefix(self.stack)

    @property
    def stager(self) -> str:
        """Account and job that copy the weights."""
        return f"{self.prefix}{_STAGER}"

    @property
    def invoker(self) -> str:
        """Account that may call the endpoint; the serving check acts as it."""
        return f"{self.prefix}{_INVOKER}"

    def part(self, suffix: str) -> str:
        """Return the name of a part that only one platform has: its accounts, subnets and tags, by the suffix it declares."""
        return f"{self.prefix}{suffix}"

    def member(self, name: str) -> str:
        """Return the name of one of several servers of the stack: of a TPU slice, its queued resource and its node."""
        return f"{self.prefix}-{name}"

    @property
    def domain(self) -> str:
        """The private DNS name below which each machine of the stack has its own. Its zone is called like the prefix."""
        return f"{self.prefix}.internal"

    @property
    def token_secret(self) -> str:
        """Secret Manager secret of the Hugging Face token."""
        return f"{self.prefix}-hf-token"

    def secret(self, name: str) -> str:
        """Return the full name of an existing secret; one that is full already may be another project's."""
        return name if name.startswith("projects/") else f"projects/{self.project}/secrets/{name}"

    def email(self, account: str) -> str:
        """Return the address of one of the stack's service accounts."""
        return f"{account}@{self.project}.iam.gserviceaccount.com"


def region_of(zone: str) -> str:
    """Return the region that a zone is in: us-east5 of us-east5-a."""
    return zone.rpartition("-")[0]


def names_of(stack: str, project: str | None, bucket: str | None) -> Names:
    """Return the names for `stack`; the bucket's name is global, so the project is part of it unless it is given."""
    known = project or UNKNOWN_PROJECT
    return Names(known, stack, bucket or f"{known}-{_prefix(stack)}-weights")


def check_stack_name(stack: str, suffixes: Iterable[str]) -> list[Fault]:
    """Return why no cloud names can be made from the stack's name; empty where they can.

    `suffixes` are those of the platforms' own parts: a stack that ends in one would be taken for another stack's part.
    """
    if len(stack) > MAX_LABEL:
        fact = f"its name has {len(stack)} characters, and the label `stack` of every resource takes {MAX_LABEL}."
        return [Fault("stack", fact, "Google Cloud would refuse them.", f"Choose one of at most {MAX_LABEL}.")]
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", stack):
        return _like_a_part(stack, (*_SUFFIXES, *suffixes))
    fact = f"{stack!r} cannot be part of a cloud name."
    fix = "Name it with lower-case letters, digits and hyphens between them, for example l4-staging."
    return [Fault("stack", fact, "Google Cloud would refuse the service account.", fix)]


def _like_a_part(stack: str, suffixes: Iterable[str]) -> list[Fault]:
    """Return a fault where accounts or subnets of the stack would have the names of another stack's parts."""
    for suffix in suffixes:
        if other := stack.removesuffix(suffix) if stack.endswith(suffix) else "":
            fact = f"{stack!r} ends in {suffix}, as a part of stack {other} does."
            fix = f"Name it otherwise, for example {suffix[1:]}-{other}."
            return [Fault("stack", fact, "The two could not stand in one project.", fix)]
    return []


def _prefix(stack: str) -> str:
    prefix = f"gemma4-{stack}"
    longest = MAX_ACCOUNT_ID - LONGEST_SUFFIX
    if len(prefix) <= longest:
        return prefix
    return f"{prefix[: longest - 5].rstrip('-')}-{hashlib.sha256(stack.encode()).hexdigest()[:4]}"
