"""What the machines' account may do: pull the image, write logs, read the token where Hugging Face is the source.

Reading the bucket is granted with the bucket. Writing logs is the one grant on the project in this stack: Cloud Logging
checks the permission to write entries nowhere lower.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.components.shared.foundation import Foundation
from infra.components.shared.images import Images
from infra.planning.plan import Plan


@dataclass(frozen=True)
class MachineAccessArgs:
    """Whose account, and which images."""

    plan: Plan
    foundation: Foundation
    images: Images


class MachineAccess(pulumi.ComponentResource):
    """`ready` is what a machine needs before it can start a server."""

    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: MachineAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:MachineAccess", name, {}, opts)
        account = args.foundation.runtime
        repository = args.images.repository
        pull = gcp.artifactregistry.RepositoryIamMember(
            f"{name}-pull",
            repository=repository.name,
            location=repository.location,
            role="roles/artifactregistry.reader",
            member=account.member,
            opts=pulumi.ResourceOptions(parent=self),
        )
        log = gcp.projects.IAMMember(
            f"{name}-log",
            project=args.plan.names.project,
            role="roles/logging.logWriter",
            member=account.member,
            opts=pulumi.ResourceOptions(parent=self),
        )
        from_hub = args.plan.settings.weights.from_hub
        token = args.foundation.let_read_token("runtime", account) if from_hub else []
        grants: list[pulumi.Resource] = [pull, log, *token]
        self.ready = [*grants, args.foundation.settled("machines", [account, *grants])]
        self.register_outputs({})
