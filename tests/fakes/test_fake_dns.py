"""The fake Cloud DNS refuses what Google refuses: whoever relies on an atomic change is held to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.fakes.google import FakeGoogle

ZONES = "dns/v1/projects/demo-project/managedZones"
ZONE = f"{ZONES}/gemma4-v6e4"
NAME = "blue-a.gemma4-v6e4.internal."
NETWORK = "projects/demo-project/global/networks/gemma4-v6e4"
ADDRESS = f"{ZONE}/rrsets/{NAME}/A"


def call(fake: FakeGoogle, method: str, path: str, body: Any = None, **query: str) -> requests.Response:
    headers = {"Authorization": "Bearer token"}
    return requests.request(method, f"{fake.url}/{path}", json=body, params=query, headers=headers, timeout=5)


def record(address: str = "127.0.0.1", name: str = NAME, ttl: int = 5) -> dict[str, Any]:
    return {"name": name, "type": "A", "ttl": ttl, "rrdatas": [address]}


def change(fake: FakeGoogle, deletions: list[Any], additions: list[Any]) -> requests.Response:
    return call(fake, "POST", f"{ZONE}/changes", {"deletions": deletions, "additions": additions})


def reason(response: requests.Response) -> tuple[int, str]:
    (error,) = response.json()["error"]["errors"]
    return response.status_code, error["reason"]


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    """With a private zone in a network."""
    with FakeGoogle() as running:
        call(running, "POST", "compute/v1/projects/demo-project/global/networks", {"name": "gemma4-v6e4"})
        link = f"https://www.googleapis.com/compute/v1/{NETWORK}"
        zone = {
            "name": "gemma4-v6e4",
            "dnsName": "gemma4-v6e4.internal.",
            "visibility": "private",
            "privateVisibilityConfig": {"networks": [{"networkUrl": link}]},
        }
        assert call(running, "POST", ZONES, zone).ok
        yield running


class TestAZone:
    def test_a_zone_has_its_own_record_sets_from_the_first(self, fake: FakeGoogle) -> None:
        shown = call(fake, "GET", f"{ZONE}/rrsets").json()["rrsets"]
        assert [one["type"] for one in shown] == ["NS", "SOA"]

    def test_a_zone_is_made_once(self, fake: FakeGoogle) -> None:
        zone = {"name": "gemma4-v6e4", "dnsName": "gemma4-v6e4.internal."}
        assert reason(call(fake, "POST", ZONES, zone)) == (409, "alreadyExists")

    def test_a_zone_with_records_is_not_deleted(self, fake: FakeGoogle) -> None:
        change(fake, [], [record()])
        assert reason(call(fake, "DELETE", ZONE)) == (400, "containerNotEmpty")
        change(fake, [record()], [])
        assert call(fake, "DELETE", ZONE).ok
        assert reason(call(fake, "GET", ZONE)) == (404, "notFound")

    def test_a_zone_keeps_its_network(self, fake: FakeGoogle) -> None:
        assert not call(fake, "DELETE", f"compute/v1/{NETWORK}").ok
        call(fake, "DELETE", ZONE)
        assert call(fake, "DELETE", f"compute/v1/{NETWORK}").ok

    def test_a_zone_has_a_policy_of_its_own(self, fake: FakeGoogle) -> None:
        policy = {"bindings": [{"role": "roles/dns.reader", "members": ["user:a@example.com"]}]}
        call(fake, "POST", f"{ZONE}:setIamPolicy", {"policy": policy})
        assert call(fake, "POST", f"{ZONE}:getIamPolicy").json()["bindings"] == policy["bindings"]
        assert not call(fake, "POST", f"{ZONES}/other:getIamPolicy").ok


class TestAChange:
    def test_a_change_replaces_what_is_there_at_once(self, fake: FakeGoogle) -> None:
        change(fake, [], [record()])
        assert change(fake, [record()], [record("10.0.0.7")]).json()["status"] == "done"
        assert call(fake, "GET", ADDRESS).json()["rrdatas"] == ["10.0.0.7"]
        assert fake.dns.addresses("gemma4-v6e4") == {NAME: "10.0.0.7"}

    @pytest.mark.parametrize(
        ("deletions", "additions", "refusal"),
        [
            ([record("10.0.0.9")], [record("10.0.0.7")], (412, "conditionNotMet")),
            ([record(ttl=300)], [record("10.0.0.7")], (412, "conditionNotMet")),
            ([], [record("10.0.0.7")], (409, "alreadyExists")),
            ([record(name=f"other.{NAME}")], [], (404, "notFound")),
            ([record()], [record("10.0.0")], (400, "invalid")),
            ([record()], [record(name="blue-a.another.internal.")], (400, "invalid")),
            ([record()], [{**record(), "rrdatas": []}], (400, "required")),
            ([], [], (400, "required")),
        ],
        ids=[
            "of another address", "of another ttl", "without taking away", "of what is not there", "to no address",
            "outside of the zone", "to nothing", "of nothing",
        ],
    )  # fmt: skip
    def test_a_change_that_does_not_fit_changes_nothing(
        self, fake: FakeGoogle, deletions: list[Any], additions: list[Any], refusal: tuple[int, str]
    ) -> None:
        change(fake, [], [record()])
        assert reason(change(fake, deletions, additions)) == refusal
        assert fake.dns.addresses("gemma4-v6e4") == {NAME: "127.0.0.1"}

    def test_a_change_of_the_zones_own_records_leaves_them_there(self, fake: FakeGoogle) -> None:
        (soa,) = call(fake, "GET", f"{ZONE}/rrsets", name="gemma4-v6e4.internal.", type="SOA").json()["rrsets"]
        assert reason(change(fake, [soa], [])) == (400, "invalid")
        assert change(fake, [soa], [{**soa, "ttl": 60}]).ok

    def test_a_change_is_made_by_one_of_many_at_a_time(self, fake: FakeGoogle) -> None:
        change(fake, [], [record()])
        answers: list[int] = []

        def take(number: int) -> None:
            answers.append(change(fake, [record()], [record(f"10.0.0.{number}")]).status_code)

        threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [200, *[412] * 5]

    def test_a_change_may_be_pending_for_a_while(self, fake: FakeGoogle) -> None:
        fake.dns.change_polls = 2
        begun = change(fake, [], [record()]).json()
        assert begun["status"] == "pending"
        states = [call(fake, "GET", f"{ZONE}/changes/{begun['id']}").json()["status"] for _ in range(2)]
        assert states == ["pending", "done"]


class TestPermissions:
    def test_a_change_needs_what_it_does_to_the_records(self, fake: FakeGoogle) -> None:
        change(fake, [], [record()])
        fake.dns.deny("dns.resourceRecordSets.update")
        assert change(fake, [record()], [record("10.0.0.7")]).status_code == 403
        assert change(fake, [record()], []).ok
        fake.dns.deny("dns.resourceRecordSets.create")
        refused = change(fake, [], [record()])
        assert refused.status_code == 403
        assert "dns.resourceRecordSets.create" in refused.text
        fake.dns.allow("dns.resourceRecordSets.create")
        assert change(fake, [], [record()]).ok

    def test_a_caller_can_be_given_a_few_permissions_and_no_others(self, fake: FakeGoogle) -> None:
        fake.dns.granted = {"dns.managedZones.get"}
        assert call(fake, "GET", ZONE).ok
        assert call(fake, "GET", f"{ZONE}/rrsets").status_code == 403
        assert call(fake, "DELETE", ZONE).status_code == 403


class TestCustomRoles:
    def test_a_deleted_role_keeps_its_name_until_it_is_undeleted(self, fake: FakeGoogle) -> None:
        roles = "iam/v1/projects/demo-project/roles"
        body = {"roleId": "gemma4_member", "role": {"title": "t", "includedPermissions": ["dns.changes.create"]}}
        assert call(fake, "POST", roles, body).ok
        assert call(fake, "POST", roles, body).status_code == 409
        assert f"{roles.replace('/v1', '')}/gemma4_member" in fake.leftovers()
        call(fake, "DELETE", f"{roles}/gemma4_member")
        assert call(fake, "POST", roles, body).status_code == 400
        assert call(fake, "GET", f"{roles}/gemma4_member").json()["deleted"] is True
        assert not any("roles" in left for left in fake.leftovers())
        call(fake, "POST", f"{roles}/gemma4_member:undelete")
        assert "deleted" not in call(fake, "GET", f"{roles}/gemma4_member").json()
