"""A machine in its stack's private zone: the record has its address while it is a member, and it takes nobody else's."""

from __future__ import annotations

import io
import json
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from containers.shared.web import TransientError, call
from containers.supervisor.gemma4_supervisor.dns_record import PLACEHOLDER, TTL_S, DnsZones, RecordPlace
from containers.supervisor.gemma4_supervisor.log import Log
from containers.supervisor.gemma4_supervisor.membership import parse_member
from containers.supervisor.gemma4_supervisor.metadata_server import DRAIN, MetadataServer
from containers.supervisor.gemma4_supervisor.metadata_server import MEMBER as MEMBER_PATH
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings
from infra.components.shared.member_zone import MEMBER_PERMISSIONS
from infra.planning.gateway import members
from tests.fakes.google import FakeGoogle
from tests.fakes.google.wire import permission_denied
from tests.fakes.metadata_server import FakeMetadata
from tests.fakes.tpu_machine import ADDRESS, MEMBER, RECORD, ZONE, TpuMachine

OWN, OTHER = "10.0.0.7", "10.0.0.9"
PLACE = RecordPlace("demo-project", ZONE, RECORD)


@pytest.fixture
def tpu(tpu: TpuMachine) -> TpuMachine:
    """A machine that may do no more in the zone than it has to."""
    tpu.google.dns.granted = {*MEMBER_PERMISSIONS}
    tpu.want("spec-a")
    return tpu


class TestTheRecord:
    def test_the_record_is_written_as_the_gateway_expects_it(self) -> None:
        assert (PLACEHOLDER, TTL_S) == (members.PLACEHOLDER, members.RECORD_TTL_S)

    def test_the_record_is_named_in_the_attribute_that_the_plan_writes(self) -> None:
        text = members.member_attribute(
            "blue-a-0", project="example.com:demo-project", zone=ZONE, host="blue-a", domain=f"{ZONE}.internal"
        )
        assert parse_member(text) == ("blue-a-0", RecordPlace("example.com:demo-project", ZONE, RECORD))
        assert {members.MEMBER, members.DRAIN} == {path.removeprefix("attributes/") for path in (MEMBER_PATH, DRAIN)}

    def test_the_record_has_the_machines_address_before_its_server_is_ready(self, tpu: TpuMachine) -> None:
        tpu.machine.docker.behaviour("spec-a").healthy = False
        tpu.start()
        tpu.until(lambda: tpu.address == ADDRESS, "the address")
        assert not tpu.is_ready
        tpu.until(lambda: tpu.status["record"] == ADDRESS, "the status to say so")
        tpu.machine.docker.behaviour("spec-a").healthy = True
        tpu.until_serving("spec-a")
        assert not tpu.errors

    @pytest.mark.parametrize("before", [OTHER, ""], ids=["of a dead machine", "none"])
    def test_the_record_is_taken_over_or_made(self, tpu: TpuMachine, before: str) -> None:
        tpu.google.dns.write(ZONE, RECORD, *filter(None, [before]), ttl=300)
        tpu.start()
        tpu.until(lambda: tpu.said("record"), "a word about it")
        assert tpu.address == ADDRESS
        assert tpu.said("record")[0]["before"] == before

    def test_the_record_is_written_again_where_somebody_else_has_changed_it(self, tpu: TpuMachine) -> None:
        tpu.configure(RECORD_S="0.1")
        tpu.start()
        tpu.until(lambda: tpu.said("record"), "the address")
        tpu.google.dns.write(ZONE, RECORD, PLACEHOLDER)
        tpu.until(lambda: tpu.address == ADDRESS, "the address again")
        tpu.until(lambda: [entry["severity"] for entry in tpu.said("record")] == ["INFO", "WARNING"], "a word about it")


class TestAMachineThatEnds:
    @pytest.mark.parametrize("address", [ADDRESS, OTHER], ids=["own", "taken over by another machine"])
    def test_a_machine_that_goes_down_puts_the_placeholder_back_where_the_record_is_still_its_own(
        self, tpu: TpuMachine, address: str
    ) -> None:
        tpu.start()
        tpu.until_serving("spec-a")
        tpu.until(lambda: tpu.address == ADDRESS, "the address")
        tpu.google.dns.write(ZONE, RECORD, address)
        tpu.machine.going_down = True
        assert tpu.kill(signal.SIGTERM) == 0
        assert tpu.address == (PLACEHOLDER if address == ADDRESS else OTHER)

    def test_a_supervisor_that_ends_alone_leaves_the_record(self, tpu: TpuMachine) -> None:
        tpu.start()
        tpu.until(lambda: tpu.address == ADDRESS, "the address")
        tpu.kill(signal.SIGTERM)
        assert tpu.address == ADDRESS

    def test_a_machine_that_goes_down_waits_for_no_dns_that_is_away(self, tpu: TpuMachine) -> None:
        tpu.configure(RECORD_RETRY_CAP_S="60", RECORD_LAST_S="0.3")
        tpu.start()
        tpu.until(lambda: tpu.address == ADDRESS, "the address")
        tpu.google.fault("GET", "/dns/", status=503, times=10_000)
        tpu.machine.going_down = True
        assert tpu.kill(signal.SIGTERM) == 0  # within ten seconds


