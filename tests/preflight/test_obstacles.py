"""What is in the way of `pulumi up` is found, named with its remedy, and nothing else is; and nothing is created."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from infra.preflight.subject import PulumiState
from infra.preflight.tpu.slice_preflight import platform_checks
from tests.fakes.google.client import session
from tests.fakes.google.queued_slice import queue_slice
from tests.fakes.google.wire import permission_denied
from tests.fakes.managed_group import make_group
from tests.preflight.conftest import Made
from tests.preflight.ready_project import ReadyProject

ZONE, REGION = "us-east5-a", "us-east5"
FLEX = "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI"
LABELS = {"app": "gemma4", "stack": "l4"}
BUCKET = "demo-project-gemma4-l4-weights"
RUN_L4 = "projects/demo-project/locations/us-east4"
Plant = Callable[[ReadyProject, set[str]], None]


@dataclass(frozen=True)
class Obstacle:
    """`words` are in what is said to be wrong, `fix` in the remedy; `check` is the only one that may fail."""

    name: str
    stack: str
    plant: Plant
    check: str
    words: str
    fix: str


OBSTACLES: list[Obstacle] = []


def obstacle(stack: str, check: str, words: str, fix: str) -> Callable[[Plant], Plant]:
    """Register a function that puts an obstacle into a project; its name says what it is."""

    def register(plant: Plant) -> Plant:
        OBSTACLES.append(Obstacle(plant.__name__, stack, plant, check, words, fix))
        return plant

    return register


@obstacle("l4", "project", "no longer accepts these credentials", "gcloud auth application-default login")
def expired_credentials(project: ReadyProject, tools: set[str]) -> None:
    project.google.expire("fake-access-token")


@obstacle("l4", "project", "cannot see a project demo-project", "pulumi config set gcp:project PROJECT -s l4")
def project_of_somebody_else(project: ReadyProject, tools: set[str]) -> None:
    refusal = permission_denied("resourcemanager.projects.get", "projects/demo-project")
    project.google.refuse("GET", "/crm/v1/projects/demo-project", refusal, times=99)


@obstacle("v6e4", "project", "DELETE_REQUESTED", "gcloud projects undelete demo-project")
def project_being_deleted(project: ReadyProject, tools: set[str]) -> None:
    project.google.crm.state = "DELETE_REQUESTED"


@obstacle("l4", "billing", "no active billing account", "gcloud billing projects link demo-project")
def nobody_pays(project: ReadyProject, tools: set[str]) -> None:
    project.google.cloudbilling.account = ""


@obstacle("l4", "apis", "serviceusage.googleapis.com is not", "gcloud services enable serviceusage.googleapis.com")
def api_that_enables_apis_is_off(project: ReadyProject, tools: set[str]) -> None:
    project.google.serviceusage.enabled.discard("serviceusage.googleapis.com")


@obstacle("v6e4", "apis", "cloudresourcemanager", "gcloud services enable cloudresourcemanager.googleapis.com")
def resource_manager_is_off(project: ReadyProject, tools: set[str]) -> None:
    project.google.serviceusage.enabled.discard("cloudresourcemanager.googleapis.com")


@obstacle("l4", "permissions", "run.services.create (Service)", "--member=user:me@example.com --role=roles/run.admin")
def services_may_not_be_made(project: ReadyProject, tools: set[str]) -> None:
    project.google.crm.deny("run.services.create")


@obstacle("v6e4", "permissions", "tpu.nodes.create (TpuNode)", "--role=roles/tpu.admin")
def slices_may_not_be_made(project: ReadyProject, tools: set[str]) -> None:
    project.google.crm.deny("tpu.nodes.create")


@obstacle("l4", "permissions", "run.jobs.runWithOverrides (WeightsCopy)", "--role=roles/run.admin")
def the_copy_may_not_be_started(project: ReadyProject, tools: set[str]) -> None:
    project.google.crm.deny("run.jobs.runWithOverrides")


@obstacle("v6e4", "permissions", "resourcemanager.projects.setIamPolicy", "roles/resourcemanager.projectIamAdmin")
def grants_on_the_project_may_not_be_made(project: ReadyProject, tools: set[str]) -> None:
    project.google.crm.deny("resourcemanager.projects.setIamPolicy")


@obstacle("l4", "permissions", "iam.serviceAccounts.actAs", "--role=roles/iam.serviceAccountUser")
def nobody_may_act_as_the_accounts(project: ReadyProject, tools: set[str]) -> None:
    project.google.crm.deny("iam.serviceAccounts.actAs")


@obstacle("l4", "invoker", "nobody is in access.deployers", "'gemma4:access.deployers[0]' user:me@example.com -s l4")
def no_deployers(project: ReadyProject, tools: set[str]) -> None:
    project.settings["access"] = {}
    project.google.crm.deny("iam.serviceAccounts.getOpenIdToken")


@obstacle("v6e4", "invoker", "user:me@example.com is not among access.deployers", "access.deployers[0]")
def somebody_else_deploys(project: ReadyProject, tools: set[str]) -> None:
    project.settings["access"] = {"deployers": ["user:other@example.com"]}
    project.google.crm.deny("iam.serviceAccounts.getOpenIdToken")


@obstacle("l4", "org-ingress", "run.allowedIngress does not allow ingress all", "access.ingress' internal -s l4")
def organization_wants_internal_ingress(project: ReadyProject, tools: set[str]) -> None:
    project.google.orgpolicy.restrict("run.allowedIngress", values={"allowedValues": ["internal"]})


@obstacle(
    "v6e4", "org-locations", "no resources in us-east5: in:europe-west4-locations", "gemma4:region REGION -s v6e4"
)
def organization_is_elsewhere(project: ReadyProject, tools: set[str]) -> None:
    values = {"allowedValues": ["in:europe-west4-locations"]}
    project.google.orgpolicy.restrict("gcp.resourceLocations", values=values)


@obstacle("l4", "org-accounts", "disableServiceAccountCreation is enforced", "org-policies disable-enforce")
def organization_forbids_accounts(project: ReadyProject, tools: set[str]) -> None:
    project.google.orgpolicy.restrict("iam.disableServiceAccountCreation", enforce=True)


@obstacle("l4", "quota-gpu", "2 GPU needed, 1 GPU in us-east4", "'gemma4:scaling.maxInstances' 1 -s l4")
def more_gpus_than_granted(project: ReadyProject, tools: set[str]) -> None:
    project.settings["scaling"] = {"maxInstances": 2}
    project.prepare()
    quota = "NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion"
    project.google.cloudquotas.set_quota("run.googleapis.com", quota, "us-east4", 1)


@obstacle(
    "rtx6000",
    "quota-gpu",
    "1 GPU needed, 0 GPU in",
    "ask for 1,000 at https://console.cloud.google.com/iam-admin/quotas",
)
def no_gpu_at_all(project: ReadyProject, tools: set[str]) -> None:
    need = project.planned().plan.quotas[0]
    project.google.cloudquotas.set_quota(need.quota.service, need.quota.id, need.place, 0)


@obstacle("l4", "quota-memory", "MemAllocPerProjectRegion: 32 GiB needed, 20 GiB", "ask for 34,359,738,368")
def too_little_memory(project: ReadyProject, tools: set[str]) -> None:
    project.google.cloudquotas.set_quota("run.googleapis.com", "MemAllocPerProjectRegion", "us-east4", 20 * 1024**3)


@obstacle("l4", "quota-cpu", "CpuAllocPerProjectRegion: 8 vCPU needed, 4 vCPU", "service=run.googleapis.com")
def too_few_cpus(project: ReadyProject, tools: set[str]) -> None:
    project.google.cloudquotas.set_quota("run.googleapis.com", "CpuAllocPerProjectRegion", "us-east4", 4000)


@obstacle("v6e4", "quota-chips-zone", "4 chips needed, 0 chips in us-east5-a", "gemma4 zones v6e4")
def no_chips_in_the_zone(project: ReadyProject, tools: set[str]) -> None:
    project.google.cloudquotas.set_quota("tpu.googleapis.com", FLEX, ZONE, 0)


@obstacle("v6e4", "quota-chips-region", "4 chips needed, 2 chips in us-east5", "'gemma4:tpu.zone' ZONE -s v6e4")
def too_few_chips_in_the_region(project: ReadyProject, tools: set[str]) -> None:
    quota = FLEX.replace("PerZone", "PerRegion")
    project.google.cloudquotas.set_quota("tpu.googleapis.com", quota, REGION, 2)


@obstacle("v6e4", "quota-chips-region", "8 of them held", "gemma4 tpu ended v6e4 --delete")
def chips_that_ended_requests_hold(project: ReadyProject, tools: set[str]) -> None:
    for name in ("left-over", "left-over-too"):
        queue(project, name, "us-east5-b", "FAILED")


@obstacle("l4", "quota-networks", "5 of 5 networks are used", "gcloud compute networks list --project demo-project")
def no_room_for_a_network(project: ReadyProject, tools: set[str]) -> None:
    project.google.compute.resources |= {f"projects/demo-project/global/networks/n{i}": {} for i in range(5)}


@obstacle("v6e4", "machine", "us-east5-a does not list v6e-4", "gemma4 zones v6e4")
def zone_without_the_machine(project: ReadyProject, tools: set[str]) -> None:
    project.google.tpu.offers[ZONE] = ("v6e-1",)


@obstacle("v6e4", "machine", "us-east5-a is not a zone", "gemma4 zones v6e4")
def zone_that_the_project_may_not_use(project: ReadyProject, tools: set[str]) -> None:
    refusal = {"error": {"code": 404, "message": "Location us-east5-a is not found.", "status": "NOT_FOUND"}}
    project.google.fault("GET", f"locations/{ZONE}/acceleratorTypes", status=404, body=refusal, times=99)


@obstacle("v6e4", "runtime", "does not list the runtime v2-alpha-tpuv6e", "gemma4 zones v6e4")
def zone_without_the_runtime(project: ReadyProject, tools: set[str]) -> None:
    listed = {"runtimeVersions": [{"name": "x", "version": "v2-alpha-tpuv5"}]}
    project.google.fault("GET", f"locations/{ZONE}/runtimeVersions", status=200, body=listed, times=99)


@obstacle("v6e4", "plan", "us-central1-b", "europe-west4-a")
def zone_that_refuses_flex_start(project: ReadyProject, tools: set[str]) -> None:
    refused = next(iter(limits(project).flex_start_refused_zones))
    assert refused == "us-central1-b"
    project.settings["tpu"] = {"zone": refused}
    project.prepare()


@obstacle("l4", "plan", "serving.cpuOffloadGb", "accelerator: rtx-pro-6000")
def plan_that_cannot_work(project: ReadyProject, tools: set[str]) -> None:
    project.settings["model"] = "gemma-4-31b-it"
    project.prepare()


@obstacle(
    "l4", "image-serving", "vllm/vllm-openai:v9.9.9 does not exist", "'gemma4:images.serving' REPOSITORY:TAG -s l4"
)
def image_that_does_not_exist(project: ReadyProject, tools: set[str]) -> None:
    project.settings["images"] = {"serving": "vllm/vllm-openai:v9.9.9"}


@obstacle("v6e4", "image-gateway", "haproxy", "gemma4 pin gateway")
def gateway_image_is_gone(project: ReadyProject, tools: set[str]) -> None:
    gone = [name for name in project.registry.images if name.startswith("library/haproxy")]
    project.registry.images = {name: one for name, one in project.registry.images.items() if name not in gone}


@obstacle("l4", "image-staging", "google-cloud-cli:slim does not exist", "infra/catalog/images.toml")
def staging_image_is_gone(project: ReadyProject, tools: set[str]) -> None:
    left = {name: one for name, one in project.registry.images.items() if "cloud-cli" not in name}
    project.registry.images = left


@obstacle(
    "l4", "image-serving", "us-east4-docker.pkg.dev/demo-project/own/vllm", "'gemma4:images.serving' REPOSITORY:TAG"
)
def own_image_is_not_in_artifact_registry(project: ReadyProject, tools: set[str]) -> None:
    project.settings["images"] = {"serving": "us-east4-docker.pkg.dev/demo-project/own/vllm-openai:v0.32.0"}


@obstacle("l4", "model", "is gated: accept the licence", "pulumi config set --secret gemma4:hfToken -s l4")
def gated_model_without_a_token(project: ReadyProject, tools: set[str]) -> None:
    project.hub.gated |= set(project.hub.checkpoints)


@obstacle("v6e4", "model", "there is no revision", "'gemma4:weights.revision' COMMIT -s v6e4")
def revision_that_does_not_exist(project: ReadyProject, tools: set[str]) -> None:
    project.settings["weights"] = {"revision": "0badc0de"}


@obstacle("l4", "model", "wrong, expired or revoked", "pulumi config set --secret gemma4:hfToken -s l4")
def token_that_hugging_face_refuses(project: ReadyProject, tools: set[str]) -> None:
    secret(project, "hf-token", "hf_wrong")
    project.settings["hfTokenSecret"] = "hf-token"


@obstacle("l4", "token", "there is no secret hf-token in project demo-project", "gcloud secrets create hf-token")
def secret_that_does_not_exist(project: ReadyProject, tools: set[str]) -> None:
    project.settings["hfTokenSecret"] = "hf-token"


@obstacle("v6e4", "token", "the secret hf-token has no version", "gcloud secrets versions add hf-token")
def secret_without_a_version(project: ReadyProject, tools: set[str]) -> None:
    secret(project, "hf-token")
    project.settings["hfTokenSecret"] = "hf-token"


@obstacle(
    "l4", "token", "the newest version of hf-token is disabled", "gcloud secrets versions enable 1 --secret hf-token"
)
def token_that_is_disabled(project: ReadyProject, tools: set[str]) -> None:
    secret(project, "hf-token", "hf_right")["state"] = "DISABLED"
    project.settings["hfTokenSecret"] = "hf-token"


@obstacle("l4", "hub-login", "there is no secret docker-token", "gcloud secrets create docker-token")
def docker_login_that_does_not_exist(project: ReadyProject, tools: set[str]) -> None:
    project.settings["images"] = {"dockerHubUser": "my-company", "dockerHubSecret": "docker-token"}


@obstacle("l4", "bucket-content", "gs://filled does not exist", "'gemma4:weights.source' bucket -s l4")
def existing_bucket_that_does_not_exist(project: ReadyProject, tools: set[str]) -> None:
    project.settings["weights"] = {"source": "existing", "bucket": "filled"}


@obstacle("v6e4", "bucket-content", "has no gemma4-manifest.json", "'gemma4:weights.source' bucket -s v6e4")
def bucket_without_a_manifest(project: ReadyProject, tools: set[str]) -> None:
    project.settings["weights"] = {"source": "existing", "bucket": "filled"}
    project.google.storage.put_text("filled", "other.txt", "")


@obstacle("l4", "bucket-content", "1 of 1 files are missing or cut short", "'gemma4:weights.source' bucket -s l4")
def bucket_with_half_a_model(project: ReadyProject, tools: set[str]) -> None:
    project.settings["weights"] = {"source": "existing", "bucket": "filled"}
    fill(project, size=5)


@obstacle("l4", "adapter-sources", "gs://tunes does not exist", "gcloud storage ls gs://tunes")
def adapter_in_a_bucket_that_does_not_exist(project: ReadyProject, tools: set[str]) -> None:
    project.settings["serving"] = {"adapters": {"tone": "gs://tunes/tone"}}


@obstacle("l4", "bucket-name", "is taken, by a project that hides it", f"'gemma4:weights.bucket' {BUCKET}-2 -s l4")
def bucket_name_of_another_project(project: ReadyProject, tools: set[str]) -> None:
    refusal = permission_denied("storage.buckets.get", BUCKET)
    project.google.refuse("GET", f"/storage/v1/b/{BUCKET}", refusal, times=99)


@obstacle("l4", "bucket-name", "belongs to another project", f"'gemma4:weights.bucket' {BUCKET}-2 -s l4")
def bucket_of_another_project_that_is_readable(project: ReadyProject, tools: set[str]) -> None:
    project.google.storage.put_text(BUCKET, "x", "")
    project.google.storage.resources[BUCKET]["projectNumber"] = "1"


@obstacle("l4", "bucket-name", "exists and is not this stack's", "'gemma4:weights.source' existing -s l4")
def bucket_of_the_project_that_is_not_ours(project: ReadyProject, tools: set[str]) -> None:
    project.google.storage.put_text(BUCKET, "x", "")


@obstacle("l4", "bucket-name", "the state of l4 does not know it", f"gcloud storage rm -r gs://{BUCKET}")
def bucket_that_the_state_has_lost(project: ReadyProject, tools: set[str]) -> None:
    project.google.storage.put_text(BUCKET, "x", "")
    project.google.storage.resources[BUCKET]["labels"] = LABELS


@obstacle(
    "l4", "names", "Service gemma4-l4", "gcloud run services delete gemma4-l4 --region us-east4 --project demo-project"
)
def service_of_that_name(project: ReadyProject, tools: set[str]) -> None:
    project.google.run.resources[f"{RUN_L4}/services/gemma4-l4"] = {"labels": {"app": "shop"}}


@obstacle("v6e4", "names", "Account gemma4-v6e4-gate", "gcloud iam service-accounts delete gemma4-v6e4-gate@")
def account_of_that_name(project: ReadyProject, tools: set[str]) -> None:
    email = "gemma4-v6e4-gate@demo-project.iam.gserviceaccount.com"
    name = f"projects/demo-project/serviceAccounts/{email}"
    project.google.iam.resources[name] = {"name": name, "email": email, "uniqueId": "1", "projectId": "demo-project"}


@obstacle(
    "l4",
    "names",
    "Repository gemma4-l4 (this stack's, by its labels)",
    "gcloud artifacts repositories delete gemma4-l4",
)
def repository_that_the_state_has_lost(project: ReadyProject, tools: set[str]) -> None:
    project.google.artifactregistry.resources[f"{RUN_L4}/repositories/gemma4-l4"] = {"labels": LABELS}


@obstacle("v6e4", "names", "Firewall gemma4-v6e4-tpu-gateway", "gcloud compute firewall-rules delete")
def firewall_rule_of_that_name(project: ReadyProject, tools: set[str]) -> None:
    project.google.compute.resources["projects/demo-project/global/firewalls/gemma4-v6e4-tpu-gateway"] = {}


@obstacle(
    "v6e4",
    "slice-names",
    "gemma4-v6e4-blue-b is in us-east5-a and is not",
    "queued-resources delete gemma4-v6e4-blue-b",
)
def queued_resource_of_that_name(project: ReadyProject, tools: set[str]) -> None:
    queue(project, "gemma4-v6e4-blue-b", ZONE, "ACTIVE", app="another")


@obstacle("g4x2", "machine", "us-central1-b does not list g4-standard-96", "gemma4 zones g4x2")
def zone_without_the_gpus(project: ReadyProject, tools: set[str]) -> None:
    project.google.compute.offers = {"us-central1-b": ["g4-standard-48"]}


@obstacle(
    "g4x2", "system-image", "there is no image projects/cos-cloud", "gcloud compute images list --project cos-cloud"
)
def system_image_that_is_gone(project: ReadyProject, tools: set[str]) -> None:
    project.google.compute.images = {"another"}


@obstacle(
    "g4x2", "machine-names", "gemma4-g4x2-blue is in us-central1-b and is not", "instances delete gemma4-g4x2-blue"
)
def machine_of_that_name(project: ReadyProject, tools: set[str]) -> None:
    make_group(session(project.google), {}, labels={"app": "gemma4", "stack": "another"}, name="gemma4-g4x2-blue")
    resources = project.google.compute.resources
    for name in [one for one in resources if "/instances/" not in one]:
        del resources[name]  # a machine that somebody made by hand


@obstacle("g4x2", "quota-gpu-region", "2 GPU needed, 1 GPU in us-central1", "gemma4 zones g4x2")
def gpus_of_the_region(project: ReadyProject, tools: set[str]) -> None:
    limits = project.planned().plan.quotas[0]
    project.google.cloudquotas.set_quota(limits.quota.service, limits.quota.id, "us-central1", 1)


@obstacle("g4x2", "quota-gpu-project", "2 GPU needed, 0 GPU in global", "ask for 2")
def gpus_of_the_project(project: ReadyProject, tools: set[str]) -> None:
    limits = project.planned().plan.quotas[1]
    project.google.cloudquotas.set_quota(limits.quota.service, limits.quota.id, "global", 0)


@obstacle("l4", "pulumi", "no Pulumi CLI on the PATH", "pulumi.com")
def no_pulumi(project: ReadyProject, tools: set[str]) -> None:
    project.pulumi = PulumiState(resources=None, problem="there is no CLI", plugins=())


@obstacle("v6e4", "pulumi", "Pulumi 2.25.0 is older than", "install it")
def old_pulumi(project: ReadyProject, tools: set[str]) -> None:
    project.pulumi = replace(project.pulumi, version="2.25.0")


@obstacle("l4", "pulumi", "pulumi-language-python is not on the PATH", "install it")
def pulumi_without_python(project: ReadyProject, tools: set[str]) -> None:
    tools.discard("pulumi-language-python")


@obstacle("l4", "pulumi", "the state of l4 cannot be read: not signed in", "pulumi login")
def no_state(project: ReadyProject, tools: set[str]) -> None:
    project.pulumi = replace(project.pulumi, resources=None, problem="not signed in", fix="pulumi login")


@obstacle("l4", "docker", "no docker on the PATH", "'gemma4:images.mode' mirror -s l4")
def nothing_to_build_with(project: ReadyProject, tools: set[str]) -> None:
    project.settings["images"] = {"mode": "build"}
    tools.discard("docker")


@pytest.mark.parametrize("one", OBSTACLES, ids=lambda one: str(one.name))
def test_an_obstacle_is_named_with_its_remedy_and_nothing_else_is(made: Made, tools: set[str], one: Obstacle) -> None:
    project = made(one.stack)
    one.plant(project, tools)
    project.google.requests.clear()
    results = project.results()
    found = results[one.check]
    assert (found.state, one.words in found.fact, one.fix in found.fix) == ("failed", True, True), found
    assert found.consequence, "what would have happened"
    assert [name for name, result in results.items() if result.state == "failed"] == [one.check]
    assert project.changes() == []


@pytest.mark.parametrize("stack", ["l4", "rtx6000", "v6e4", "g4x2", "g4x8"])
def test_a_project_without_obstacles_is_green_and_nothing_is_created(made: Made, stack: str) -> None:
    project = made(stack)
    results = project.results()
    assert {name: one for name, one in results.items() if one.state not in ("ok", "not needed")} == {}
    assert project.changes() == []
    assert project.google.unknown == []
    assert project.google.leftovers() == []


def test_a_quota_that_holds_the_stack_and_no_renewal_is_named_and_stops_nothing(made: Made) -> None:
    project = made("v6e4")
    assert "8 chips in us-east5-a, 8 chips in us-east5 at once" in project.results()["quota-renewal"].fact
    project.google.cloudquotas.set_quota("tpu.googleapis.com", FLEX, ZONE, 4)
    results = project.results()
    found = results["quota-renewal"]
    assert (results["quota-chips-zone"].state, found.state) == ("ok", "unknown")
    assert "that takes 8 chips in us-east5-a, which has 4" in found.fact
    assert "ask for more at https://" in found.fix
    (check,) = (one for one in platform_checks(project.planned().plan) if one.id == "quota-renewal")
    assert check.advisory


def test_there_are_enough_obstacles_and_every_check_that_can_fail_has_one(made: Made) -> None:
    checks = {name for stack in ("l4", "v6e4", "g4x2") for name in made(stack).results()}
    never = {"org-members", "plugin", "quota-renewal"}
    """The first is never more than unknown, the others have tests of their own."""
    assert len(OBSTACLES) >= 20
    assert checks - {one.check for one in OBSTACLES} == never


def test_a_plugin_that_may_not_be_downloaded_is_named_and_one_that_is_there_is_not(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = made("l4")
    monkeypatch.setenv("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
    found = project.results()["plugin"]
    version = importlib.metadata.version("pulumi-gcp")
    assert (found.state, found.fix) == ("failed", f"pulumi plugin install resource gcp v{version}")
    project.pulumi = replace(project.pulumi, plugins=[{"name": "gcp", "kind": "resource", "version": version}])
    assert project.results()["plugin"].state == "ok"


def limits(project: ReadyProject) -> Any:
    return project.planned().plan.accelerator.tpu


def queue(project: ReadyProject, name: str, zone: str, state: str, **labels: str) -> None:
    """Put a queued resource of v6e-4 into a zone."""
    own = labels or {"app": "gemma4", "stack": "another", "slice": "blue"}
    full = queue_slice(session(project.google), name, zone=zone, labels=own)
    if state == "ACTIVE":
        quota = FLEX.replace("PerZone", "PerRegion")
        for place, which in ((ZONE, FLEX), (REGION, quota)):
            project.google.cloudquotas.set_quota("tpu.googleapis.com", which, place, 64)
    project.google.tpu.advance(full, to=state)


def secret(project: ReadyProject, name: str, value: str = "") -> dict[str, Any]:
    """Make a secret, with a version where there is a value; return the version."""
    import base64

    from tests.fakes.google.wire import Request

    manager, path = project.google.secretmanager, "projects/demo-project/secrets"
    manager.create(Request("POST", path, {"secretId": name}, {}, b"{}", ""), "demo-project")
    if not value:
        return {}
    body = json.dumps({"payload": {"data": base64.b64encode(value.encode()).decode()}}).encode()
    version: dict[str, Any] = manager.add_version(Request("POST", path, {}, {}, body, ""), "demo-project", name)
    return version


def fill(project: ReadyProject, size: int = 2) -> None:
    """Fill the bucket that the stack reads; the manifest says `size` bytes of its one file, which has two."""
    weights = project.planned().plan.weights[0]
    files = [{"name": "config.json", "size": size}]
    manifest = {"repo": weights.hub_id, "revision": weights.revision, "files": files, "bytes": size}
    put = project.google.storage.put_text
    put("filled", f"{weights.prefix}/gemma4-manifest.json", json.dumps(manifest))
    put("filled", f"{weights.prefix}/config.json", "{}")
