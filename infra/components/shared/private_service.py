"""What all Cloud Run services share, with a GPU or before other servers: private, named after the stack, called by those who
were named, tried again by the next `up` where a revision failed, and watched while a new one starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from infra.components.shared.grant_names import by_name
from infra.planning.plan import Plan
from infra.providers.revision_retry import RevisionRetry, RevisionRetryArgs
from infra.providers.revision_watch import MARK, RevisionWatch, RevisionWatchArgs

_PROVIDER_TIMEOUT_S = 20 * 60
_INGRESS = {"all": "INGRESS_TRAFFIC_ALL", "internal": "INGRESS_TRAFFIC_INTERNAL_ONLY"}


@dataclass(frozen=True)
class PrivateServiceArgs:
    """`ready` is what must be there before an instance can start; `timeout_s` bounds creation and update, None as Pulumi
    does."""

    plan: Plan
    invoker: gcp.serviceaccount.Account
    description: str
    template: gcp.cloudrunv2.ServiceTemplateArgs
    ready: Sequence[pulumi.Resource]
    timeout_s: int | None = None
    kept_instances: int | None = None
    """Instances kept by the service whatever its revision, so that another number makes no new revision; None: the
    template says."""


def private_service(parent: pulumi.Resource, prefix: str, args: PrivateServiceArgs) -> gcp.cloudrunv2.Service:
    """Return the service. Callers need `run.invoker`: see `callers`."""
    plan = args.plan
    retry = RevisionRetry(
        f"{prefix}-retry",
        RevisionRetryArgs(project=plan.names.project, region=plan.region, service=plan.names.prefix),
        opts=pulumi.ResourceOptions(parent=parent),
    )
    mark = pulumi.Output.all(args.template, retry.failed_revision).apply(lambda asked: mark_of(*asked))
    RevisionWatch(
        f"{prefix}-watch",
        RevisionWatchArgs(
            project=plan.names.project,
            region=plan.region,
            service=plan.names.prefix,
            mark=mark,
            timeout_s=args.timeout_s or _PROVIDER_TIMEOUT_S,
        ),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(args.ready)),
    )
    timeout = f"{args.timeout_s // 60}m" if args.timeout_s else None
    return gcp.cloudrunv2.Service(
        f"{prefix}-service",
        name=plan.names.prefix,
        location=plan.region,
        description=args.description,
        labels=dict(plan.labels),
        ingress=_INGRESS[plan.settings.access.ingress],
        invoker_iam_disabled=False,
        deletion_protection=plan.settings.deletion_protection,
        scaling=None
        if args.kept_instances is None
        else gcp.cloudrunv2.ServiceScalingArgs(min_instance_count=args.kept_instances),
        template=gcp.cloudrunv2.ServiceTemplateArgs(**{**vars(args.template), "annotations": {MARK: mark}}),
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=list(args.ready),
            ignore_changes=["client", "clientVersion"],
            custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout) if timeout else None,
        ),
    )


def callers(
    parent: pulumi.Resource, prefix: str, args: PrivateServiceArgs, service: gcp.cloudrunv2.Service
) -> list[pulumi.Resource]:
    """Return the grants without which the service refuses everybody: the stack's own account's, and the configured members'."""
    own = args.invoker
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


def mark_of(template: Any, after: str | None) -> str:
    """Return a name for what a revision is asked to be, the same for the same template until one of it has failed."""
    return hashlib.sha256(json.dumps([template, after or ""], default=vars, sort_keys=True).encode()).hexdigest()[:16]
