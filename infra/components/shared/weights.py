"""The weights' bucket and the job that fills it from Hugging Face, or an existing bucket that is filled already.

The server may only read the bucket; the job that writes it runs as an account of its own, the only one that may read
the Hugging Face token.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
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
from infra.components.shared.packed_programs import packed
from infra.planning.artifacts import AdapterSet, StagingPlan, WeightSet
from infra.planning.plan import Plan
from infra.providers.weights_copy import WeightsCopy, WeightsCopyArgs

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
        plan = args.plan
        stage: bytes = packed("stage")
        job, waits = None, list[pulumi.Resource]()
        if plan.staging is None:
            self.bucket = pulumi.Output.from_input(plan.names.bucket)
        else:
            protect = plan.settings.weights.protect
            bucket = gcp.storage.Bucket(
                f"{name}-bucket",
                name=plan.names.bucket,
                location=plan.region.upper(),
                uniform_bucket_level_access=True,
                public_access_prevention="enforced",
                force_destroy=not protect,
                soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
                labels=dict(plan.labels),
                opts=pulumi.ResourceOptions(parent=self, protect=protect, depends_on=args.foundation.apis),
            )
            self.bucket = bucket.name
            job, waits = self._job(plan.staging, stage)

        def copied(part: str, folder: WeightSet | AdapterSet, repository: str, arguments: list[str]) -> WeightsCopy:
            return WeightsCopy(
                f"{name}-{part}",
                WeightsCopyArgs(
                    project=plan.names.project,
                    region=plan.region,
                    bucket=self.bucket,
                    prefix=folder.prefix,
                    repository=repository,
                    revision=folder.revision,
                    job="" if job is None else job.name,
                    arguments=arguments,
                    program_hash="" if job is None else hashlib.sha256(stage).hexdigest()[:12],
                ),
                opts=pulumi.ResourceOptions(parent=self, depends_on=waits),
            )

        copies = [
            copied(f"copy-{number}", weights, weights.hub_id, [] if job is None else stage_arguments(plan, weights))
            for number, weights in enumerate(plan.weights)
        ]
        copies += [
            copied(f"adapter-{adapter.name}", adapter, adapter.source, adapter_arguments(plan, adapter))
            # Two names may have one source: two copies into one folder would stop each other.
            for adapter in {one.prefix: one for one in reversed(plan.adapters)}.values()
        ]
        self.grants = [self._grant("reader", "roles/storage.objectViewer", args.foundation.runtime.member)]
        self.ready = [*copies, *self.grants]
        self.register_outputs({"bucket": self.bucket})

    def _grant(self, role: str, permission: str, member: pulumi.Input[str]) -> gcp.storage.BucketIAMMember:
        return gcp.storage.BucketIAMMember(
            f"{self._name}-{role}",
            bucket=self.bucket,
            role=permission,
            member=member,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _source_grants(self, member: pulumi.Input[str]) -> list[gcp.storage.BucketIAMMember]:
        """Let the job read the buckets that adapters come from."""
        sources = sorted({one.source_bucket for one in self._plan.adapters} - {"", self._plan.names.bucket})
        return [
            gcp.storage.BucketIAMMember(
                f"{self._name}-source-{bucket}",
                bucket=bucket,
                role="roles/storage.objectViewer",
                member=member,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for bucket in sources
        ]

    def _job(self, staging: StagingPlan, stage: bytes) -> tuple[gcp.cloudrunv2.Job, list[pulumi.Resource]]:
        """Return the job that fills the bucket, and what must be there before it can run."""
        plan, foundation = self._plan, self._foundation
        stager = foundation.account("stager", plan.names.stager, "copies the weights into the bucket")
        script = gcp.storage.BucketObject(
            f"{self._name}-script",
            bucket=self.bucket,
            name=_SCRIPT_OBJECT,
            source=pulumi.FileAsset(_file_of(stage)),
            opts=pulumi.ResourceOptions(parent=self),
        )
        grants = [
            self._grant("writer", "roles/storage.objectUser", stager.member),
            *foundation.let_read_token("stager", stager),
            *self._source_grants(stager.member),
        ]
        waits: list[pulumi.Resource] = [script, foundation.settled("stager", [stager, *grants])]
        environment = []
        if foundation.token_secret is not None:
            reference = JobTemplateTemplateContainerEnvValueSourceSecretKeyRefArgs(
                secret=foundation.token_secret, version="latest"
            )
            source = JobTemplateTemplateContainerEnvValueSourceArgs(secret_key_ref=reference)
            environment.append(JobTemplateTemplateContainerEnvArgs(name="HF_TOKEN", value_source=source))
        container = JobTemplateTemplateContainerArgs(
            name="stage",
            image=plan.images["staging"].pull,
            commands=["python3", f"{_SCRIPT_MOUNT}/{_SCRIPT_OBJECT}"],
            args=stage_arguments(plan, plan.weights[0]),
            envs=environment,
            resources=JobTemplateTemplateContainerResourcesArgs(
                limits={"cpu": str(staging.cpu), "memory": f"{staging.memory_gib}Gi"}
            ),
            volume_mounts=[JobTemplateTemplateContainerVolumeMountArgs(name="script", mount_path=_SCRIPT_MOUNT)],
        )
        volume = JobTemplateTemplateVolumeGcsArgs(bucket=self.bucket, read_only=True)
        task = JobTemplateTemplateArgs(
            service_account=stager.email,
            execution_environment="EXECUTION_ENVIRONMENT_GEN2",
            timeout=f"{staging.timeout_s}s",
            max_retries=staging.retries,
            containers=[container],
            volumes=[JobTemplateTemplateVolumeArgs(name="script", gcs=volume)],
        )
        job = gcp.cloudrunv2.Job(
            f"{self._name}-job",
            name=plan.names.stager,
            location=plan.region,
            labels=dict(plan.labels),
            deletion_protection=False,
            template=JobTemplateArgs(labels=dict(plan.labels), task_count=1, template=task),
            opts=pulumi.ResourceOptions(parent=self, depends_on=waits, ignore_changes=["client", "clientVersion"]),
        )
        return job, waits


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


def adapter_arguments(plan: Plan, adapter: AdapterSet) -> list[str]:
    """Return the command line of the staging job for one LoRA adapter: what it must be to be served is part of it."""
    revision = ["--revision", adapter.revision] if adapter.revision else []
    destination = f"gs://{plan.names.bucket}/{adapter.prefix}"
    rules = {
        "rank": plan.server.adapter_rank,
        "base": f"gemma-4-{plan.architecture.id}",
        "layers": plan.architecture.layers,
        "hidden": plan.architecture.hidden_size,
        "experts": "yes" if plan.server.adapts_experts else "no",
    }
    asked = [word for name, value in rules.items() for word in (f"--adapter-{name}", str(value))]
    return ["--repo", adapter.source, *revision, "--destination", destination, *asked]
