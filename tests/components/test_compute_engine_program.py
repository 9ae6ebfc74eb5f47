"""The real program for stacks on Compute Engine: what a machine is made of, who may reach whom, and what a change touches."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime import mocks

from containers.supervisor.gemma4_supervisor.desired_spec import parse_spec
from infra.google.logs import LogSource
from infra.ops.program import REDACTED, Registration, Run, run_program
from infra.planning.gateway.members import KNOWN_NAMES, READY_PORT
from infra.planning.planner import make_plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan
from infra.planning.settings.stackfile import read_stack
from tests.components.test_tpu_program import plain, touched
from tests.projects import ROOT

PROJECT = "my-project"
STACKS = ("g4x2", "g4x8")
SPOT: dict[str, Any] = {"machine": {"provisioning": "spot"}}
TWO: dict[str, Any] = {"machine": {"names": ["blue", "green"]}}
HUB: dict[str, Any] = {"weights": {"source": "huggingface"}, "hfTokenSecret": "hf-token"}


def known_outputs(args: mocks.MockResourceArgs) -> dict[str, Any]:
    """What Google would answer; the green machine still waits for capacity."""
    email = f"{args.inputs.get('accountId', args.name)}@{PROJECT}.iam.gserviceaccount.com"
    waits = "green" in args.name
    return {
        "email": email,
        "member": f"serviceAccount:{email}",
        "uniqueId": "100000000000000000001",
        "name": args.inputs.get("name", args.name),
        "uri": "https://gateway.example.run.app",
        "instanceGroupManagerId": 4711,
        "zone": "" if waits else "us-central1-b",
        "instance": "" if waits else "1234567890",
        "address": "" if waits else "10.8.0.66",
        "repoDigest": "example.com/image@sha256:" + "0c" * 32,
    }


def run(name: str = "g4x2", **settings: Any) -> Run:
    config = {f"gemma4:{key}": value for key, value in laid_over(name, settings).items()}
    ran = run_program(ROOT, name, {"gcp:project": PROJECT, **config}, preview=False, outputs=known_outputs)
    assert ran.exit_code == 0, ran.messages
    return ran


@cache
def shipped(name: str) -> Run:
    return run(name)


def laid_over(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The shipped settings with others over them, in groups key by key."""
    given = read_stack(ROOT, name).settings
    merged = {key: {**given[key], **value} for key, value in settings.items() if isinstance(given.get(key), Mapping)}
    return {**given, **settings, **merged}


def machines_of(name: str) -> MachinesPlan:
    plan = make_plan(name, read_stack(ROOT, name).settings, project=PROJECT)
    assert isinstance(plan.deployment, MachinesPlan)
    return plan.deployment


def all_of(ran: Run, kind: str) -> list[Registration]:
    return [item for item in ran.resources if item.type.endswith(f":{kind}")]


def only(ran: Run, kind: str, part: str = "") -> Registration:
    (found,) = [item for item in all_of(ran, kind) if part in item.name]
    return found


def member_of(ran: Run, name: str = "blue") -> Mapping[str, Any]:
    preserved: Mapping[str, Any] = only(ran, "RegionPerInstanceConfig", name).inputs["preservedState"]
    return preserved


