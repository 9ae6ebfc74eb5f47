"""Components: one noun each, built from a Plan. They decide nothing.

shared/ is what every platform builds from. cloud_run/, tpu/ and compute_engine/ are one platform each: infra/stack.py calls
their deploy.py.
In `gpu_service`, `tpu_slice`, `managed_machine` and `gateway` stands what serves and what is called.

pulumi_gcp loads a module at the first look into it, and while that goes on another thread finds the module empty.
Pulumi resolves resources in several threads, so whatever the components use is looked into here, by one.
"""

from pulumi_gcp import artifactregistry, cloudrunv2, dns, projects, secretmanager, serviceaccount, storage

_LOADED = (
    artifactregistry.Repository,
    cloudrunv2.Service,
    dns.ManagedZone,
    projects.Service,
    secretmanager.Secret,
    serviceaccount.Account,
    storage.Bucket,
)
