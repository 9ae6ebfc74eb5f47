"""The private DNS zone in which a gateway finds the machines of its stack by name, and who may write there.

Each machine's supervisor puts its own address into its record. The role that lets it is this stack's own, and granted on
this zone alone: Google's smallest one that can change a record may also delete zones and hand out roles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.dns import ManagedZonePrivateVisibilityConfigArgs, ManagedZonePrivateVisibilityConfigNetworkArgs

from infra.components.shared.foundation import Foundation
from infra.components.shared.network import Network
from infra.planning.gateway.members import GatewayMember
from infra.planning.plan import Plan
from infra.providers.member_records import MemberRecords, MemberRecordsArgs

MEMBER_PERMISSIONS = (
    "dns.changes.create",
    "dns.changes.get",
    "dns.managedZones.get",
    "dns.resourceRecordSets.create",
    "dns.resourceRecordSets.delete",
    "dns.resourceRecordSets.get",
    "dns.resourceRecordSets.list",
    "dns.resourceRecordSets.update",
)
"""What an exchange of a record takes: reading it, and one change that deletes and adds."""


@dataclass(frozen=True)
class MemberZoneArgs:
    """`members` are those that the gateway knows, whether or not there is a machine for one."""

    plan: Plan
    foundation: Foundation
    network: Network
    members: Iterable[GatewayMember]


class MemberZone(pulumi.ComponentResource):
    """`name` is the managed zone's. A gateway depends on `records`, a machine on `ready`."""

    name: pulumi.Output[str]
    records: pulumi.Resource
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: MemberZoneArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:MemberZone", name, {}, opts)
        plan, runtime = args.plan, args.foundation.runtime
        zone = gcp.dns.ManagedZone(
            f"{name}-zone",
            name=plan.names.prefix,
            dns_name=f"{plan.names.domain}.",
            description=f"gemma4 stack {plan.stack}: its machines by name",
            visibility="private",
            private_visibility_config=ManagedZonePrivateVisibilityConfigArgs(
                networks=[ManagedZonePrivateVisibilityConfigNetworkArgs(network_url=args.network.network.id)]
            ),
            force_destroy=True,  # a machine may write a record at any time
            labels=dict(plan.labels),
            opts=pulumi.ResourceOptions(parent=self, depends_on=args.foundation.apis),
        )
        self.name = zone.name
        self.records = MemberRecords(
            f"{name}-records",
            MemberRecordsArgs(
                project=plan.names.project,
                zone=zone.name,
                domain=plan.names.domain,
                hosts=list(dict.fromkeys(member.host for member in args.members)),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        role = gcp.projects.IAMCustomRole(
            f"{name}-role",
            # Google keeps the id of a deleted role for up to 37 days. The account's number is new with each account.
            role_id=pulumi.Output.concat(plan.names.prefix.replace("-", "_"), "_", runtime.unique_id),
            title=f"gemma4 {plan.stack} members",
            description=f"Stack {plan.stack}: exchange the records of its machines",
            permissions=list(MEMBER_PERMISSIONS),
            opts=pulumi.ResourceOptions(parent=self, depends_on=args.foundation.apis),
        )
        grant = gcp.dns.DnsManagedZoneIamMember(
            f"{name}-writer",
            project=plan.names.project,
            managed_zone=zone.name,
            role=role.name,
            member=runtime.member,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.ready = [self.records, grant, args.foundation.settled("members", [runtime, role, grant])]
        self.register_outputs({"zone": self.name})
