"""Whether the names that the stack gives are free: what exists and is not in the stack's state would stop `up` half way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.project import project_record
from infra.planning.report.resources import ResourceRow
from infra.preflight.preflight_check import PreflightResult, failed, not_needed, ok, unknown
from infra.preflight.required_permissions import short_type
from infra.preflight.subject import Subject

_BUCKET = "gcp:storage/bucket:Bucket"
_SHOWN = 3


@dataclass(frozen=True)
class Named:
    """How Google finds a resource: the API, its path with the inputs of the resource, the input that is its name, and the
    command that deletes it."""

    api: Api
    path: str
    name: str
    delete: str


NAMED: Mapping[str, Named] = {
    "gcp:cloudrunv2/service:Service": Named(
        Api.CLOUD_RUN,
        "projects/{project}/locations/{location}/services/{name}",
        "name",
        "gcloud run services delete {name} --region {location} --project {project}",
    ),
    "gcp:cloudrunv2/job:Job": Named(
        Api.CLOUD_RUN,
        "projects/{project}/locations/{location}/jobs/{name}",
        "name",
        "gcloud run jobs delete {name} --region {location} --project {project}",
    ),
    "gcp:artifactregistry/repository:Repository": Named(
        Api.ARTIFACT_REGISTRY,
        "projects/{project}/locations/{location}/repositories/{repositoryId}",
        "repositoryId",
        "gcloud artifacts repositories delete {repositoryId} --location {location} --project {project}",
    ),
    "gcp:serviceaccount/account:Account": Named(
        Api.IAM,
        "projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com",
        "accountId",
        "gcloud iam service-accounts delete {accountId}@{project}.iam.gserviceaccount.com --project {project}",
    ),
    "gcp:secretmanager/secret:Secret": Named(
        Api.SECRET_MANAGER,
        "projects/{project}/secrets/{secretId}",
        "secretId",
        "gcloud secrets delete {secretId} --project {project}",
    ),
    "gcp:compute/network:Network": Named(
        Api.COMPUTE,
        "projects/{project}/global/networks/{name}",
        "name",
        "gcloud compute networks delete {name} --project {project}",
    ),
    "gcp:compute/subnetwork:Subnetwork": Named(
        Api.COMPUTE,
        "projects/{project}/regions/{region}/subnetworks/{name}",
        "name",
        "gcloud compute networks subnets delete {name} --region {region} --project {project}",
    ),
    "gcp:compute/firewall:Firewall": Named(
        Api.COMPUTE,
        "projects/{project}/global/firewalls/{name}",
        "name",
        "gcloud compute firewall-rules delete {name} --project {project}",
    ),
    "gcp:compute/address:Address": Named(
        Api.COMPUTE,
        "projects/{project}/regions/{region}/addresses/{name}",
        "name",
        "gcloud compute addresses delete {name} --region {region} --project {project}",
    ),
    "gcp:compute/healthCheck:HealthCheck": Named(
        Api.COMPUTE,
        "projects/{project}/global/healthChecks/{name}",
        "name",
        "gcloud compute health-checks delete {name} --project {project}",
    ),
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": Named(
        Api.COMPUTE,
        "projects/{project}/regions/{region}/instanceGroupManagers/{name}",
        "name",
        "gcloud compute instance-groups managed delete {name} --region {region} --project {project}",
    ),
    _BUCKET: Named(Api.STORAGE, "b/{name}", "name", "gcloud storage rm -r gs://{name}"),
}
"""By type of resource. Types without a name of their own, such as grants, are not here."""


def check_bucket_name(subject: Subject) -> PreflightResult:
    """Return whether the name of the stack's bucket, which no other project in the world may have, is free."""
    row = next((row for row in subject.resources if row.type == _BUCKET), None)
    if row is None:
        return not_needed("the stack makes no bucket")
    name = str(row.inputs["name"])
    if _in_state(subject, row):
        return ok(f"gs://{name} is the stack's own")
    mend = subject.config("weights.bucket", f"{name}-2")
    try:
        found = subject.session.get(Api.STORAGE, f"b/{name}")
    except GoogleError as error:
        if error.status == 404:
            return ok(f"gs://{name} is free")
        if error.status == 403:
            return failed(f"gs://{name} is taken, by a project that hides it", "The bucket could not be made.", mend)
        raise
    if str(found.get("projectNumber", "")) != project_record(subject.session).number:
        return failed(f"gs://{name} belongs to another project", "The bucket could not be made.", mend)
    if _is_own(subject, found):
        return _left_behind(subject, row, f"gs://{name} is there")
    keep = f"{subject.config('weights.source', 'existing')}, and: {subject.config('weights.bucket', name)}"
    return failed(f"gs://{name} exists and is not this stack's", "The bucket could not be made.", f"{mend}; or {keep}")


def check_names(subject: Subject) -> PreflightResult:
    """Return whether services, accounts, networks and the like of these names do not exist, or are in the stack's state."""
    rows = [row for row in subject.resources if row.type in NAMED and row.type != _BUCKET]
    taken, first = list[str](), None
    for row in rows:
        if _in_state(subject, row):
            continue
        if (found := _existing(subject, row)) is None:
            continue
        own = " (this stack's, by its labels)" if _is_own(subject, found) else ""
        taken.append(f"{short_type(row.type)} {row.inputs[NAMED[row.type].name]}{own}")
        first = first or row
    if first is not None and subject.pulumi.resources is None:
        return unknown(f"{', '.join(taken[:_SHOWN])} exist; whether they are in the stack's state could not be read")
    if first is None:
        return ok(f"{len(rows)} names are free or the stack's own")
    more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
    return _left_behind(subject, first, f"there is already: {', '.join(taken[:_SHOWN])}{more}")


def _left_behind(subject: Subject, row: ResourceRow, fact: str) -> PreflightResult:
    """Return the failure for something that exists and that the stack's state does not know."""
    stack = subject.plan.stack
    return failed(
        f"{fact}, and the state of {stack} does not know it",
        "`up` would stop there with 409, after it has made what comes before.",
        f"{_filled(NAMED[row.type].delete, subject, row)}; or, to keep it, pulumi import {row.type} {row.name} ID -s {stack}",
    )


def _existing(subject: Subject, row: ResourceRow) -> Mapping[str, object] | None:
    named = NAMED[row.type]
    try:
        return subject.session.get(named.api, _filled(named.path, subject, row))
    except GoogleError as error:
        if error.status == 404 or error.reason == "SERVICE_DISABLED":  # nothing is where its API was never enabled
            return None
        raise


def _filled(template: str, subject: Subject, row: ResourceRow) -> str:
    return template.format(**{**row.inputs, "project": subject.project})


def _in_state(subject: Subject, row: ResourceRow) -> bool:
    return (row.type, str(row.inputs.get(NAMED[row.type].name, ""))) in (subject.pulumi.resources or frozenset())


def _is_own(subject: Subject, found: Mapping[str, object]) -> bool:
    labels = found.get("labels")
    return isinstance(labels, Mapping) and all(labels.get(key) == value for key, value in _marks(subject).items())


def _marks(subject: Subject) -> Mapping[str, str]:
    return {key: value for key, value in subject.plan.labels.items() if key in ("app", "stack")}
