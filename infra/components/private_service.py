"""What the Cloud Run services of both platforms share: private, named after the stack, called by those who were named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.components.foundation import Foundation
from infra.components.members import by_name
from infra.planning.plan import Plan

_INGRESS = {"all": "INGRESS_TRAFFIC_ALL", "internal": "INGRESS_TRAFFIC_INTERNAL_ONLY"}


@dataclass(frozen=True)
class PrivateServiceArgs:
    """`ready` is what must be there before an instance can start; `timeout` of creation and update, e.g. 45m."""

    plan: Plan
    foundation: Foundation
    description: str
    template: gcp.cloudrunv2.ServiceTemplateArgs
    ready: Sequence[pulumi.Resource]
    timeout: str | None = None


def private_service(parent: pulumi.Resource, prefix: str, args: PrivateServiceArgs) -> gcp.cloudrunv2.Service:
    """The service. Callers need `run.invoker`: see `callers`."""
    plan = args.plan
    return gcp.cloudrunv2.Service(
        f"{prefix}-service",
        name=plan.names.prefix,
        location=plan.region,
        description=args.description,
        labels=dict(plan.labels),
        ingress=_INGRESS[plan.settings.access.ingress],
        invoker_iam_disabled=False,
        deletion_protection=plan.settings.deletion_protection,
        template=args.template,
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=list(args.ready),
            ignore_changes=["client", "clientVersion"],
            custom_timeouts=pulumi.CustomTimeouts(create=args.timeout, update=args.timeout) if args.timeout else None,
        ),
    )


def callers(
    parent: pulumi.Resource, prefix: str, args: PrivateServiceArgs, service: gcp.cloudrunv2.Service
) -> list[pulumi.Resource]:
    """The grants without which the service refuses everybody: the stack's own account's, and the configured members'."""
    own = args.foundation.invoker
    names = args.plan.names
    others = by_name(args.plan.settings.access.invokers, without=f"serviceAccount:{names.email(names.invoker)}")
    members: dict[str, pulumi.Input[str]] = {"invoker": own.member}
    members |= {f"invoker-{suffix}": member for suffix, member in others.items()}
    return [
        gcp.cloudrunv2.ServiceIamMember(
            f"{prefix}-{suffix}",
            name=service.name,
            location=args.plan.region,
            role="roles/run.invoker",
            member=member,
            opts=pulumi.ResourceOptions(parent=parent),
        )
        for suffix, member in members.items()
    ]
