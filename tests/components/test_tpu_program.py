"""The real program for TPU stacks: the exact request, who may reach whom, and what a changed flag touches."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime import mocks

from containers.supervisor.gemma4_supervisor.desired_spec import parse_spec
from infra.google.logs import LogSource
from infra.google.tpu_types import queued_resource_body
from infra.ops.program import REDACTED, Registration, Run, run_program
from infra.planning.gateway.limits import MOST_INSTANCES
from infra.planning.gateway.members import READY_PORT
from infra.planning.settings.cidr import neighbour
from infra.planning.settings.declarations import MOST_CONCURRENCY
from infra.planning.settings.stackfile import read_stack
from infra.providers import tpu_queued_resource
from infra.providers.slice_submission import slice_request
from tests.projects import ROOT

PROJECT = "my-project"
TOKEN = "hf_" + "Zz9Y" * 8
STACKS = ("v6e1", "v6e4", "v6e4-31b", "v6e8")
TWO: dict[str, Any] = {"tpu": {"slices": ["blue", "green"]}}
HUB: dict[str, Any] = {"weights": {"source": "huggingface"}, "hfTokenSecret": "hf-token"}


def known_outputs(args: mocks.MockResourceArgs) -> dict[str, Any]:
    """What Google would answer; the green slice still waits for capacity."""
    email = f"{args.inputs.get('accountId', args.name)}@{PROJECT}.iam.gserviceaccount.com"
    waits = "green" in args.name
    role, own = args.inputs.get("roleId"), {"member": f"serviceAccount:{email}"}
    if args.typ.endswith(":TpuNode"):
        host = f"{args.inputs['labels']['slice']}-a"
        own = {"member": host, "node_id": f"gemma4-v6e4-{host}"}
    return {
        **own,
        **({"name": f"projects/{PROJECT}/roles/{role}"} if role else {}),
        "email": email,
        "uniqueId": "1" + "0" * 20,
        "uri": "https://gateway.example.run.app",
        "address": "" if waits else "10.8.0.66",
        "instance": "" if waits else "1234567890",
        "ticket": "1f2e3d4c" * 4,
        "repoDigest": "example.com/image@sha256:" + "0c" * 32,
    }


def run(name: str = "v6e4", **settings: Any) -> Run:
    file = read_stack(ROOT, name)
    config = {f"gemma4:{key}": value for key, value in {**file.settings, **settings}.items()}
    return run_program(ROOT, name, {"gcp:project": PROJECT, **config}, preview=False, outputs=known_outputs)


@cache
def shipped(name: str) -> Run:
    return run(name)


def only(ran: Run, kind: str, part: str = "") -> Registration:
    (found,) = [item for item in ran.resources if item.type.endswith(f":{kind}") and part in item.name]
    return found


def all_of(ran: Run, kind: str) -> list[Registration]:
    return [item for item in ran.resources if item.type.endswith(f":{kind}")]


def spec_of(ran: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(only(ran, "ServingSpec").inputs["metadata"]["gemma4-spec"])
    return found


@pytest.mark.parametrize("name", STACKS)
class TestTheRequest:
    def test_it_is_the_validated_body_and_nothing_else(self, name: str) -> None:
        body = body_of(shipped(name), f"gemma4-{name}-blue-a")
        (spec,) = body["tpu"]["nodeSpec"]
        node = spec["node"]
        assert sorted(body) == ["provisioningModel", "queueingPolicy", "runDuration", "tpu"]
        assert (body["provisioningModel"], body["runDuration"]) == ("FLEX_START", {"maxRunDuration": "86400s"})
        assert body["queueingPolicy"] == {"validUntilDuration": "1200s"}
        assert spec["parent"] == f"projects/{PROJECT}/locations/us-east5-a"
        assert spec["nodeId"] == f"gemma4-{name}-blue-a"
        assert sorted(node) == [
            "acceleratorType",
            "labels",
            "metadata",
            "networkConfig",
            "runtimeVersion",
            "serviceAccount",
            "shieldedInstanceConfig",
            "tags",
        ]
        assert node["networkConfig"]["enableExternalIps"] is False
        owned = {"app": "gemma4", "stack": name, "managed-by": "pulumi", "slice": "blue"}
        assert node["labels"] == {**owned, "ticket": "1f2e3d4c" * 4}
        assert sorted(node["metadata"]) == [
            "enable-guest-attributes",
            "enable-oslogin",
            "gemma4-log",
            "gemma4-member",
            "gemma4-spec",
            "gemma4-supervisor",
            "startup-script",
        ]

    def test_its_metadata_keep_to_google_s_limits(self, name: str) -> None:
        metadata = only(shipped(name), "TpuNode").inputs["metadata"]
        sizes = [len(value.encode()) for value in metadata.values()]
        assert max(sizes) < 256 * 1024
        assert sum(sizes) < 512 * 1024

    def test_the_machine_starts_with_what_the_spec_keeps_up_to_date(self, name: str) -> None:
        ran = shipped(name)
        assert only(ran, "ServingSpec").inputs["metadata"] == only(ran, "TpuNode").inputs["metadata"]

    def test_what_is_waited_for_is_asked_for_on_the_terms_of_its_ticket(self, name: str) -> None:
        ran = shipped(name)
        terms, node = only(ran, "TpuQueuedResource"), only(ran, "TpuNode")
        for key in (*tpu_queued_resource._FIXED, "labels"):
            assert node.inputs[key] == terms.inputs[key]
        assert (node.inputs["ticket"], terms.urn in node.depends_on) == ("1f2e3d4c" * 4, True)

    def test_the_supervisor_reads_the_spec(self, name: str) -> None:
        text = only(shipped(name), "ServingSpec").inputs["metadata"]["gemma4-spec"]
        spec = parse_spec(text, Path("/dev/shm/weights"))
        assert spec.command("10.8.0.66", 8000)[:2] == ("vllm", "serve")
        assert "10.8.0.66" in spec.command("10.8.0.66", 8000)
        assert "0.0.0.0" not in spec.command("10.8.0.66", 8000)
        assert spec.registry == "us-east5-docker.pkg.dev"
        assert spec.hash in spec.argv


class TestSecrets:
    @pytest.mark.parametrize("source", ["bucket", "huggingface"])
    def test_the_token_never_stands_in_metadata(self, source: str) -> None:
        ran = run_program(
            ROOT,
            "v6e4",
            {
                "gcp:project": PROJECT,
                "gemma4:model": "gemma-4-26b-a4b-it",
                "gemma4:accelerator": "v6e-4",
                "gemma4:weights": {"source": source},
                "gemma4:hfToken": {"secure": "v1:ciphertext"},
            },
            preview=False,
            outputs=known_outputs,
        )
        for kind in ("TpuNode", "ServingSpec"):
            assert REDACTED not in json.dumps(only(ran, kind).inputs)
        secret = spec_of(ran)["hfTokenSecret"]
        assert secret is None if source == "bucket" else secret

    def test_a_machine_may_read_the_token_only_where_it_downloads(self) -> None:
        own = f"projects/{PROJECT}/roles/gemma4_v6e4_1{'0' * 20}"
        roles = {item.inputs["role"] for item in grants_of(shipped("v6e4"), "gemma4-v6e4")}
        from_hub = {item.inputs["role"] for item in grants_of(run(**HUB), "gemma4-v6e4")}
        assert roles == {own, "roles/artifactregistry.reader", "roles/logging.logWriter", "roles/storage.objectViewer"}
        assert from_hub == {
            own,
            "roles/artifactregistry.reader",
            "roles/logging.logWriter",
            "roles/secretmanager.secretAccessor",
        }

    def test_from_the_hub_the_spec_names_the_secret_and_no_bucket(self) -> None:
        spec = spec_of(run(**HUB))
        assert (spec["weights"], spec["hfTokenSecret"]) == ([], f"projects/{PROJECT}/secrets/hf-token")


def body_of(ran: Run, node_id: str) -> dict[str, Any]:
    return queued_resource_body(slice_request(only(ran, "TpuNode").inputs, node_id))


def grants_of(ran: Run, account: str) -> list[Registration]:
    member = f"serviceAccount:{account}@{PROJECT}.iam.gserviceaccount.com"
    return [item for item in ran.resources if item.inputs.get("member") == member]


class TestTheNetwork:
    def test_only_the_gateway_s_subnet_may_call_and_only_the_server_and_ask_whether_it_is_ready(self) -> None:
        ran = shipped("v6e4")
        firewall = only(ran, "Firewall").inputs
        ranges = {item.name: item.inputs["ipCidrRange"] for item in all_of(ran, "Subnetwork")}
        assert ranges == {"network-subnet": "10.8.0.0/26", "slice-network-subnet": "10.8.0.64/26"}
        assert firewall["sourceRanges"] == [ranges["network-subnet"]]
        assert firewall["allows"] == [{"protocol": "tcp", "ports": ["8000", str(READY_PORT)]}]
        assert firewall["targetTags"] == only(ran, "TpuNode").inputs["tags"]

    def test_ssh_is_let_in_only_where_asked_and_only_from_the_proxy(self) -> None:
        ran = run(tpu={"iapSsh": True})
        rules = {item.name: item.inputs for item in all_of(ran, "Firewall")}
        assert sorted(rules) == ["slice-network-gateway-in", "slice-network-iap-ssh-in"]
        ssh = rules["slice-network-iap-ssh-in"]
        assert (ssh["name"], ssh["sourceRanges"]) == ("gemma4-v6e4-tpu-iap-ssh", ["35.235.240.0/20"])
        assert ssh["allows"] == [{"protocol": "tcp", "ports": ["22"]}]
        assert ssh["targetTags"] == only(ran, "TpuNode").inputs["tags"]
        assert only(ran, "TpuNode").inputs == only(shipped("v6e4"), "TpuNode").inputs

    def test_slices_stand_in_their_subnet_and_the_gateway_in_its_own(self) -> None:
        ran = shipped("v6e4")
        interface = gateway_template(ran)["vpcAccess"]["networkInterfaces"][0]
        assert only(ran, "TpuQueuedResource").inputs["subnetwork"] != interface["subnetwork"]
        assert only(ran, "TpuQueuedResource").inputs["network"] == interface["network"]

    def test_the_slices_subnet_is_in_the_zone_s_region_wherever_the_gateway_is(self) -> None:
        ran = run(region="europe-west4", tpu={"zone": "us-east5-b"})
        regions = {item.name: item.inputs["region"] for item in all_of(ran, "Subnetwork")}
        assert regions == {"network-subnet": "europe-west4", "slice-network-subnet": "us-east5"}

    def test_there_is_a_way_out_only_to_download_from_hugging_face(self) -> None:
        assert all_of(shipped("v6e4"), "RouterNat") == []
        nat = only(run(**HUB), "RouterNat").inputs
        assert nat["sourceSubnetworkIpRangesToNat"] == "LIST_OF_SUBNETWORKS"
        assert len(nat["subnetworks"]) == 1

    @pytest.mark.parametrize("cidr", ["10.8.0.0/26", "10.8.0.64/26", "0.0.0.0/16", "255.255.255.192/26", "10.0.0.9/24"])
    def test_neighbouring_ranges_are_equal_and_apart(self, cidr: str) -> None:
        from ipaddress import ip_network

        one, other = ip_network(cidr, strict=False), ip_network(neighbour(cidr))
        assert not one.overlaps(other)
        assert one.num_addresses == other.num_addresses


class TestTheZone:
    def test_is_the_stack_s_own_and_seen_from_its_network_alone(self) -> None:
        ran = shipped("v6e4")
        zone = only(ran, "ManagedZone").inputs
        assert (zone["name"], zone["dnsName"], zone["visibility"]) == (
            "gemma4-v6e4",
            "gemma4-v6e4.internal.",
            "private",
        )
        (network,) = zone["privateVisibilityConfig"]["networks"]
        assert network["networkUrl"] == gateway_template(ran)["vpcAccess"]["networkInterfaces"][0]["network"]
        assert zone["labels"] == {"app": "gemma4", "stack": "v6e4", "managed-by": "pulumi"}
        assert zone["forceDestroy"] is True

    def test_has_a_name_for_each_turn_of_every_slice_that_there_may_be(self) -> None:
        known = {f"{name}-{turn}" for name in ("blue", "green", "red", "amber") for turn in "ab"}
        assert set(only(shipped("v6e4"), "MemberRecords").inputs["hosts"]) == known
        other = only(run(tpu={"slices": ["teal"]}), "MemberRecords").inputs["hosts"]
        assert set(other) == known | {"teal-a", "teal-b"}

    def test_has_all_its_records_before_gateway_and_slices(self) -> None:
        ran = shipped("v6e4")
        records = only(ran, "MemberRecords").urn
        assert records in only(ran, "Service", "gateway").depends_on
        assert records in only(ran, "TpuQueuedResource").depends_on

    def test_lets_its_machines_exchange_records_and_nothing_else(self) -> None:
        ran = shipped("v6e4")
        role = only(ran, "IAMCustomRole").inputs
        (grant,) = all_of(ran, "DnsManagedZoneIamMember")
        assert grant.inputs["role"] == f"projects/{PROJECT}/roles/{role['roleId']}"
        assert grant.inputs["managedZone"] == only(ran, "ManagedZone").inputs["name"]
        assert grant.urn in only(ran, "TpuQueuedResource").depends_on
        nouns = {permission.rpartition(".")[0] for permission in role["permissions"]}
        assert nouns == {"dns.changes", "dns.managedZones", "dns.resourceRecordSets"}
        assert not {"dns.managedZones.delete", "dns.managedZones.setIamPolicy", "dns.changes.list"} & set(
            role["permissions"]
        )

    def test_has_a_role_of_another_id_for_each_account_since_google_keeps_those_of_deleted_roles(self) -> None:
        role = only(shipped("v6e4-31b"), "IAMCustomRole").inputs["roleId"]
        assert role == f"gemma4_v6e4_31b_1{'0' * 20}"
        assert re.fullmatch(r"[a-zA-Z0-9_.]{3,64}", f"{'x' * 23}_1{'0' * 20}")


def gateway_template(ran: Run) -> Mapping[str, Any]:
    template: Mapping[str, Any] = only(ran, "Service", "gateway").inputs["template"]
    return template


class TestTheGateway:
    def test_its_account_has_no_role(self) -> None:
        assert gateway_template(shipped("v6e4"))["serviceAccount"].startswith("gemma4-v6e4-gate@")
        assert grants_of(shipped("v6e4"), "gemma4-v6e4-gate") == []

    def test_one_instance_is_kept_and_several_may_run(self) -> None:
        template = gateway_template(shipped("v6e4"))
        assert template["scaling"] == {"minInstanceCount": 1, "maxInstanceCount": MOST_INSTANCES}
        assert template["maxInstanceRequestConcurrency"] == MOST_CONCURRENCY
        assert template["timeout"] == "3600s"

    def test_it_pulls_through_our_repository_or_from_docker_hub_where_that_is_none(self) -> None:
        (container,) = gateway_template(shipped("v6e4"))["containers"]
        assert container["image"].startswith(f"us-east5-docker.pkg.dev/{PROJECT}/gemma4-v6e4/library/haproxy")
        (container,) = gateway_template(run(images={"mode": "build"}))["containers"]
        assert container["image"].startswith("docker.io/library/haproxy")

    def test_it_knows_every_member_by_its_name_and_none_by_an_address(self) -> None:
        text = configuration(run(**TWO))
        assert "server green-a green-a.gemma4-v6e4.internal:8000" in text
        assert "10.8.0" not in text

    def test_nobody_but_the_invoker_and_the_members_may_call(self) -> None:
        ran = run(access={"invokers": ["group:ml@example.com"]})
        grants = all_of(ran, "ServiceIamMember")
        assert {item.inputs["member"] for item in grants} == {  # registrations race each other
            f"serviceAccount:gemma4-v6e4-invoke@{PROJECT}.iam.gserviceaccount.com",
            "group:ml@example.com",
        }


def configuration(ran: Run) -> str:
    (container,) = gateway_template(ran)["containers"]
    (variable,) = container["envs"]
    assert variable["name"] == "HAPROXY_CFG_1"
    return str(variable["value"])


CHANGES: list[dict[str, Any]] = [
    {"serving": {"maxModelLen": 4096}},
    {"serving": {"maxNumSeqs": 8}},
    {"serving": {"env": {"VLLM_LOGGING_LEVEL": "DEBUG"}, "kvCacheDtype": "bfloat16"}},
    {"vllmArgs": {"max-log-len": 100}},
    {"images": {"serving": "vllm/vllm-tpu:v0.27.0"}},
]


class TestAChange:
    @pytest.mark.parametrize("change", CHANGES, ids=[" ".join(change) for change in CHANGES])
    def test_of_a_flag_touches_spec_and_check_and_the_entry_s_metadata_which_it_ignores(
        self, change: dict[str, Any]
    ) -> None:
        changed = touched(shipped("v6e4"), run(**change))
        assert {name for name, _ in changed} == {"slice-blue-node", "rollout-blue-spec", "rollout-blue-check"}
        assert {key for name, key in changed if name == "slice-blue-node"} == {"metadata"}

    def test_only_the_check_depends_on_the_spec(self) -> None:
        ran = shipped("v6e4")
        spec = only(ran, "ServingSpec").urn
        assert {item.name for item in ran.resources if spec in item.depends_on} == {"rollout-blue-check"}

    def test_a_slice_changes_when_the_one_before_has_been_checked(self) -> None:
        ran = run(**TWO)
        green, blue = only(ran, "ServingSpec", "green"), only(ran, "ServingCheck", "blue")
        assert blue.urn in green.depends_on
        names = {item.name for item in ran.resources if blue.urn in item.depends_on}
        assert names == {"rollout-green-spec"}, "a first slice that fails its check must hold up nothing else"

    @pytest.mark.parametrize(
        "change", [TWO, {"tpu": {"slices": ["green"]}}, {"paused": True}], ids=["further", "renamed", "paused"]
    )
    def test_of_the_slices_leaves_the_gateway_alone(self, change: dict[str, Any]) -> None:
        before, after = shipped("v6e4"), run(**change)
        assert not any(name.startswith("gateway") for name, _ in touched(before, after) | touched(after, before))

    def test_of_the_slices_leaves_the_first_alone(self) -> None:
        assert {name for name, _ in touched(shipped("v6e4"), run(**TWO)) if "-green" not in name} == set()


def touched(before: Run, after: Run) -> set[tuple[str, str]]:
    """Resources and their inputs that differ; a new resource counts with all of its inputs."""
    known = {item.urn: item.inputs for item in before.resources}
    return {
        (item.name, key)
        for item in after.resources
        for key in {*item.inputs, *known.get(item.urn, {})}
        if plain(item.inputs.get(key)) != plain(known.get(item.urn, {}).get(key))
    }


def plain(value: Any) -> str:
    """As text: two assets of the same file are not equal."""
    return json.dumps(value, default=vars, sort_keys=True)


class TestSlices:
    def test_the_first_is_waited_for_and_a_further_one_behind_it(self) -> None:
        ran = run(**TWO)
        assert only(ran, "TpuNode", "blue").inputs["behind"] == ""
        assert only(ran, "TpuNode", "green").inputs["behind"] == "gemma4-v6e4-blue"

    def test_a_check_asks_its_slice_by_name_and_skips_one_that_waits(self) -> None:
        ran = run(**TWO)
        blue, green = only(ran, "ServingCheck", "blue").inputs, only(ran, "ServingCheck", "green").inputs
        assert (blue["path"], blue["skipped"]) == ("/members/blue-a", "")
        assert (green["path"], bool(green["skipped"])) == ("/members/green-a", True)
        assert blue["generation"] == "1234567890"

    def test_each_slice_writes_its_log_where_its_check_reads_it(self) -> None:
        ran = run(**TWO)
        for name in ("blue", "green"):
            log = only(ran, "ServingCheck", name).inputs["log"]
            inputs = only(ran, "TpuNode", name).inputs
            asked = queued_resource_body(slice_request(inputs, f"gemma4-v6e4-{name}-a"))["tpu"]["nodeSpec"][0]
            node_id = asked["nodeId"]
            assert log == {"kind": "machine", "name": node_id, "location": "us-east5-a"}
            written = json.loads(asked["node"]["metadata"]["gemma4-log"])
            labels = LogSource.machine(log["name"], log["location"]).resource_labels
            assert written == {"project_id": PROJECT, **labels, "stack": "v6e4", "machine": name}

    def test_nothing_is_queued_before_image_weights_and_grants_are_ready(self) -> None:
        ran = shipped("v6e4")
        waits = {urn.rsplit("::", 1)[-1] for urn in only(ran, "TpuQueuedResource").depends_on}
        assert {"images-repository", "weights-copy-0", "weights-reader", "slice-access-pull"} <= waits
        assert "slice-network-gateway-in" in waits

    @pytest.mark.parametrize(
        ("name", "accelerator"), [("v6e1", "v6e-1"), ("v6e4", "v6e-4"), ("v6e4-31b", "v6e-4"), ("v6e8", "v6e-8")]
    )
    def test_shipped_stacks_ask_for_their_accelerator(self, name: str, accelerator: str) -> None:
        assert only(shipped(name), "TpuQueuedResource").inputs["accelerator_type"] == accelerator


class TestAPausedStack:
    def test_keeps_everything_but_slices_and_what_runs_on_them(self) -> None:
        kept = {item.name for item in run(paused=True).resources}
        gone = {item.name for item in shipped("v6e4").resources} - kept
        assert {name.split("-")[0] for name in gone} == {"slice", "rollout"}
        assert {"gateway-service", "weights-bucket", "slice-network-subnet"} <= kept
        assert not any("blue" in name for name in kept)
