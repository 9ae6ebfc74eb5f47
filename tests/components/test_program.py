"""The real program, run for every shipped stack under the recording monitor: what holds for all of its resources.

The tests know no component by name. Whatever a stack registers must have an owner, a name, labels, no way in for the
public and no secret in clear.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pulumi.runtime import mocks

from infra.catalog import Catalog, Lock, catalog
from infra.components.shared.private_service import mark_of
from infra.ops.program import REDACTED, Registration, Run, run_program
from infra.planning.gateway.members import READY_PORT
from infra.planning.names import names_of
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.platforms.cloud_run.instances import InstancesPlan
from infra.planning.server.command import PORT
from infra.planning.settings.stackfile import read_stack, stack_names
from infra.providers.serving_check import expectation
from infra.serving.planned_expectation import planned_expectation
from tests.projects import ROOT, Capture, command

PROJECT = "my-project"
STACK = "pulumi:pulumi:Stack"
COMPONENT = "gemma4:components:"
DYNAMIC = "pulumi-python:dynamic/"
PLANS = [make_plan(name, read_stack(ROOT, name).settings, project=PROJECT) for name in stack_names(ROOT)]
BUILT = [plan.stack for plan in PLANS if plan.accelerator.deployable]
TOKEN = "hf_" + "Zz9Y" * 8
CLOUD_NAMES = ("name", "accountId", "repositoryId", "secretId", "queued_id", "node_id")
EVERYBODY = ("allUsers", "allAuthenticatedUsers")
SERVER_PORTS = {str(PORT + number) for number in range(8)}
"""Of as many servers as a machine can run."""
EXPECTED_OF_A_CHECK = {
    "audio",
    "image",
    "max_model_len",
    "model",
    "prompt_tokens",
    "reasoning",
    "spec_hash",
    "tools",
    "video",
    "vllm_version",
}
"""What the state of stacks holds that use neither adapters nor the questions of serving.evaluation."""


def known_outputs(args: mocks.MockResourceArgs) -> dict[str, Any]:
    """What Google would answer, as far as the program reads it."""
    email = f"{args.inputs.get('accountId', args.name)}@{PROJECT}.iam.gserviceaccount.com"
    return {
        "email": email,
        "member": f"serviceAccount:{email}",
        "uniqueId": f"1{len(email):020d}",
        "name": args.inputs.get("name", args.name),
        "uri": f"https://{args.name}.example.run.app",
        "latestReadyRevision": f"{args.name}-00001",
        "selfLink": f"https://example.com/{args.name}",
        "address": "10.8.0.2",
        "instance": "1234567890",
        "created": "2026-11-21T00:00:00Z",
        "repoDigest": "example.com/image@sha256:" + "0c" * 32,
    }


def config_of(name: str, **settings: Any) -> dict[str, Any]:
    """A shipped stack's configuration with whole settings laid over it."""
    file = read_stack(ROOT, name)
    return {"gcp:project": PROJECT} | {f"gemma4:{key}": value for key, value in {**file.settings, **settings}.items()}


@cache
def run(name: str, preview: bool = True) -> Run:
    return run_program(ROOT, name, config_of(name), preview=preview, outputs=None if preview else known_outputs)


def run_with(name: str, **settings: Any) -> Run:
    return run_program(ROOT, name, config_of(name, **settings))


ONE_EACH = list(
    {plan.accelerator.platform: plan.stack for plan in reversed(PLANS) if plan.accelerator.deployable}.values()
)
"""A stack of each platform, for what differs between platforms only."""


def children(ran: Run) -> list[Registration]:
    """Everything but the stack and its components."""
    return [item for item in ran.resources if item.type != STACK and not item.type.startswith(COMPONENT)]


def of_type(ran: Run, kind: str) -> list[Registration]:
    return [item for item in ran.resources if item.type.endswith(kind)]


