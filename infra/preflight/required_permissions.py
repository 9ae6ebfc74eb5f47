"""The permissions that `pulumi up` needs for each type of resource: to create, read, change and delete it.

Sources: the permissions that Google's reference names at each API method (read 2026-11-22 where a copy was found, else
general knowledge), and the requests that the gcp provider was recorded to send. Queued resources of TPUs are guarded by the
permissions of nodes, as public permission tables have it (JamesWoolfenden/pike, SkyPilot). No project has confirmed the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra.planning.report.resources import ResourceRow

ALWAYS = ("resourcemanager.projects.get",)
_LIFE = ("create", "delete", "get", "update")
_POLICY = ("getIamPolicy", "setIamPolicy")
_ACT_AS = "iam.serviceAccounts.actAs"


def _of(noun: str, *verbs: str) -> tuple[str, ...]:
    return tuple(f"{noun}.{verb}" for verb in verbs)


PERMISSIONS: Mapping[str, tuple[str, ...]] = {
    "gcp:projects/service:Service": _of("serviceusage.services", "enable", "get", "list"),
    "gcp:projects/serviceIdentity:ServiceIdentity": _of("serviceusage.services", "enable"),
    "gcp:projects/iAMMember:IAMMember": _of("resourcemanager.projects", *_POLICY),
    "gcp:serviceaccount/account:Account": _of("iam.serviceAccounts", *_LIFE),
    "gcp:serviceaccount/iAMMember:IAMMember": _of("iam.serviceAccounts", *_POLICY),
    "gcp:artifactregistry/repository:Repository": _of("artifactregistry.repositories", *_LIFE),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": _of("artifactregistry.repositories", *_POLICY),
    "gcp:storage/bucket:Bucket": _of("storage.buckets", *_LIFE),
    "gcp:storage/bucketIAMMember:BucketIAMMember": _of("storage.buckets", *_POLICY),
    "gcp:storage/bucketObject:BucketObject": _of("storage.objects", "create", "delete", "get", "list"),
    "gcp:secretmanager/secret:Secret": _of("secretmanager.secrets", *_LIFE),
    "gcp:secretmanager/secretVersion:SecretVersion": _of(
        "secretmanager.versions", "access", "add", "destroy", "enable", "get"
    ),
    "gcp:secretmanager/secretIamMember:SecretIamMember": _of("secretmanager.secrets", *_POLICY),
    "gcp:compute/network:Network": (
        *_of("compute.networks", "create", "delete", "get", "updatePolicy"),
        "compute.globalOperations.get",
    ),
    "gcp:compute/subnetwork:Subnetwork": (
        *_of("compute.subnetworks", *_LIFE),
        "compute.networks.updatePolicy",
        "compute.regionOperations.get",
    ),
    "gcp:compute/firewall:Firewall": (
        *_of("compute.firewalls", *_LIFE),
        "compute.networks.updatePolicy",
        "compute.globalOperations.get",
    ),
    "gcp:compute/router:Router": _of("compute.routers", *_LIFE),
    "gcp:compute/address:Address": (
        *_of("compute.addresses", "createInternal", "deleteInternal", "get", "setLabels", "use"),
        "compute.subnetworks.use",
        "compute.regionOperations.get",
    ),
    "gcp:compute/healthCheck:HealthCheck": (
        *_of("compute.healthChecks", *_LIFE, "useReadOnly"),
        "compute.globalOperations.get",
    ),
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": (
        *_of("compute.instanceTemplates", "create", "delete", "get", "useReadOnly"),
        "compute.images.useReadOnly",
        "compute.regionOperations.get",
        _ACT_AS,
    ),
    # A group's service agent makes the machines, but who asks for them must be allowed to make one.
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": (
        *_of("compute.instanceGroupManagers", *_LIFE),
        "compute.instances.create",
        "compute.instanceTemplates.useReadOnly",
        "compute.regionOperations.get",
    ),
    "gcp:compute/regionPerInstanceConfig:RegionPerInstanceConfig": (
        *_of("compute.instanceGroupManagers", "get", "update"),
        *_of("compute.instances", "create", "delete", "setMetadata"),
        *_of("compute.disks", "create", "delete"),
        "compute.addresses.use",
        "compute.subnetworks.use",
    ),
    "gcp:compute/routerNat:RouterNat": _of("compute.routers", "get", "update"),
    "gcp:cloudrunv2/service:Service": (*_of("run.services", *_LIFE), "run.operations.get", _ACT_AS),
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": _of("run.services", *_POLICY),
    "gcp:cloudrunv2/job:Job": (*_of("run.jobs", *_LIFE), "run.operations.get", _ACT_AS),
    "gcp:monitoring/alertPolicy:AlertPolicy": _of("monitoring.alertPolicies", *_LIFE),
    "pulumi-python:dynamic/gemma4:ComputeMachine": (
        *_of("compute.instanceGroupManagers", "get", "update"),
        *_of("compute.instances", "get", "getGuestAttributes", "setMetadata"),
    ),
    "gcp:dns/managedZone:ManagedZone": (
        *_of("dns.managedZones", *_LIFE),
        *_of("dns.resourceRecordSets", "delete", "list"),  # a zone that is deleted is emptied first
        "dns.changes.create",
        "dns.networks.bindPrivateDNSZone",
    ),
    "gcp:dns/dnsManagedZoneIamMember:DnsManagedZoneIamMember": _of("dns.managedZones", *_POLICY),
    "gcp:projects/iAMCustomRole:IAMCustomRole": _of("iam.roles", *_LIFE, "undelete"),
    "pulumi-python:dynamic/gemma4:GrantPropagation": (),
    "pulumi-python:dynamic/gemma4:MemberRecords": (
        "dns.changes.create",
        *_of("dns.resourceRecordSets", "create", "delete", "list"),
    ),
    "pulumi-python:dynamic/gemma4:RevisionRetry": ("run.services.get",),
    "pulumi-python:dynamic/gemma4:RevisionWatch": ("run.services.get", "run.revisions.get", "logging.logEntries.list"),
    "pulumi-python:dynamic/gemma4:ServingCheck": ("logging.logEntries.list",),
    "pulumi-python:dynamic/gemma4:ServingSpec": _of("tpu.nodes", "get", "update"),
    "pulumi-python:dynamic/gemma4:SubnetCleanup": _of("compute.subnetworks", "delete", "get"),
    "pulumi-python:dynamic/gemma4:TpuNode": (
        *_of("tpu.nodes", "create", "delete", "get", "list"),
        "tpu.operations.get",
        _ACT_AS,
    ),
    "pulumi-python:dynamic/gemma4:TpuQueuedResource": (
        *_of("tpu.nodes", "delete", "get", "update"),
        "tpu.operations.get",
    ),
    "pulumi-python:dynamic/gemma4:WeightsCopy": (
        *_of("run.jobs", "run", "runWithOverrides"),  # each copy overrides the job's arguments
        *_of("run.executions", "get", "list"),
        "run.tasks.list",
        *_of("storage.objects", "get", "list"),
        "logging.logEntries.list",
    ),
}
"""By the type that the program registers. A component needs nothing by itself."""

_MACHINES = tuple(
    f"compute.{noun}." for noun in ("disks", "images", "instanceGroupManagers", "instanceTemplates", "instances")
)
"""What makes machines, and needs another role than networks."""

_SPEC = "pulumi-python:dynamic/gemma4:ServingSpec"
_JOB = "pulumi-python:dynamic/gemma4:WeightsCopy"

ROLES: Mapping[str, str] = {
    "artifactregistry.": "roles/artifactregistry.admin",
    "compute.firewalls.": "roles/compute.securityAdmin",
    **dict.fromkeys(_MACHINES, "roles/compute.instanceAdmin.v1"),
    "compute.": "roles/compute.networkAdmin",
    "dns.": "roles/dns.admin",
    "iam.roles.": "roles/iam.roleAdmin",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
    "iam.serviceAccounts.": "roles/iam.serviceAccountAdmin",
    "logging.": "roles/logging.viewer",
    "monitoring.": "roles/monitoring.editor",
    "resourcemanager.projects.get": "roles/browser",
    "resourcemanager.projects.": "roles/resourcemanager.projectIamAdmin",
    "run.": "roles/run.admin",
    "secretmanager.": "roles/secretmanager.admin",
    "serviceusage.": "roles/serviceusage.serviceUsageAdmin",
    "storage.": "roles/storage.admin",
    "tpu.": "roles/tpu.admin",
}
"""The predefined role that holds a permission, by the start of the permission; the first that matches counts. projects.get
is asked first by its whole name, since getIamPolicy begins alike."""


def permissions_for(resources: Iterable[ResourceRow]) -> dict[str, tuple[str, ...]]:
    """Return the permissions that the resources need, each with the types that need it, short and in order."""
    needs: dict[str, set[str]] = {permission: set() for permission in ALWAYS}
    for row in resources:
        for permission in PERMISSIONS.get(row.type, ()):
            if row.type == _JOB and not row.inputs.get("job") and permission.startswith("run."):
                continue  # a folder that is filled is only checked
            if row.type == _SPEC and row.inputs.get("product") == "compute" and permission.startswith("tpu."):
                continue  # what changes a machine of Compute Engine stands with its group
            needs.setdefault(permission, set()).add(short_type(row.type))
    return {permission: tuple(sorted(types)) for permission, types in sorted(needs.items())}


def unlisted_types(resources: Iterable[ResourceRow]) -> list[str]:
    """Return the types of real resources that the table does not know."""
    real = {row.type for row in resources if not row.type.startswith(("gemma4:", "pulumi:pulumi:"))}
    return sorted(real - set(PERMISSIONS))


def role_for(permission: str) -> str:
    """Return a predefined role that holds the permission."""
    if permission == "resourcemanager.projects.get":
        return ROLES[permission]
    rest = ((start, role) for start, role in ROLES.items() if start != "resourcemanager.projects.get")
    return next((role for start, role in rest if permission.startswith(start)), "roles/owner")


def short_type(resource_type: str) -> str:
    """Return the last word of a type: Bucket of gcp:storage/bucket:Bucket."""
    return resource_type.rpartition(":")[2]