@pytest.mark.parametrize("name", STACKS)
class TestAMachine:
    def test_it_is_made_of_what_was_planned(self, name: str) -> None:
        made, machines = only(shipped(name), "RegionInstanceTemplate").inputs, machines_of(name)
        assert made["machineType"] == machines.shapes[0]
        (disk,) = made["disks"]
        assert (disk["sourceImage"], disk["diskType"]) == (machines.image, "hyperdisk-balanced")
        assert disk["sourceImage"].startswith("projects/cos-cloud/global/images/")
        asked = (disk["diskSizeGb"], disk["provisionedThroughput"], disk["provisionedIops"])
        assert asked == (machines.disk.size_gb, machines.disk.throughput_mibps, machines.disk.iops)
        assert made["serviceAccount"]["email"] == f"gemma4-{name}@{PROJECT}.iam.gserviceaccount.com"
        assert made["serviceAccount"]["scopes"] == ["cloud-platform"]
        assert all(made["shieldedInstanceConfig"].values())
        assert made["labels"] == {"app": "gemma4", "stack": name, "managed-by": "pulumi"}

    def test_it_has_one_interface_with_gvnic_and_no_address_of_the_internet(self, name: str) -> None:
        (interface,) = only(shipped(name), "RegionInstanceTemplate").inputs["networkInterfaces"]
        assert sorted(interface) == ["nicType", "subnetwork"]
        assert interface["nicType"] == "GVNIC"

    def test_its_attributes_keep_to_google_s_limits(self, name: str) -> None:
        ran = shipped(name)
        metadata = {**only(ran, "RegionInstanceTemplate").inputs["metadata"], **member_of(ran)["metadata"]}
        sizes = [len(value.encode()) for value in metadata.values()]
        assert max(sizes) < 256 * 1024
        assert sum(sizes) < 512 * 1024

    def test_it_starts_with_what_the_spec_keeps_up_to_date(self, name: str) -> None:
        ran = shipped(name)
        kept = only(ran, "ServingSpec").inputs
        assert kept["metadata"] == member_of(ran)["metadata"]
        assert (kept["product"], kept["group"], kept["node_id"]) == (
            "compute",
            f"gemma4-{name}-blue",
            f"gemma4-{name}-blue",
        )
        assert "metadata" not in only(ran, "RegionInstanceGroupManager").inputs

    def test_the_specification_has_a_server_for_each_that_the_gateway_knows(self, name: str) -> None:
        text, machines = member_of(shipped(name))["metadata"]["gemma4-spec"], machines_of(name)
        spec = parse_spec(text, Path("/dev/shm/weights"))
        assert [(one.suffix, one.port, tuple(one.devices)) for one in spec.servers] == [
            (one.suffix, one.port, one.devices) for one in machines.servers
        ]
        known = {one.name for one in machines.members() if one.group == "blue"}
        assert known == {f"blue{one.suffix}" for one in spec.servers}
        for one in spec.servers:
            command = spec.command("10.8.0.66", one.port)
            assert command[command.index("--port") + 1] == str(one.port)
            assert command[command.index("--host") + 1] == "10.8.0.66"

    def test_its_own_firewall_lets_in_whom_the_network_s_does(self, name: str) -> None:
        ran = shipped(name)
        reach = member_of(ran)["metadata"]["gemma4-reach"].split()
        opened = {(cidr, port) for entry in reach for cidr, _, ports in [entry.partition("=")] for port in every(ports)}
        allowed = {
            (cidr, int(port))
            for item in all_of(ran, "Firewall")
            for cidr in item.inputs["sourceRanges"]
            for port in item.inputs["allows"][0]["ports"]
        }
        assert opened == allowed

    def test_each_server_is_checked_by_its_own_path_one_after_the_other(self, name: str) -> None:
        ran, machines = shipped(name), machines_of(name)
        checks = {item.inputs["path"]: item for item in all_of(ran, "ServingCheck")}
        assert set(checks) == {f"/members/{one.name}" for one in machines.members() if one.group == "blue"}
        order = [checks[path] for path in machines.paths_of("blue").values()]
        for before, after in itertools.pairwise(order):
            assert before.urn in after.depends_on


def every(ports: str) -> range:
    first, _, last = ports.partition(":")
    return range(int(first), int(last or first) + 1)


class TestTerms:
    def test_on_demand_stays_and_is_restarted(self) -> None:
        assert only(shipped("g4x2"), "RegionInstanceTemplate").inputs["scheduling"] == {
            "provisioningModel": "STANDARD",
            "automaticRestart": True,
            "onHostMaintenance": "TERMINATE",
        }

    def test_spot_is_deleted_when_it_is_taken_back_so_that_its_group_makes_another(self) -> None:
        assert only(run(**SPOT), "RegionInstanceTemplate").inputs["scheduling"] == {
            "provisioningModel": "SPOT",
            "preemptible": True,
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE",
            "instanceTerminationAction": "DELETE",
        }

    def test_several_shapes_are_offered_in_their_order(self) -> None:
        shapes = ["g4-standard-96", "g4-standard-192"]
        group = only(run(machine={"shapes": shapes}), "RegionInstanceGroupManager").inputs
        selections = group["instanceFlexibilityPolicy"]["instanceSelections"]
        assert [(one["rank"], one["machineTypes"]) for one in selections] == [(1, shapes[:1]), (2, shapes[1:])]
        assert "instanceFlexibilityPolicy" not in only(shipped("g4x2"), "RegionInstanceGroupManager").inputs


