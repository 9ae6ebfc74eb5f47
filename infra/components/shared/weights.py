"""The weights' bucket and the job that fills it from Hugging Face, or an existing bucket that is filled already.

The server may only read the bucket; the job that writes it runs as an account of its own, the only one that may read
the Hugging Face token.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import runpy
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.cloudrunv2 import (
    JobTemplateArgs,
    JobTemplateTemplateArgs,
    JobTemplateTemplateContainerArgs,
    JobTemplateTemplateContainerEnvArgs,
    JobTemplateTemplateContainerEnvValueSourceArgs,
    JobTemplateTemplateContainerEnvValueSourceSecretKeyRefArgs,
    JobTemplateTemplateContainerResourcesArgs,
    JobTemplateTemplateContainerVolumeMountArgs,
    JobTemplateTemplateVolumeArgs,
    JobTemplateTemplateVolumeGcsArgs,
)

from infra.components.shared.foundation import Foundation
from infra.planning.artifacts import StagingPlan, WeightSet
from infra.planning.plan import Plan
from infra.providers.weights_copy import WeightsCopy, WeightsCopyArgs

ARCHIVE = Path("containers/archive.py")
_SCRIPT_OBJECT = ".stage/stage.pyz"
_SCRIPT_MOUNT = "/mnt/script"


@dataclass(frozen=True)
class WeightsArgs:
    """The plan and the foundation that its accounts and token come from."""

    plan: Plan
    foundation: Foundation


class Weights(pulumi.ComponentResource):
    """`bucket` is the bucket's name; `ready` is what must be done before a server can load, `grants` let it read."""

    bucket: pulumi.Output[str]
    ready: list[pulumi.Resource]
    grants: list[pulumi.Resource]

    def __init__(self, name: str, args: WeightsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Weights", name, {}, opts)
        self._name, self._plan, self._foundation = name, args.plan, args.foundation
        self._stage: bytes = runpy.run_path(str(ARCHIVE))["stage"]()
        if args.plan.staging is None:
            self.bucket, job = pulumi.Output.from_input(args.plan.names.bucket), None
            waits: list[pulumi.Resource] = []
        else:
            own = self._own_bucket()
            self.bucket = own.name
            job, waits = self._job(own, args.plan.staging)
        copies = [self._copy(number, weights, job, waits) for number, weights in enumerate(args.plan.weights)]
        self.grants = [self._grant("reader", "roles/storage.objectViewer", args.foundation.runtime.member)]
        self.ready = [*copies, *self.grants]
        self.register_outputs({"bucket": self.bucket})

    def _own_bucket(self) -> gcp.storage.Bucket:
        protect = self._plan.settings.weights.protect
        return gcp.storage.Bucket(
            f"{self._name}-bucket",
            name=self._plan.names.bucket,
            location=self._plan.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            force_destroy=not protect,
            soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
            labels=dict(self._plan.labels),
            opts=pulumi.ResourceOptions(parent=self, protect=protect, depends_on=self._foundation.apis),
        )

    def _grant(self, role: str, permission: str, member: pulumi.Input[str]) -> gcp.storage.BucketIAMMember:
        return gcp.storage.BucketIAMMember(
            f"{self._name}-{role}",
            bucket=self.bucket,
            role=permission,
            member=member,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _job(
        self, bucket: gcp.storage.Bucket, staging: StagingPlan
    ) -> tuple[gcp.cloudrunv2.Job, list[pulumi.Resource]]:
        stager = self._foundation.account("stager", self._plan.names.stager, "copies the weights into the bucket")
        script = gcp.storage.BucketObject(
            f"{self._name}-script",
            bucket=bucket.name,
            name=_SCRIPT_OBJECT,
            source=pulumi.FileAsset(_file_of(self._stage)),
            opts=pulumi.ResourceOptions(parent=self),
        )
        grants = [
            self._grant("writer", "roles/storage.objectUser", stager.member),
            *self._foundation.let_read_token("stager", stager),
        ]
        waits: list[pulumi.Resource] = [script, self._foundation.settled("stager", [stager, *grants])]
        job = gcp.cloudrunv2.Job(
            f"{self._name}-job",
            name=self._plan.names.stager,
            location=self._plan.region,
            labels=dict(self._plan.labels),
            deletion_protection=False,
            template=JobTemplateArgs(
                labels=dict(self._plan.labels), task_count=1, template=self._task(bucket, stager, staging)
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=waits, ignore_changes=["client", "clientVersion"]),
        )
        return job, waits

    def _task(
        self, bucket: gcp.storage.Bucket, stager: gcp.serviceaccount.Account, staging: StagingPlan
    ) -> JobTemplateTemplateArgs:
        volume = JobTemplateTemplateVolumeGcsArgs(bucket=bucket.name, read_only=True)
        container = JobTemplateTemplateContainerArgs(
            name="stage",
            image=self._plan.images["staging"].pull,
            commands=["python3", f"{_SCRIPT_MOUNT}/{_SCRIPT_OBJECT}"],
            args=stage_arguments(self._plan, self._plan.weights[0]),
            envs=self._token_env(),
            resources=JobTemplateTemplateContainerResourcesArgs(
                limits={"cpu": str(staging.cpu), "memory": f"{staging.memory_gib}Gi"}
            ),
            volume_mounts=[JobTemplateTemplateContainerVolumeMountArgs(name="script", mount_path=_SCRIPT_MOUNT)],
        )
        return JobTemplateTemplateArgs(
            service_account=stager.email,
            execution_environment="EXECUTION_ENVIRONMENT_GEN2",
            timeout=f"{staging.timeout_s}s",
            max_retries=staging.retries,
            containers=[container],
            volumes=[JobTemplateTemplateVolumeArgs(name="script", gcs=volume)],
        )

    def _token_env(self) -> list[JobTemplateTemplateContainerEnvArgs]:
        if self._foundation.token_secret is None:
            return []
        reference = JobTemplateTemplateContainerEnvValueSourceSecretKeyRefArgs(
            secret=self._foundation.token_secret, version="latest"
        )
        source = JobTemplateTemplateContainerEnvValueSourceArgs(secret_key_ref=reference)
        return [JobTemplateTemplateContainerEnvArgs(name="HF_TOKEN", value_source=source)]

    def _copy(
        self, number: int, weights: WeightSet, job: gcp.cloudrunv2.Job | None, waits: list[pulumi.Resource]
    ) -> WeightsCopy:
        return WeightsCopy(
            f"{self._name}-copy-{number}",
            WeightsCopyArgs(
                project=self._plan.names.project,
                region=self._plan.region,
                bucket=self.bucket,
                prefix=weights.prefix,
                repository=weights.hub_id,
                revision=weights.revision,
                job="" if job is None else job.name,
                arguments=[] if job is None else stage_arguments(self._plan, weights),
                program_hash="" if job is None else hashlib.sha256(self._stage).hexdigest()[:12],
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=waits),
        )


@functools.cache
def _file_of(archive: bytes) -> str:
    """Return the path of a file with these bytes, which lasts as long as this process: an asset in text would change them."""
    folder = tempfile.mkdtemp(prefix="gemma4-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "stage.pyz")
    path.write_bytes(archive)
    return str(path)


def stage_arguments(plan: Plan, weights: WeightSet) -> list[str]:
    """Return the command line of the staging job for one checkpoint."""
    destination = f"gs://{plan.names.bucket}/{weights.prefix}"
    return ["--repo", weights.hub_id, "--revision", weights.revision, "--destination", destination]
