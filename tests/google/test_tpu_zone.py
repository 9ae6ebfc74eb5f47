"""The TPU client: the exact request, nothing created twice or lost, deletion that ends, metadata shared with others."""

from __future__ import annotations

from typing import Any

import pytest

from infra.errors import GoogleError
from infra.google.session import Retry
from infra.google.tpu_types import Provisioning, QueuedResource, QueueState, SliceRequest, queued_resource_body
from infra.google.tpu_zone import TpuZone, zones
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session
from tests.fakes.google.tpu import no_capacity
from tests.fakes.google.wire import ErrorAnswer, quota_exceeded

ZONE = "us-east5-a"
PARENT = f"projects/demo-project/locations/{ZONE}"
NETWORK = "projects/demo-project/global/networks/n"
SUBNETWORK = "projects/demo-project/regions/us-east5/subnetworks/s"


def request(**changes: Any) -> SliceRequest:
    given: dict[str, Any] = {
        "project": "demo-project",
        "zone": ZONE,
        "node_id": "gemma-blue",
        "accelerator_type": "v6e-4",
        "network": NETWORK,
        "subnetwork": SUBNETWORK,
        "service_account": "sa@demo-project.iam.gserviceaccount.com",
        "valid_until_duration_s": 14400,
        "max_run_duration_s": 86400,
        "metadata": {"startup-script": "#!/bin/sh", "spec": "1"},
        "labels": {"slice": "blue"},
        "tags": ["tpu-vllm"],
    }
    return SliceRequest(**(given | changes))


BODY = queued_resource_body(request())


@pytest.fixture
def zone(fake: FakeGoogle, time: FakeTime) -> TpuZone:
    return TpuZone(session(fake, time, retry=Retry(attempts=4)), ZONE, known_zones=(ZONE, "us-east5-b"))


def found(zone: TpuZone, name: str = "blue") -> QueuedResource:
    queued = zone.get(name)
    assert queued is not None
    return queued


class TestTheBody:
    def test_it_is_the_validated_one_and_nothing_else(self) -> None:
        assert BODY == {
            "tpu": {
                "nodeSpec": [
                    {
                        "parent": PARENT,
                        "nodeId": "gemma-blue",
                        "node": {
                            "acceleratorType": "v6e-4",
                            "runtimeVersion": "v2-alpha-tpuv6e",
                            "networkConfig": {
                                "network": NETWORK,
                                "subnetwork": SUBNETWORK,
                                "enableExternalIps": False,
                            },
                            "serviceAccount": {
                                "email": "sa@demo-project.iam.gserviceaccount.com",
                                "scope": ["https://www.googleapis.com/auth/cloud-platform"],
                            },
                            "metadata": {"startup-script": "#!/bin/sh", "spec": "1"},
                            "labels": {"slice": "blue"},
                            "tags": ["tpu-vllm"],
                            "shieldedInstanceConfig": {"enableSecureBoot": False},
                        },
                    }
                ]
            },
            "provisioningModel": "FLEX_START",
            "runDuration": {"maxRunDuration": "86400s"},
            "queueingPolicy": {"validUntilDuration": "14400s"},
        }

    def test_spot_has_tier_and_model_and_on_demand_the_standard_model(self) -> None:
        spot = queued_resource_body(request(provisioning=Provisioning.SPOT, max_run_duration_s=None))
        demand = queued_resource_body(request(provisioning=Provisioning.ON_DEMAND, max_run_duration_s=None))
        assert sorted(spot) == ["provisioningModel", "queueingPolicy", "spot", "tpu"]
        assert (spot["spot"], spot["provisioningModel"]) == ({}, "SPOT")
        assert sorted(demand) == ["provisioningModel", "queueingPolicy", "tpu"]
        assert demand["provisioningModel"] == "STANDARD"

    @pytest.mark.parametrize("provisioning", list(Provisioning))
    def test_the_schema_takes_every_kind(self, fake: FakeGoogle, zone: TpuZone, provisioning: Provisioning) -> None:
        zone.create("blue", queued_resource_body(request(provisioning=provisioning)))
        assert fake.tpu.created == 1
        assert found(zone).provisioning is provisioning

    @pytest.mark.parametrize("model", [{}, {"provisioningModel": "STANDARD"}])
    def test_a_spot_tier_without_its_model_is_refused(self, zone: TpuZone, model: dict[str, str]) -> None:
        body = {
            **queued_resource_body(request(provisioning=Provisioning.ON_DEMAND, max_run_duration_s=None)),
            "spot": {},
        }
        body.pop("provisioningModel")
        with pytest.raises(GoogleError, match="STANDARD provisioning model is incompatible with spot requests"):
            zone.create("blue", body | model)


