"""Resources of Compute Engine by their type tokens: networks, firewalls, routers, templates and groups of machines.

The generated module pulumi_gcp.compute describes all of Compute Engine, and loading it takes longer than everything else
that a plan or a preview does (docs/decisions has the figures). This class sends exactly what the generated ones would;
tests/components/test_compute_resource.py holds tokens and inputs to the generated ones, name by name.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

_VERSION = importlib.metadata.version("pulumi-gcp")


class ComputeResource(pulumi.CustomResource):
    """A resource of the gcp provider: `kind` as the provider spells it, inputs as the engine sees them.

    `outputs` are properties that only Google knows, beside the inputs; `output` returns either.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        inputs: Mapping[str, Any],
        opts: pulumi.ResourceOptions,
        *,
        outputs: Sequence[str] = (),
    ) -> None:
        # The version decides which provider serves it: the same as for all other resources.
        own = pulumi.ResourceOptions(version=_VERSION)
        token = f"gcp:compute/{kind}:{kind[0].upper()}{kind[1:]}"
        super().__init__(token, name, {**inputs, **dict.fromkeys(outputs)}, pulumi.ResourceOptions.merge(own, opts))

    def output(self, name: str) -> pulumi.Output[Any]:
        """Return a property by the name that the engine sees."""
        found: pulumi.Output[Any] = vars(self)[name]
        return found