class TestTroubleWithDns:
    @pytest.mark.parametrize("how", ["away", "no permission", "no zone"])
    def test_trouble_with_dns_is_told_and_costs_no_server(self, tpu: TpuMachine, how: str) -> None:
        word = {"away": "503", "no permission": "the stack's role for records", "no zone": "there is no zone"}[how]
        if how == "away":
            rule = tpu.google.fault("GET", "/dns/", status=503, times=10_000)
        elif how == "no permission":
            refusal = permission_denied("dns.changes.create", "zone")
            rule = tpu.google.refuse("POST", "/changes", refusal, times=10_000)
        else:
            tpu.metadata.set("gemma4-member", json.dumps({**MEMBER, "zone": "another"}))
        tpu.start()
        tpu.until_trouble("record", word)
        tpu.until(lambda: tpu.is_ready, "the server")
        assert tpu.address == PLACEHOLDER
        if how == "no zone":
            tpu.metadata.set("gemma4-member", json.dumps(MEMBER))
        else:
            rule.times = 0
        tpu.until(lambda: tpu.address == ADDRESS and not tpu.errors, "the address")

    def test_trouble_with_dns_is_asked_about_with_a_fresh_token(self, tpu: TpuMachine) -> None:
        tpu.google.fault("GET", "/dns/", status=401)
        tpu.start()
        tpu.until(lambda: tpu.address == ADDRESS, "the address")
        assert len(tpu.metadata.issued) > 1


class Zones(DnsZones):
    """Reads the record and waits, the first time, until everybody who takes part has read it."""

    def __init__(self, url: str, metadata: MetadataServer, barrier: threading.Barrier) -> None:
        super().__init__(url, metadata)
        self._barrier: threading.Barrier | None = barrier

    def _read(self, place: RecordPlace) -> Mapping[str, Any] | None:
        record = super()._read(place)
        if self._barrier:
            self._barrier.wait(30)
            self._barrier = None
        return record


class TestMachinesThatRace:
    @pytest.fixture
    def google(self) -> Iterator[FakeGoogle]:
        with FakeGoogle() as fake:
            zone = json.dumps({"name": ZONE, "dnsName": f"{ZONE}.internal."}).encode()
            url, headers = f"{fake.url}/dns/v1/projects/demo-project/managedZones", {"Authorization": "Bearer pulumi"}
            assert call("POST", url, timeout_s=5, headers=headers, body=zone).status == 200
            yield fake

    @pytest.fixture
    def metadata(self) -> Iterator[MetadataServer]:
        fake = FakeMetadata()
        yield MetadataServer(SupervisorSettings(metadata_host=fake.host), Log(io.StringIO()))
        fake.close()

    @pytest.mark.parametrize("at_first", [PLACEHOLDER, ""], ids=["the placeholder", "nothing"])
    def test_machines_that_race_write_one_after_the_other(
        self, google: FakeGoogle, metadata: MetadataServer, at_first: str
    ) -> None:
        google.dns.write(ZONE, RECORD, *filter(None, [at_first]))
        barrier = threading.Barrier(3)
        before: dict[str, str] = {}

        def take(address: str) -> None:
            before[address] = Zones(google.url, metadata, barrier).exchange(PLACE, address)

        addresses = [f"10.0.0.{number}" for number in range(3)]
        with ThreadPoolExecutor() as pool:
            [*pool.map(take, addresses)]
        order = [at_first]
        for _ in addresses:
            (follower,) = [address for address, found in before.items() if found == order[-1]]
            order.append(follower)
        assert google.dns.addresses(ZONE) == {RECORD: order[-1]}

    def test_a_machine_that_leaves_while_another_comes_takes_nothing_away(
        self, google: FakeGoogle, metadata: MetadataServer
    ) -> None:
        google.dns.write(ZONE, RECORD, OWN)
        barrier = threading.Barrier(2)
        acts = [
            lambda: Zones(google.url, metadata, barrier).exchange(PLACE, OTHER),
            lambda: Zones(google.url, metadata, barrier).exchange(PLACE, PLACEHOLDER, only_from=OWN),
        ]
        with ThreadPoolExecutor() as pool:
            [*pool.map(lambda act: act(), acts)]
        assert google.dns.addresses(ZONE) == {RECORD: OTHER}

    def test_a_record_that_others_change_again_and_again_is_left_for_later(
        self, google: FakeGoogle, metadata: MetadataServer
    ) -> None:
        google.fault("POST", "/changes", status=412, times=10_000)
        with pytest.raises(TransientError, match="changed by others"):
            DnsZones(google.url, metadata).exchange(PLACE, OTHER)