class TestTheGroup:
    def test_it_has_one_machine_of_a_name_with_an_address_that_stays(self) -> None:
        ran = shipped("g4x2")
        address, member = only(ran, "Address").inputs, only(ran, "RegionPerInstanceConfig").inputs
        assert (address["addressType"], address["purpose"]) == ("INTERNAL", "GCE_ENDPOINT")
        (internal,) = member["preservedState"]["internalIps"]
        assert internal["autoDelete"] == "NEVER"
        assert member["name"] == "gemma4-g4x2-blue"
        assert member["removeInstanceOnDestroy"] is True
        assert "targetSize" not in only(ran, "RegionInstanceGroupManager").inputs, "the member counts for itself"

    def test_it_is_healed_by_what_the_supervisor_says_and_never_by_a_server(self) -> None:
        ran = shipped("g4x2")
        check = only(ran, "HealthCheck").inputs["httpHealthCheck"]
        assert check == {"port": READY_PORT, "requestPath": "/alive"}
        healing = only(ran, "RegionInstanceGroupManager").inputs["autoHealingPolicies"]
        plan = make_plan("g4x2", read_stack(ROOT, "g4x2").settings, project=PROJECT)
        assert 3600 >= healing["initialDelaySec"] >= plan.startup.extremes.high

    def test_another_template_replaces_no_machine_that_runs(self) -> None:
        policy = only(shipped("g4x2"), "RegionInstanceGroupManager").inputs["updatePolicy"]
        assert (policy["type"], policy["replacementMethod"]) == ("OPPORTUNISTIC", "RECREATE")
        assert (policy["instanceRedistributionType"], policy["maxSurgeFixed"]) == ("NONE", 0)
        assert policy["maxUnavailableFixed"] >= 1

    def test_pulumi_waits_for_the_first_machine_and_for_a_further_one_behind_it(self) -> None:
        ran = run(**TWO)
        assert only(ran, "ComputeMachine", "blue").inputs["behind"] == ""
        assert only(ran, "ComputeMachine", "green").inputs["behind"] == "gemma4-g4x2-blue"
        assert only(ran, "ServingCheck", "green").inputs["skipped"] == "it waits for capacity"

    def test_no_machine_is_asked_for_before_image_weights_grants_and_gateway_are_there(self) -> None:
        waits = {urn.rsplit("::", 1)[-1] for urn in only(shipped("g4x2"), "RegionPerInstanceConfig").depends_on}
        assert {
            "images-repository",
            "weights-copy-0",
            "machine-access-pull",
            "members-records",
            "gateway-service",
        } <= waits
        assert {"machine-network-gateway-in", "machine-network-health-in"} <= waits


class TestTheNetwork:
    def test_the_gateway_reaches_servers_and_supervisors_and_google_s_checks_the_latter_alone(self) -> None:
        for name in STACKS:
            rules = {item.name: item.inputs for item in all_of(shipped(name), "Firewall")}
            assert sorted(rules) == ["machine-network-gateway-in", "machine-network-health-in"]
            gateway, checks = rules["machine-network-gateway-in"], rules["machine-network-health-in"]
            ports = [*machines_of(name).ports, READY_PORT]
            assert gateway["sourceRanges"] == ["10.8.0.0/26"]
            assert gateway["allows"] == [{"protocol": "tcp", "ports": [str(port) for port in ports]}]
            assert checks["sourceRanges"] == ["35.191.0.0/16", "130.211.0.0/22"]
            assert checks["allows"] == [{"protocol": "tcp", "ports": [str(READY_PORT)]}]
            tags = only(shipped(name), "RegionInstanceTemplate").inputs["tags"]
            assert {tag for rule in rules.values() for tag in rule["targetTags"]} == set(tags)

    def test_ssh_is_let_in_only_where_asked_and_only_from_the_proxy(self) -> None:
        rule = only(run(machine={"iapSsh": True}), "Firewall", "iap-ssh").inputs
        assert (rule["sourceRanges"], rule["allows"]) == (["35.235.240.0/20"], [{"protocol": "tcp", "ports": ["22"]}])
        assert only(shipped("g4x2"), "RegionInstanceTemplate").inputs["metadata"]["enable-oslogin"] == "TRUE"

    def test_there_is_a_way_out_only_to_download_from_hugging_face(self) -> None:
        assert all_of(shipped("g4x2"), "RouterNat") == []
        assert len(all_of(run(**HUB), "RouterNat")) == 1


