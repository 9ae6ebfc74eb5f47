"""Records of a stack's machines: all there before any machine, none of a machine that serves ever overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from infra.google.gcp_settings import Api
from infra.providers.member_records import MemberRecordsProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session

ZONE, DOMAIN = "gemma4-v6e4", "gemma4-v6e4.internal"
PLACE = "projects/demo-project/managedZones"
PLACEHOLDER = "127.0.0.1"


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    with FakeGoogle() as running:
        body = {"name": ZONE, "dnsName": f"{DOMAIN}.", "visibility": "private"}
        session(running).post(Api.DNS, PLACE, body)
        yield running


@pytest.fixture
def provider(fake: FakeGoogle) -> MemberRecordsProvider:
    made = MemberRecordsProvider()
    made.session = lambda: session(fake, FakeTime())  # type: ignore[method-assign]
    return made


def inputs(*hosts: str) -> dict[str, Any]:
    return {"project": "demo-project", "zone": ZONE, "domain": DOMAIN, "hosts": list(hosts), "urn": None}


def addresses(fake: FakeGoogle) -> dict[str, str]:
    return {name.removesuffix(f".{DOMAIN}."): address for name, address in fake.dns.addresses(ZONE).items()}


def take(fake: FakeGoogle, host: str, address: str) -> None:
    """What a machine's supervisor does."""
    fake.dns.write(ZONE, f"{host}.{DOMAIN}.", address)


def test_all_hosts_get_a_placeholder_in_one_change(fake: FakeGoogle, provider: MemberRecordsProvider) -> None:
    provider.create(inputs("blue-a", "blue-b"))
    assert addresses(fake) == {"blue-a": PLACEHOLDER, "blue-b": PLACEHOLDER}
    (sent,) = fake.sent("POST", "/changes")
    assert sent.body["deletions"] == []
    assert sent.body["additions"][0] == {"name": f"blue-a.{DOMAIN}.", "type": "A", "ttl": 5, "rrdatas": [PLACEHOLDER]}


def test_a_machine_s_address_is_never_overwritten(fake: FakeGoogle, provider: MemberRecordsProvider) -> None:
    take(fake, "blue-a", "10.8.0.70")
    made = provider.create(inputs("blue-a", "blue-b")).outs or {}
    take(fake, "blue-b", "10.8.0.71")
    provider.update("id", made, inputs("blue-a", "blue-b", "teal-a"))
    assert addresses(fake) == {"blue-a": "10.8.0.70", "blue-b": "10.8.0.71", "teal-a": PLACEHOLDER}


@pytest.mark.parametrize("status", [404, 409, 412])
def test_a_change_that_another_one_has_overtaken_is_made_anew(
    fake: FakeGoogle, provider: MemberRecordsProvider, status: int
) -> None:
    fake.fault("POST", "/changes", status=status, times=2)
    provider.create(inputs("blue-a"))
    assert addresses(fake) == {"blue-a": PLACEHOLDER}


def test_a_machine_that_writes_between_the_read_and_the_change_keeps_its_record(
    fake: FakeGoogle, provider: MemberRecordsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = fake.dns.index
    looks: list[int] = []

    def then_written(*args: Any, **names: Any) -> Any:
        found = answer(*args, **names)
        looks.append(1)
        if len(looks) == 1:
            take(fake, "blue-a", "10.8.0.70")
        return found

    routes = [(m, p, then_written if h == answer else h) for m, p, h in fake.dns._routes]
    monkeypatch.setattr(fake.dns, "_routes", routes)
    provider.create(inputs("blue-a", "blue-b"))
    assert addresses(fake) == {"blue-a": "10.8.0.70", "blue-b": PLACEHOLDER}
    assert [sent.status for sent in fake.sent("POST", "/changes")] == [409, 200]


def test_a_record_that_somebody_deleted_is_put_back(fake: FakeGoogle, provider: MemberRecordsProvider) -> None:
    made = provider.create(inputs("blue-a", "blue-b")).outs or {}
    assert not provider.diff("id", made, inputs("blue-a", "blue-b")).changes
    fake.dns.write(ZONE, f"blue-b.{DOMAIN}.")
    seen = provider.read("id", made).outs or {}
    assert seen["missing"] == ["blue-b"]
    assert provider.diff("id", seen, inputs("blue-a", "blue-b")).changes
    provider.update("id", seen, inputs("blue-a", "blue-b"))
    assert addresses(fake)["blue-b"] == PLACEHOLDER


def test_a_zone_that_is_gone_takes_its_records_from_the_state(
    fake: FakeGoogle, provider: MemberRecordsProvider
) -> None:
    made = provider.create(inputs("blue-a")).outs or {}
    provider.delete("id", made)
    session(fake).delete(Api.DNS, f"{PLACE}/{ZONE}")
    assert provider.read("id", made).id == ""
    provider.delete("id", made)
    with pytest.raises(Exception, match="makes the zone anew"):
        provider.create(inputs("blue-a"))


def test_a_trouble_of_google_s_leaves_the_state_as_it_is(fake: FakeGoogle, provider: MemberRecordsProvider) -> None:
    made = provider.create(inputs("blue-a")).outs or {}
    fake.fault("GET", "/rrsets", status=503, times=99)
    assert provider.read("id", made).outs == made


def test_whatever_stands_there_goes_in_the_end_and_what_is_not_ours_stays(
    fake: FakeGoogle, provider: MemberRecordsProvider
) -> None:
    made = provider.create(inputs("blue-a", "blue-b", "blue-c")).outs or {}
    take(fake, "blue-a", "10.8.0.70")
    take(fake, "somebody", "10.0.0.1")
    fake.dns.write(ZONE, f"blue-b.{DOMAIN}.")
    provider.delete("id", made)
    assert addresses(fake) == {"somebody": "10.0.0.1"}


def test_a_host_that_is_no_longer_named_loses_its_record(fake: FakeGoogle, provider: MemberRecordsProvider) -> None:
    made = provider.create(inputs("blue-a", "teal-a")).outs or {}
    take(fake, "blue-a", "10.8.0.70")
    provider.update("id", made, inputs("blue-a"))
    assert addresses(fake) == {"blue-a": "10.8.0.70"}


def test_a_refusal_is_one_line(fake: FakeGoogle, provider: MemberRecordsProvider) -> None:
    fake.fault("POST", "/changes", status=403, message="Permission 'dns.changes.create' denied")
    with pytest.raises(Exception, match=r"dns\.changes\.create") as caught:
        provider.create(inputs("blue-a"))
    assert "\n" not in str(caught.value)