class TestCreation:
    def test_what_was_asked_for_can_be_read_back(self, zone: TpuZone) -> None:
        operation = zone.create("blue", BODY)
        queued = found(zone)
        assert operation.done
        assert operation.target == "blue"
        assert (queued.id, queued.zone, queued.node_id, queued.labels) == (
            "blue",
            ZONE,
            "gemma-blue",
            {"slice": "blue"},
        )
        assert queued.node == BODY["tpu"]["nodeSpec"][0]["node"]
        assert (queued.provisioning, queued.max_run_duration) == ("flex-start", "86400s")
        assert queued.create_time

    @pytest.mark.parametrize("fault", [{"drop": "after"}, {"drop": "before"}, {"status": 503, "processed": True}])
    def test_a_lost_answer_creates_one_slice(self, fake: FakeGoogle, zone: TpuZone, fault: dict[str, Any]) -> None:
        fake.fault("POST", "/queuedResources", times=2, **fault)
        zone.create("blue", BODY)
        assert fake.tpu.created == 1
        assert len({one.query["requestId"] for one in fake.sent("POST", "/queuedResources")}) == 1

    def test_two_creations_never_share_a_request_id(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.create("blue", BODY)
        with pytest.raises(GoogleError) as caught:
            zone.create("blue", BODY)
        assert caught.value.status == 409
        assert len({one.query["requestId"] for one in fake.sent("POST", "/queuedResources")}) == 2

    def test_a_used_up_quota_is_one_sentence_at_once(self, fake: FakeGoogle, zone: TpuZone, time: FakeTime) -> None:
        fake.refuse("POST", "/queuedResources", quota_exceeded("TPUV6E", "us-east5"))
        with pytest.raises(GoogleError, match=r"TPUV6E .*us-east5.*gemma4 tpu ended") as caught:
            zone.create("blue", BODY)
        assert (caught.value.reason, time.pauses) == ("QUOTA_EXCEEDED", [])

    def test_a_zone_without_flex_start_names_the_others_in_the_operation(self, fake: FakeGoogle) -> None:
        elsewhere = TpuZone(session(fake), "us-central1-b", known_zones=("us-east5-a", "us-east5-b", "us-central1-b"))
        operation = elsewhere.create("blue", queued_resource_body(request(zone="us-central1-b")))
        assert not operation.done
        with pytest.raises(GoogleError, match=r"offered: us-east5-a, us-east5-b \(setting tpu\.zone\)") as caught:
            elsewhere.wait(operation, timeout_s=60)
        assert (caught.value.reason, fake.leftovers()) == ("UNSUPPORTED_ZONE", [])

    @pytest.mark.parametrize(
        ("zone", "accelerator", "said"),
        [("us-nowhere1-a", "v6e-4", "is not supported"), ("us-east5-a", "v6e-3", "could not be found")],
    )
    def test_a_place_without_the_accelerator_names_the_others_at_once(
        self, fake: FakeGoogle, zone: str, accelerator: str, said: str
    ) -> None:
        elsewhere = TpuZone(session(fake), zone, known_zones=("us-east5-b",))
        with pytest.raises(GoogleError, match=rf"{said}.*us-east5-b \(setting tpu\.zone\)") as caught:
            elsewhere.create("blue", queued_resource_body(request(zone=zone, accelerator_type=accelerator)))
        assert caught.value.reason == "UNSUPPORTED_ZONE"

    def test_a_zone_that_has_sold_out_is_not_taken_for_a_rate_limit(
        self, fake: FakeGoogle, zone: TpuZone, time: FakeTime
    ) -> None:
        fake.refuse("POST", "/queuedResources", ErrorAnswer(429, no_capacity(ZONE)), times=9)
        with pytest.raises(GoogleError, match=r"no capacity left.*us-east5-b \(setting tpu\.zone\)") as caught:
            zone.create("blue", BODY)
        assert (caught.value.reason, time.pauses) == ("NO_CAPACITY", [])

    def test_a_failed_operation_is_an_error(self, zone: TpuZone, fake: FakeGoogle) -> None:
        operation = zone.create("blue", BODY)
        fake.world.operations[operation.name].error = {"code": 13, "message": "internal"}
        with pytest.raises(GoogleError, match="gave up the creation of blue: internal"):
            zone.wait(zone.operation(operation.name), timeout_s=60)


class TestStates:
    @pytest.mark.parametrize("waiting", ["ACCEPTED", "WAITING_FOR_RESOURCES"])
    def test_both_spellings_of_waiting_wait(self, fake: FakeGoogle, zone: TpuZone, waiting: str) -> None:
        fake.tpu.configure(waiting_name=waiting)
        zone.create("blue", BODY)
        queued = found(zone)
        assert (queued.state, queued.state.waits, queued.state.ended) == (QueueState(waiting), True, False)

    def test_a_failed_one_says_why(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.create("blue", BODY)
        fake.tpu.advance("blue", to="FAILED", error="no capacity until the deadline")
        queued = found(zone)
        assert (queued.state.ended, queued.error) == (True, "no capacity until the deadline")

    def test_a_suspended_one_has_ended(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.create("blue", BODY)
        fake.tpu.advance("blue", to="SUSPENDED", initiator="SERVICE")
        assert found(zone).state.ended

    def test_a_state_nobody_heard_of_is_unknown_and_not_an_end(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.create("blue", BODY)
        fake.tpu.known(f"{PARENT}/queuedResources/blue")["state"]["state"] = "MIGRATING"
        assert (found(zone).state, found(zone).state.ended) == (QueueState.UNKNOWN, False)

    def test_only_a_404_reads_as_absent(self, fake: FakeGoogle, zone: TpuZone) -> None:
        assert zone.get("blue") is None
        fake.fault("GET", "/queuedResources/blue", status=403, message="no")
        with pytest.raises(GoogleError):
            zone.get("blue")

    def test_a_storm_of_503_is_outlasted(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.create("blue", BODY)
        fake.fault("GET", "/queuedResources/blue", times=3, status=503)
        assert found(zone).state.waits

    def test_a_listing_says_what_it_could_not_see(self, fake: FakeGoogle, zone: TpuZone) -> None:
        for name in ("blue", "green"):
            zone.create(name, BODY)
        assert [one.id for one in zone.list().found] == ["blue", "green"]
        fake.tpu.configure(unreachable=[ZONE])
        assert (zone.list().found, zone.list().unreachable) == ((), (ZONE,))


class TestDeletion:
    @pytest.mark.parametrize("state", [state for state in QueueState if state not in ("DELETING", "UNKNOWN")])
    def test_it_ends_from_every_state(self, fake: FakeGoogle, zone: TpuZone, state: QueueState) -> None:
        zone.create("blue", BODY)
        fake.tpu.advance("blue", to="ACTIVE")
        fake.tpu.advance("blue", to=state)
        zone.delete_until_gone("blue", timeout_s=120)
        assert fake.leftovers() == []
        assert all(one.query["force"] == "true" for one in fake.sent("DELETE", "/queuedResources"))

    def test_a_refusal_while_provisioning_is_asked_again(self, fake: FakeGoogle, zone: TpuZone) -> None:
        fake.tpu.configure(pace=4, deletion_looks=0)
        zone.create("blue", BODY)
        fake.tpu.advance("blue", to="PROVISIONING")
        zone.delete_until_gone("blue", timeout_s=600)
        statuses = [one.status for one in fake.sent("DELETE", "/queuedResources")]
        assert statuses[0] == 400
        assert statuses[-1] == 200

    def test_one_that_stays_is_an_error_with_google_s_reason(self, fake: FakeGoogle, zone: TpuZone) -> None:
        fake.tpu.configure(stop_at="PROVISIONING")
        zone.create("blue", BODY)
        fake.tpu.advance("blue", to="PROVISIONING")
        with pytest.raises(GoogleError, match=r"still there \(PROVISIONING\) after 60 s.*quota.*state is PROVISIONING"):
            zone.delete_until_gone("blue", timeout_s=60)

    def test_a_lost_answer_and_a_storm_do_not_stop_it(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.create("blue", BODY)
        fake.fault("DELETE", "/queuedResources", times=9, status=503)
        fake.fault("DELETE", "/queuedResources", drop="after")
        zone.delete_until_gone("blue", timeout_s=600)
        assert fake.leftovers() == []

    def test_expired_credentials_stop_it_with_what_to_run(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.create("blue", BODY)
        fake.expire("fake-access-token")
        with pytest.raises(GoogleError, match="gcloud auth application-default login"):
            zone.delete_until_gone("blue", timeout_s=600)

    def test_deleting_nothing_is_done(self, zone: TpuZone) -> None:
        assert zone.delete("blue") is None
        zone.delete_until_gone("blue", timeout_s=1)


class TestNodes:
    @pytest.fixture(autouse=True)
    def _active(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.create("blue", BODY)
        fake.tpu.configure(addresses=["10.8.0.9"])
        fake.tpu.advance("blue", to="ACTIVE")

    def node(self, fake: FakeGoogle) -> dict[str, Any]:
        return fake.tpu.nodes[f"{PARENT}/nodes/gemma-blue"]

    def test_a_node_shows_its_address_and_whose_it_is(self, fake: FakeGoogle, zone: TpuZone) -> None:
        node = zone.node("gemma-blue")
        assert node is not None
        assert (node.address, node.ready) == ("10.8.0.9", True)
        assert (node.labels, node.problem) == ({"slice": "blue"}, "")
        self.node(fake)["healthDescription"] = "tray gone"
        self.node(fake)["symptoms"] = [{"symptomType": "LOW_MEMORY", "details": "worker 0"}]
        sick = zone.node("gemma-blue")
        assert sick is not None
        assert sick.problem == "tray gone; LOW_MEMORY: worker 0"

    def test_other_people_s_metadata_stays(self, fake: FakeGoogle, zone: TpuZone) -> None:
        self.node(fake)["metadata"]["ssh-keys"] = "ann:ssh-ed25519 AAAA"
        node = zone.set_metadata("gemma-blue", {"spec": "2", "startup-script": None})
        assert node.metadata == {"ssh-keys": "ann:ssh-ed25519 AAAA", "spec": "2"}

    def test_a_key_that_arrives_in_between_survives(self, fake: FakeGoogle, zone: TpuZone) -> None:
        rule = fake.fault("PATCH", "/nodes/", status=409, message="concurrent")
        original = fake.tpu.get_node

        def add_key(*args: Any, **names: Any) -> Any:
            if rule.used:
                self.node(fake)["metadata"]["ssh-keys"] = "new"
            return original(*args, **names)

        fake.tpu._routes = [
            (method, pattern, add_key if handler == original else handler)
            for method, pattern, handler in fake.tpu._routes
        ]
        node = zone.set_metadata("gemma-blue", {"spec": "2"})
        assert (node.metadata["ssh-keys"], node.metadata["spec"]) == ("new", "2")

    @pytest.mark.parametrize("fault", [{"drop": "after"}, {"drop": "before"}, {"status": 503}])
    def test_a_lost_answer_ends_with_the_value_seen_on_the_node(
        self, fake: FakeGoogle, zone: TpuZone, fault: dict[str, Any]
    ) -> None:
        fake.fault("PATCH", "/nodes/", times=2, **fault)
        assert zone.set_metadata("gemma-blue", {"spec": "2"}).metadata["spec"] == "2"

    def test_a_write_whose_operation_fails_is_tried_again(self, fake: FakeGoogle, zone: TpuZone) -> None:
        original, failures = (
            fake.tpu.operation,
            [{"code": 10, "message": "concurrent"}, {"code": 13, "message": "internal"}],
        )
        fake.tpu.operation = lambda parent, **given: original(  # type: ignore[method-assign]
            parent, **given | ({"error": failures.pop()} if failures else {})
        )
        assert zone.set_metadata("gemma-blue", {"spec": "2"}).metadata["spec"] == "2"

    def test_nothing_is_written_when_nothing_changes(self, fake: FakeGoogle, zone: TpuZone) -> None:
        zone.set_metadata("gemma-blue", {"spec": "1"})
        assert fake.sent("PATCH", "/nodes/") == []

    def test_endless_contention_and_a_refusal_are_errors(self, fake: FakeGoogle, zone: TpuZone) -> None:
        fake.fault("PATCH", "/nodes/", times=99, status=409, message="concurrent")
        with pytest.raises(GoogleError, match=r"8 attempts.*concurrent"):
            zone.set_metadata("gemma-blue", {"spec": "2"})
        fake.clear()
        fake.fault("PATCH", "/nodes/", status=403, message="Permission 'tpu.nodes.update' denied")
        with pytest.raises(GoogleError, match=r"tpu\.nodes\.update.*roles/tpu\.admin"):
            zone.set_metadata("gemma-blue", {"spec": "2"})

    def test_a_node_that_is_gone_says_so(self, fake: FakeGoogle, zone: TpuZone) -> None:
        fake.tpu.advance("blue", to="SUSPENDED")
        assert zone.node("gemma-blue") is None
        with pytest.raises(GoogleError, match="is gone") as caught:
            zone.set_metadata("gemma-blue", {"spec": "2"})
        assert caught.value.status == 404

    def test_guest_attributes_are_what_the_machine_published(self, fake: FakeGoogle, zone: TpuZone) -> None:
        assert zone.guest_attributes("gemma-blue", "gemma4") == {}
        fake.tpu.set_guest_attributes("gemma-blue", {"gemma4/stage": "serving", "other/x": "y"})
        assert zone.guest_attributes("gemma-blue", "gemma4") == {"stage": "serving"}
        assert zone.guest_attributes("gone", "gemma4") == {}


def test_zones_and_what_they_list(fake: FakeGoogle, zone: TpuZone) -> None:
    assert zone.accelerator_types() == ("v6e-1", "v6e-4", "v6e-8")
    assert ZONE in zones(session(fake))