def values(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every leaf of nested inputs with the keys that lead to it."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from values(value, (*path, str(key)))
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from values(value, path)
    else:
        yield path, tree


@cache
def takes(kind: str, argument: str) -> bool:
    """Whether the SDK's class of a resource type, such as gcp:storage/bucket:Bucket, has that argument."""
    match = re.fullmatch(r"gcp:(\w+)/\w+:(\w+)", kind)
    if match is None:
        return False
    cls = getattr(importlib.import_module(f"pulumi_gcp.{match[1]}"), match[2])
    return argument in inspect.signature(cls._internal_init).parameters


stacks = pytest.mark.parametrize("name", BUILT)
platforms = pytest.mark.parametrize("name", ONE_EACH)
both = pytest.mark.parametrize("preview", [True, False], ids=["preview", "up"])


def permissions(role: Registration) -> list[str]:
    found: list[str] = role.inputs["permissions"]
    assert found
    return found


@stacks
@both
class TestEveryResource:
    def test_the_run_ends_well_and_registers_more_than_components(self, name: str, preview: bool) -> None:
        ran = run(name, preview)
        assert ran.exit_code == 0
        assert len(children(ran)) > 10
        assert [item.type for item in ran.resources].count(STACK) == 1

    def test_it_belongs_to_a_component_and_components_to_the_stack(self, name: str, preview: bool) -> None:
        ran = run(name, preview)
        owners = {item.urn: item for item in ran.resources}
        for item in ran.resources:
            if item.type == STACK:
                assert not item.parent
            elif item.type.startswith(COMPONENT):
                assert owners[item.parent].type == STACK
            else:
                assert owners[item.parent].type.startswith(COMPONENT), item.name

    def test_it_is_named_after_a_component_and_once(self, name: str, preview: bool) -> None:
        ran = run(name, preview)
        components = [item.name for item in ran.resources if item.type.startswith(COMPONENT)]
        for item in children(ran):
            assert any(item.name.startswith(f"{component}-") for component in components), item.name
        names = [(item.type, item.name) for item in ran.resources]
        assert len(names) == len(set(names))

    def test_its_name_in_the_cloud_carries_the_stack(self, name: str, preview: bool) -> None:
        names = names_of(name, PROJECT, None)
        mine = (names.prefix, names.bucket)
        for item in children(run(name, preview)):
            for key in CLOUD_NAMES:
                value = item.inputs.get(key)
                if isinstance(value, str) and "IAM" not in item.type and "Iam" not in item.type:
                    assert value.startswith((*mine, ".", "[unknown]")), f"{item.name}: {key} {value}"

    def test_it_carries_the_labels_wherever_there_is_a_place_for_them(self, name: str, preview: bool) -> None:
        labels = {"app": "gemma4", "stack": name, "managed-by": "pulumi"}
        labelled = [
            item for item in children(run(name, preview)) if takes(item.type, "labels") or "labels" in item.inputs
        ]
        assert len(labelled) >= 3
        for item in labelled:
            assert labels.items() <= item.inputs.get("labels", {}).items(), item.name

    def test_it_opens_nothing_to_the_public(self, name: str, preview: bool) -> None:
        for item in children(run(name, preview)):
            for path, value in values(item.inputs):
                assert value not in EVERYBODY, item.name
                assert not (path[-1:] == ("invokerIamDisabled",) and value), item.name
                assert path[-1:] not in (("natIp",), ("accessConfigs",)), item.name
                assert not (re.search("external_?ip", "".join(path), re.IGNORECASE) and value), f"{item.name} {path}"
            if item.type.endswith(":Firewall") and item.inputs.get("direction", "INGRESS") == "INGRESS":
                ranges = item.inputs.get("sourceRanges")
                assert ranges, f"{item.name} has no source range: everybody"
                assert not {"0.0.0.0/0", "::/0"} & set(ranges), item.name
                (allowed,) = item.inputs["allows"]
                assert allowed["protocol"] == "tcp", item.name
                (gateway,) = [one for one in of_type(run(name, preview), ":Subnetwork") if one.name == "network-subnet"]
                own = [gateway.inputs["ipCidrRange"]]
                known = {*SERVER_PORTS, str(READY_PORT)} if ranges == own else {str(READY_PORT)}
                assert set(allowed["ports"]) <= known, f"{item.name} lets more in"
            if item.type.endswith("storage/bucket:Bucket"):
                assert item.inputs["publicAccessPrevention"] == "enforced"
                assert item.inputs["uniformBucketLevelAccess"] is True

    def test_no_grant_is_wider_than_its_purpose(self, name: str, preview: bool) -> None:
        for item in children(run(name, preview)):
            role = item.inputs.get("role", "")
            assert not re.search(r"roles/(owner|editor|viewer)$|[aA]dmin$", role), f"{item.name}: {role}"
            if item.type.endswith(":IAMCustomRole"):  # the one role that no predefined one is small enough for
                assert all(
                    re.match(r"dns\.(changes|managedZones|resourceRecordSets)\.", one) for one in permissions(item)
                )
                assert not [one for one in permissions(item) if re.search(r"managedZones\.(?!get$)|[iI]am", one)]
            elif "projects/iAM" in item.type:
                assert role == "roles/logging.logWriter", f"{item.name} grants {role} on the whole project"

    def test_whoever_calls_needs_run_invoker(self, name: str, preview: bool) -> None:
        services = of_type(run(name, preview), "cloudrunv2/service:Service")
        assert services
        grants = of_type(run(name, preview), ":ServiceIamMember")
        assert {item.inputs["role"] for item in grants} == {"roles/run.invoker"}

    def test_a_dynamic_one_shows_its_progress_on_its_own_row(self, name: str, preview: bool) -> None:
        dynamic = [item for item in children(run(name, preview)) if item.type.startswith(DYNAMIC)]
        assert dynamic
        assert {item.inputs["urn"] for item in dynamic} == {item.urn for item in dynamic}


class TestComponents:
    @stacks
    def test_every_one_ends_with_its_outputs(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        ended: list[str] = []
        told: Callable[..., Any] = mocks.MockMonitor.RegisterResourceOutputs

        def register(self: mocks.MockMonitor, request: Any) -> Any:
            ended.append(request.urn)
            return told(self, request)

        monkeypatch.setattr(mocks.MockMonitor, "RegisterResourceOutputs", register)
        ran = run_with(name)
        components = [item.urn for item in ran.resources if item.type.startswith(COMPONENT)]
        assert sorted(urn for urn in ended if urn in components) == sorted(components)


class TestTheList:
    @stacks
    def test_of_a_plan_is_what_the_program_registers(self, name: str, capsys: Capture) -> None:
        data = command(capsys)("plan", name, "--json").data
        listed = sorted((row["type"], row["name"]) for row in data["resources"])
        assert listed == sorted((item.type, item.name) for item in run(name).resources)
        assert data["resourcesMissing"] == ""

    @stacks
    def test_is_the_same_in_a_preview_and_in_an_up(self, name: str) -> None:
        previewed, upped = (
            sorted((item.type, item.name) for item in run(name, preview).resources) for preview in (True, False)
        )
        assert previewed == upped


class TestTheToken:
    @platforms
    @both
    def test_stands_nowhere_in_clear(self, name: str, preview: bool) -> None:
        config = config_of(name, hfToken={"secure": TOKEN})
        ran = run_program(ROOT, name, config, preview=preview, outputs=None if preview else known_outputs)
        assert TOKEN not in repr(ran)
        held = [path for item in ran.resources for path, value in values(item.inputs) if value == REDACTED]
        assert held == [("secretData",)]

    @platforms
    def test_is_read_by_the_one_account_that_needs_it(self, name: str) -> None:
        ran = run_program(ROOT, name, config_of(name, hfToken={"secure": TOKEN}), preview=False, outputs=known_outputs)
        readers = [item for item in of_type(ran, ":SecretIamMember") if item.inputs["role"].endswith("secretAccessor")]
        assert len(readers) == 1
        assert names_of(name, PROJECT, None).stager in readers[0].inputs["member"]

    @platforms
    def test_of_an_existing_secret_creates_none(self, name: str) -> None:
        ran = run_with(name, hfTokenSecret="hf-token")
        assert of_type(ran, "secretmanager/secret:Secret") == []
        assert len(of_type(ran, ":SecretIamMember")) == 1


class TestDockerHub:
    """The mirror pulls as an account where one is named; its token is Artifact Registry's to read, and nobody else's."""

    IMAGES: ClassVar[dict[str, Any]] = {"dockerHubUser": "my-company", "dockerHubSecret": "docker-hub-token"}

    @platforms
    @both
    def test_an_account_is_the_repository_s_with_its_token_by_reference(self, name: str, preview: bool) -> None:
        outputs = None if preview else known_outputs
        ran = run_program(ROOT, name, config_of(name, images=self.IMAGES), preview=preview, outputs=outputs)
        assert ran.exit_code == 0
        (repository,) = of_type(ran, "artifactregistry/repository:Repository")
        version = f"projects/{PROJECT}/secrets/docker-hub-token/versions/latest"
        assert repository.inputs["remoteRepositoryConfig"]["upstreamCredentials"] == {
            "usernamePasswordCredentials": {"username": "my-company", "passwordSecretVersion": version}
        }

    @platforms
    def test_google_s_agent_may_read_it_before_the_repository_is_made(self, name: str) -> None:
        config = config_of(name, images=self.IMAGES)
        ran = run_program(ROOT, name, config, preview=False, outputs=known_outputs)
        (repository,) = of_type(ran, "artifactregistry/repository:Repository")
        (agent,) = of_type(ran, ":ServiceIdentity")
        (grant,) = of_type(ran, ":SecretIamMember")
        assert agent.inputs["service"] == "artifactregistry.googleapis.com"
        assert grant.inputs["member"] == known_outputs(agent)["member"]  # type: ignore[arg-type]
        assert grant.inputs["secretId"] == f"projects/{PROJECT}/secrets/docker-hub-token"
        assert grant.inputs["role"] == "roles/secretmanager.secretAccessor"
        assert grant.urn in repository.depends_on
        waits = [item for item in of_type(ran, ":GrantPropagation") if item.urn in repository.depends_on]
        assert {grant.urn, agent.urn} <= set(waits[0].depends_on)
        assert "secretmanager.googleapis.com" in {
            item.inputs["service"] for item in of_type(ran, "projects/service:Service")
        }

    @platforms
    def test_another_project_s_secret_is_named_in_full(self, name: str) -> None:
        full = "projects/shared/secrets/docker-hub-token"
        ran = run_with(name, images={**self.IMAGES, "dockerHubSecret": full})
        (grant,) = of_type(ran, ":SecretIamMember")
        assert grant.inputs["secretId"] == full

    @platforms
    def test_without_an_account_it_pulls_as_nobody(self, name: str) -> None:
        ran = run(name)
        (repository,) = of_type(ran, "artifactregistry/repository:Repository")
        assert "upstreamCredentials" not in repository.inputs["remoteRepositoryConfig"]
        assert of_type(ran, ":ServiceIdentity") == []


class TestNewGrants:
    """What a job, a server or a machine may do must count before it starts, not only be granted."""

    WAYS: ClassVar[tuple[dict[str, Any], ...]] = (
        {},
        {"weights": {"source": "existing", "bucket": "theirs"}},
        {"weights": {"source": "huggingface"}, "hfTokenSecret": "hf-token"},
    )

    @platforms
    @pytest.mark.parametrize("settings", WAYS, ids=["bucket", "existing", "huggingface"])
    def test_have_had_their_time_before_what_uses_them(self, name: str, settings: dict[str, Any]) -> None:
        ran = run_program(ROOT, name, config_of(name, **settings), preview=False, outputs=known_outputs)
        by_urn = {item.urn: item for item in ran.resources}

        def before(item: Registration) -> set[str]:
            return {urn for direct in item.depends_on for urn in (direct, *before(by_urn[direct]))}

        names = names_of(name, PROJECT, None)
        jobs = [("stager", item) for item in of_type(ran, "cloudrunv2/job:Job")]
        machines = of_type(ran, ":TpuQueuedResource") or of_type(ran, ":RegionPerInstanceConfig")
        servers = machines or of_type(ran, "cloudrunv2/service:Service")
        users = jobs + [("server" if ":Service" in item.type else "machines", item) for item in servers]
        assert users
        for role, user in users:
            waits = [by_urn[urn] for urn in before(user) if by_urn[urn].type.endswith(":GrantPropagation")]
            account = names.stager if role == "stager" else names.prefix
            email = f"serviceAccount:{names.email(account)}"
            own = {item.urn for item in children(ran) if item.inputs.get("member") == email}
            given = {urn for wait in waits if wait.name.endswith((role, "members")) for urn in wait.depends_on}
            assert any(wait.name.endswith(role) for wait in waits), user.name
            assert own - {urn for urn in own if "weights-reader" in urn and role == "machines"} <= given

    @platforms
    @pytest.mark.parametrize(("written", "seconds"), [("90s", 90), ("0s", 0), (None, 120)])
    def test_get_the_time_that_was_set(self, name: str, written: str | None, seconds: int) -> None:
        waits = of_type(run_with(name, **({"access": {"settleTime": written}} if written else {})), ":GrantPropagation")
        assert waits
        assert {item.inputs["settle_s"] for item in waits} == {seconds}


class TestTimeoutsAndProtection:
    @stacks
    def test_pulumi_waits_longer_for_a_service_than_its_probe_does(self, name: str) -> None:
        for item in of_type(run(name), "cloudrunv2/service:Service"):
            for container in item.inputs["template"]["containers"]:
                probe = container.get("startupProbe")
                assert probe is not None, item.name
                window = probe.get("initialDelaySeconds", 0) + probe["periodSeconds"] * probe["failureThreshold"]
                if window >= 20 * 60 or item.timeouts:  # Pulumi's own time-out is 20 minutes
                    assert all(int(value.removesuffix("m")) * 60 >= window for value in item.timeouts.values())
                    assert {"create", "update"} <= set(item.timeouts)

    @platforms
    def test_a_service_takes_requests_as_long_as_set(self, name: str) -> None:
        service = of_type(run_with(name, scaling={"requestTimeout": "10m"}), "cloudrunv2/service:Service")[0]
        assert service.inputs["template"]["timeout"] == "600s"

    @platforms
    def test_a_service_is_protected_as_set(self, name: str) -> None:
        for wanted in (False, True):
            services = of_type(run_with(name, deletionProtection=str(wanted).lower()), "cloudrunv2/service:Service")
            assert services
            assert {item.inputs["deletionProtection"] for item in services} == {wanted}

    @platforms
    def test_weights_are_protected_as_set(self, name: str) -> None:
        for wanted in (False, True):
            bucket = of_type(run_with(name, weights={"protect": wanted}), "storage/bucket:Bucket")[0]
            assert (bucket.protect, bucket.inputs["forceDestroy"]) == (wanted, not wanted)

    def test_nothing_else_is_protected(self) -> None:
        assert [item.name for name in BUILT for item in run(name).resources if item.protect] == []


class TestTheRevisionOfAService:
    @stacks
    def test_is_watched_beside_the_service_and_by_the_same_mark(self, name: str) -> None:
        ran = run(name, preview=False)
        (service,) = of_type(ran, "cloudrunv2/service:Service")
        (watch,) = of_type(ran, "gemma4:RevisionWatch")
        (retry,) = of_type(ran, "gemma4:RevisionRetry")
        assert re.fullmatch("[0-9a-f]{16}", watch.inputs["mark"])
        assert service.inputs["template"]["annotations"] == {"gemma4-revision": watch.inputs["mark"]}
        assert service.urn not in watch.depends_on
        assert not [item.name for item in ran.resources if watch.urn in item.depends_on], "nothing waits for a watch"
        assert retry.urn in service.depends_on
        assert set(service.depends_on) <= set(watch.depends_on), "it must not look for what is not asked for yet"
        assert {one.inputs["service"] for one in (watch, retry)} == {service.inputs["name"]}

    @stacks
    def test_is_waited_for_as_long_as_pulumi_waits_for_the_service(self, name: str) -> None:
        (service,) = of_type(run(name), "cloudrunv2/service:Service")
        (watch,) = of_type(run(name), "gemma4:RevisionWatch")
        assert watch.inputs["timeout_s"] == int(service.timeouts.get("create", "20m").removesuffix("m")) * 60

    @platforms
    def test_is_another_one_for_another_template_and_for_nothing_else(self, name: str) -> None:
        def mark(**settings: Any) -> str:
            ran = run_program(ROOT, name, config_of(name, **settings), preview=False, outputs=known_outputs)
            (watch,) = of_type(ran, "gemma4:RevisionWatch")
            return str(watch.inputs["mark"])

        usual = mark()
        assert mark() == usual
        assert mark(access={"invokers": ["group:ml@example.com"]}) == usual
        assert mark(deletionProtection="true") == usual
        assert mark(scaling={"requestTimeout": "10m"}) != usual

    def test_is_another_one_after_another_failure(self) -> None:
        template = {"containers": [{"image": "img"}]}
        assert mark_of(template, None) == mark_of(template, "")
        assert len({mark_of(template, after) for after in ("", "l4-00001-abc", "l4-00002-abc")}) == 3


@pytest.fixture
def filled_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = catalog()
    models = dict.fromkeys((*facts.models, *facts.assistants), "0b" * 20)
    images = dict.fromkeys(facts.images, "sha256:" + "0a" * 32)
    monkeypatch.setattr(Catalog, "lock", Lock(images=images, models=models))


class TestPinning:
    @platforms
    @pytest.mark.usefixtures("filled_lock")
    def test_with_a_filled_lock_no_image_is_named_by_a_tag(self, name: str) -> None:
        ran = run_with(name, images={"requirePinned": True})
        assert ran.exit_code == 0
        texts = [value for item in ran.resources for _, value in values(item.inputs) if isinstance(value, str)]
        tags = {f"{image.repository}:{image.tag}" for image in catalog().images.values()}
        assert [text for text in texts if any(tag in text for tag in tags)] == []
        assert len({text for text in texts if "@sha256:" + "0a" * 32 in text}) >= 2

    @platforms
    def test_with_an_empty_lock_it_refuses(self, name: str) -> None:
        ran = run_with(name, images={"requirePinned": True})
        assert ran.exit_code == 32
        assert "images.requirePinned: is set, and these are not pinned" in ran.messages[-1]


class TestARefusal:
    @pytest.mark.parametrize(
        ("name", "settings", "said"),
        [
            ("l4", {"region": "europe-north1"}, "region: europe-north1 is not known to offer 1x NVIDIA L4"),
            ("l4", {"regoin": "us-east4"}, "regoin: no such setting. It would have no effect. Did you mean region?"),
            ("v6e4", {"tpu": {"maxRunDuration": "8d"}}, "tpu.maxRunDuration: 8d is outside what flex-start takes"),
            ("l4", {"hfToken": TOKEN}, "hfToken: is written in clear."),
        ],
    )
    def test_is_one_line_of_error_and_nothing_is_registered(
        self, name: str, settings: dict[str, Any], said: str
    ) -> None:
        ran = run_with(name, **settings)
        assert ran.exit_code == 32
        assert [item.type for item in ran.resources] == [STACK]
        assert len(ran.messages) == 1
        assert ran.messages[0].startswith(f"error: {said}")
        assert len(ran.messages[0].splitlines()) == 1
        assert TOKEN not in ran.messages[0]

    @pytest.mark.parametrize(
        "body",
        [
            {"gemma4:serving.maxModelLen": "4096", "gemma4:serving": {"maxNumSeqs": 7}},
            {"gemma4:serving.maxModelLen": 4096, "gemma4:serving": {"maxModelLen": 8192}},
            {"gemma4:serving": '{"maxModelLen": 4096'},
            {"gemma4:serving": '{"maxModelLen": 4096}'},
            {"gemma4:serving.maxModelLen": "true"},
            {"gemma4:serving": {"maxModelLen": True}},
            {"gemma4:tpu.slices": '["blue", "blue"]'},
            {"gemma4:region": {"secure": "AAABADr0"}},
            {"gemma4:serving.maxModelLen.tokens": "4096", "gemma4:regoin": "x"},
            {"gema4:region": "us-east4"},
        ],
        ids=lambda body: ",".join(body),
    )
    def test_and_the_plan_of_the_same_file_say_the_same(
        self, body: dict[str, Any], capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config = {
            "gemma4:model": "gemma-4-12b-it-qat-w4a16",
            "gemma4:accelerator": "l4",
            "gcp:project": "p1234",
            **body,
        }
        (tmp_path / "Pulumi.yaml").write_text("name: gemma4\nruntime: python\n", "utf-8")
        (tmp_path / "Pulumi.mine.yaml").write_text(json.dumps({"config": config}), "utf-8")
        monkeypatch.chdir(tmp_path)
        answer = command(capsys)("plan", "mine", "--full", "--no-resources")
        ran = run_program(ROOT, "mine", config)
        if answer.code == 0:
            (said,) = ran.messages
            assert f"info: {answer.out}".startswith(said.rstrip())  # what follows is for whoever types the command
        else:
            said = "\n".join(line.removeprefix("  ") for line in answer.err.splitlines()[1:])
            assert (answer.code, ran.exit_code, ran.messages) == (2, 32, (f"error: {said}",))

    def test_says_the_same_as_the_plan_does(self, capsys: Capture) -> None:
        answer = command(capsys)("plan", "l4", "--no-resources", "--json", "--set", "region=europe-north1")
        assert run_with("l4", region="europe-north1").messages == tuple(
            f"error: {said}" for said in answer.faults("refusals")
        )


class TestWhatTheProgramSays:
    @stacks
    def test_a_preview_shows_the_plan_and_an_up_does_not(self, name: str) -> None:
        assert "Capacity" in run(name).messages[0]
        assert run(name, preview=False).messages == ()

    @platforms
    def test_the_process_is_left_as_it_was(self, name: str) -> None:
        import os
        import signal
        import sys

        before = (os.getcwd(), list(sys.path), signal.getsignal(signal.SIGINT))
        run_with(name)
        assert (os.getcwd(), list(sys.path), signal.getsignal(signal.SIGINT)) == before


class TestOptionsOfAStack:
    def test_callers_are_let_in_and_deployers_may_check(self) -> None:
        access = {"invokers": ["group:ml@example.com"], "deployers": ["user:me@example.com"]}
        ran = run_with("l4", access=access)
        callers = [item.inputs["member"] for item in of_type(ran, ":ServiceIamMember")]
        assert "group:ml@example.com" in callers
        deployers = [item.inputs for item in of_type(ran, "serviceaccount/iAMMember:IAMMember")]
        assert [(item["member"], item["role"]) for item in deployers] == [
            ("user:me@example.com", "roles/iam.serviceAccountOpenIdTokenCreator")
        ]

    @platforms
    def test_a_check_waits_for_the_grants_of_its_deployers(self, name: str) -> None:
        ran = run_with(name, access={"deployers": ["user:me@example.com"]})
        (grant,) = of_type(ran, "serviceaccount/iAMMember:IAMMember")
        checks = of_type(ran, ":ServingCheck")
        assert checks
        assert all(grant.urn in check.depends_on for check in checks)

    @platforms
    def test_taking_one_member_out_leaves_every_other_grant_alone(self, name: str) -> None:
        """A grant that moved to another member's name would be replaced, and its old member's right deleted."""
        ann, ben = "group:ann@example.com", "serviceAccount:ben@my-project.iam.gserviceaccount.com"
        many, fewer = (
            grants(run_with(name, access={"invokers": members, "deployers": members}))
            for members in ([ann, ben], [ben])
        )
        gone = {key for key, inputs in many.items() if inputs["member"] == ann}
        assert len(gone) == 2
        assert fewer == {key: inputs for key, inputs in many.items() if key not in gone}
        assert grants(run_with(name, access={"invokers": [ben, ann], "deployers": [ben, ann]})) == many

    @platforms
    def test_a_member_written_twice_and_the_stacks_own_account_are_granted_once(self, name: str) -> None:
        own = f"serviceAccount:{names_of(name, PROJECT, None).email(names_of(name, PROJECT, None).invoker)}"
        members = ["user:ann@example.com", "user:Ann@example.com", "user:ann@example.com", own]
        once, twice = (
            grants(run_with(name, access={"invokers": listed})) for listed in (["user:ann@example.com"], members)
        )
        assert twice == once

    def test_somebody_elses_bucket_is_read_and_never_managed(self) -> None:
        ran = run_with("l4", weights={"source": "existing", "bucket": "theirs"})
        assert of_type(ran, "storage/bucket:Bucket") == []
        assert of_type(ran, "cloudrunv2/job:Job") == []
        grants = of_type(ran, "storage/bucketIAMMember:BucketIAMMember")
        assert [(item.inputs["bucket"], item.inputs["role"]) for item in grants] == [
            ("theirs", "roles/storage.objectViewer")
        ]

    @platforms
    def test_the_copy_of_the_weights_is_repeated_by_who_knows_why_it_failed(self, name: str) -> None:
        (job,) = of_type(run(name), "cloudrunv2/job:Job")
        assert job.inputs["template"]["template"]["maxRetries"] == 0

    def test_a_check_asks_questions_only_where_somebody_wants_them_and_else_expects_what_it_always_did(self) -> None:
        """A key more would check every server again that passed before."""
        (usual,) = (item.inputs["expected"] for item in of_type(run("l4"), f"{DYNAMIC}gemma4:ServingCheck"))
        assert set(usual) == EXPECTED_OF_A_CHECK
        ran = run_with("l4", serving={"evaluation": True})
        (wanted,) = (item.inputs["expected"] for item in of_type(ran, f"{DYNAMIC}gemma4:ServingCheck"))
        assert wanted == {
            **usual,
            "evaluated_as": next(plan for plan in PLANS if plan.stack == "l4").model.architecture,
        }

    def test_each_adapter_is_copied_before_the_server_and_its_own_bucket_may_be_read_by_the_job_alone(self) -> None:
        adapters = {"tone": "my-org/tone@0123abc", "sql": "gs://training/sql"}
        ran = run_with("l4", serving={"adapters": adapters})
        assert ran.exit_code == 0
        copies = {item.name: item.inputs for item in of_type(ran, f"{DYNAMIC}gemma4:WeightsCopy")}
        tone, sql = copies["weights-adapter-tone"], copies["weights-adapter-sql"]
        assert (tone["repository"], tone["prefix"]) == ("my-org/tone", "my-org/tone/0123abc")
        assert (sql["repository"], sql["prefix"]) == ("gs://training/sql", "adapters/training/sql")
        for one in (tone, sql):
            asked = dict(zip(one["arguments"][::2], one["arguments"][1::2], strict=True))
            assert asked["--repo"] == one["repository"]
            assert asked["--destination"].endswith(one["prefix"])
            assert (asked["--adapter-rank"], asked["--adapter-base"]) == ("16", "gemma-4-12b")
        grants = of_type(ran, "storage/bucketIAMMember:BucketIAMMember")
        (job_writes,) = (item.inputs["member"] for item in grants if item.inputs["role"].endswith("objectUser"))
        of_source = [item.inputs for item in grants if item.inputs["bucket"] == "training"]
        assert of_source == [{"bucket": "training", "role": "roles/storage.objectViewer", "member": job_writes}]
        (asked_for,) = (item.inputs["expected"] for item in of_type(ran, f"{DYNAMIC}gemma4:ServingCheck"))
        assert asked_for["adapters"] == ["tone", "sql"]
        (service,) = of_type(ran, "cloudrunv2/service:Service")
        container = service.inputs["template"]["containers"][0]
        assert "tone=/mnt/weights/my-org/tone/0123abc" in container["args"]
        assert {name for name in copies if "adapter" in name} <= {urn.rsplit("::", 1)[-1] for urn in service.depends_on}

    @pytest.mark.parametrize("plan", [plan for plan in PLANS if plan.stack in ONE_EACH], ids=lambda plan: plan.stack)
    def test_a_check_on_demand_expects_what_the_check_of_an_up_expects(self, plan: Plan) -> None:
        checks = of_type(run(plan.stack), f"{DYNAMIC}gemma4:ServingCheck")
        assert {expectation(check.inputs) for check in checks} == {planned_expectation(plan)}

    def test_an_adapter_of_two_names_is_copied_once(self) -> None:
        ran = run_with("l4", serving={"adapters": {"tone": "my-org/tone@0123abc", "voice": "my-org/tone@0123abc"}})
        copies = [item.name for item in of_type(ran, f"{DYNAMIC}gemma4:WeightsCopy")]
        assert [name for name in copies if "adapter" in name] == ["weights-adapter-tone"]

    def test_an_adapter_in_an_existing_bucket_is_only_looked_at(self) -> None:
        weights = {"source": "existing", "bucket": "theirs"}
        ran = run_with("l4", weights=weights, serving={"adapters": {"sql": "gs://theirs/loras/sql"}})
        assert ran.exit_code == 0
        (copy,) = (item for item in of_type(ran, f"{DYNAMIC}gemma4:WeightsCopy") if "adapter" in item.name)
        assert (copy.inputs["job"], copy.inputs["prefix"]) == ("", "loras/sql")
        assert {item.inputs["bucket"] for item in of_type(ran, "storage/bucketIAMMember:BucketIAMMember")} == {"theirs"}

    def test_a_download_at_start_needs_no_bucket(self) -> None:
        ran = run_with("l4", weights={"source": "huggingface"}, hfTokenSecret="hf-token")
        assert ran.exit_code == 0
        assert [item for item in ran.resources if "storage/" in item.type] == []
        container = of_type(ran, "cloudrunv2/service:Service")[0].inputs["template"]["containers"][0]
        token = next(entry for entry in container["envs"] if entry["name"] == "HF_TOKEN")
        assert "value" not in token
        assert token["valueSource"]["secretKeyRef"]["version"] == "latest"

    def test_the_service_runs_the_plans_command_and_environment(self) -> None:
        for plan in (plan for plan in PLANS if isinstance(plan.deployment, InstancesPlan)):
            container = of_type(run(plan.stack), "cloudrunv2/service:Service")[0].inputs["template"]["containers"][0]
            words = [*container["commands"], *container["args"]]
            assert words == [*plan.command.wrapper, *plan.command.argv]
            assert container["commands"] == ["bash"]
            assert {entry["name"]: entry["value"] for entry in container["envs"]} == dict(plan.command.env)
            assert isinstance(plan.deployment, InstancesPlan)
            assert container["resources"]["limits"]["memory"] == f"{plan.deployment.memory_gib}Gi"

    def test_a_slice_carries_the_plans_command(self) -> None:
        for plan in (plan for plan in PLANS if plan.zone is not None and plan.accelerator.deployable):
            sent = [value for item in children(run(plan.stack)) for _, value in values(item.inputs.get("metadata", {}))]
            told = [word for text in sent if isinstance(text, str) for _, word in values(parsed(text))]
            everywhere = {"0.0.0.0"}  # on a machine in the VPC, its own address there stands instead
            assert set(plan.command.argv[2:]) - everywhere <= set(told)


def grants(ran: Run) -> dict[str, Mapping[str, Any]]:
    """Every grant of a run by its name, with what it grants to whom."""
    return {item.name: item.inputs for item in ran.resources if "member" in item.inputs}


def parsed(text: str) -> Any:
    """JSON, or nothing where a text is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None