class TestSecrets:
    @pytest.mark.parametrize("source", ["bucket", "huggingface"])
    def test_the_token_never_stands_in_metadata(self, source: str) -> None:
        ran = run(weights={"source": source}, hfToken={"secure": "v1:ciphertext"})
        for kind in ("RegionInstanceTemplate", "RegionPerInstanceConfig", "ServingSpec"):
            assert REDACTED not in json.dumps(only(ran, kind).inputs)

    def test_a_machine_s_account_may_do_no_more_than_its_part(self) -> None:
        member = f"serviceAccount:gemma4-g4x2@{PROJECT}.iam.gserviceaccount.com"
        roles = {item.inputs["role"] for item in shipped("g4x2").resources if item.inputs.get("member") == member}
        own = {role for role in roles if not role.startswith("roles/")}
        assert len(own) == 1, "the custom role on the stack's zone"
        assert roles - own == {"roles/artifactregistry.reader", "roles/logging.logWriter", "roles/storage.objectViewer"}


CHANGES: list[dict[str, Any]] = [
    {"serving": {"maxModelLen": 4096}},
    {"serving": {"env": {"VLLM_LOGGING_LEVEL": "DEBUG"}}},
    {"vllmArgs": {"max-log-len": 100}},
    {"images": {"serving": "vllm/vllm-openai:v0.27.0"}},
]


class TestAChange:
    @pytest.mark.parametrize("name", STACKS)
    @pytest.mark.parametrize("change", CHANGES, ids=[" ".join(change) for change in CHANGES])
    def test_of_a_flag_touches_spec_and_checks_and_what_a_machine_is_made_with_which_is_ignored(
        self, change: dict[str, Any], name: str
    ) -> None:
        changed = touched(shipped(name), run(name, **change))
        others = {one for one, _ in changed if not one.startswith("rollout-blue-")}
        assert others == {"machine-blue-member", "machine-blue-machine"}
        assert {key for one, key in changed if one == "machine-blue-member"} == {"preservedState"}
        assert {key for one, key in changed if one == "machine-blue-machine"} == {"metadata"}
        assert only(shipped(name), "RegionPerInstanceConfig").inputs["preservedState"].keys() == {
            "metadata",
            "internalIps",
        }

    def test_of_a_flag_changes_nothing_else_of_the_member(self) -> None:
        before, after = member_of(shipped("g4x2")), member_of(run(**CHANGES[0]))
        assert plain(before["internalIps"]) == plain(after["internalIps"])
        changed = {key for key, value in after["metadata"].items() if before["metadata"][key] != value}
        assert changed == {"gemma4-spec"}

    def test_to_a_further_machine_of_a_known_name_leaves_gateway_and_the_first_alone(self) -> None:
        assert "green" in KNOWN_NAMES
        assert {name for name, _ in touched(shipped("g4x2"), run(**TWO)) if "green" not in name} == set()

    def test_a_machine_changes_when_the_one_before_has_been_checked(self) -> None:
        ran = run("g4x8", machine={"names": ["blue", "green"]})
        green, last = only(ran, "ServingSpec", "green"), only(ran, "ServingCheck", "blue-3")
        assert last.urn in green.depends_on

    def test_each_machine_writes_its_log_where_its_checks_read_it(self) -> None:
        ran = shipped("g4x8")
        places = {plain(item.inputs["log"]) for item in all_of(ran, "ServingCheck")}
        assert places == {plain({"kind": "machine", "name": "gemma4-g4x8-blue", "location": "us-central1"})}
        written = json.loads(member_of(ran)["metadata"]["gemma4-log"])
        assert LogSource.machine("gemma4-g4x8-blue", "us-central1").resource_labels.items() <= written.items()


class TestAPausedStack:
    def test_keeps_everything_but_the_machine_and_what_runs_on_it(self) -> None:
        paused = run(paused=True)
        kept = {item.name for item in paused.resources}
        gone = {item.name for item in shipped("g4x2").resources} - kept
        assert gone == {"machine-blue-member", "machine-blue-machine", "rollout-blue-spec", "rollout-blue-check"}
        assert {name for name, _ in touched(shipped("g4x2"), paused)} == set()
