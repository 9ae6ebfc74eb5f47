"""A subnetwork that Cloud Run still holds on to is removed in the end, or the error says that it is still there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.session import Retry
from infra.google.subnets import remove_subnetwork
from infra.providers.subnet_cleanup import SubnetCleanupProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session

PLACE = {"project": "demo-project", "region": "us-east5", "name": "s", "cidr": "10.8.0.0/26", "service": ""}
SUBNETS = "projects/demo-project/regions/us-east5/subnetworks"


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    with FakeGoogle() as running:
        session(running).post(Api.COMPUTE, SUBNETS, {"name": "s", "ipCidrRange": "10.8.0.0/26"})
        yield running


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


def remove(fake: FakeGoogle, time: FakeTime, timeout_s: float = 7200, **options: Any) -> None:
    remove_subnetwork(session(fake, time), "demo-project", "us-east5", "s", timeout_s=timeout_s, **options)


def hold(fake: FakeGoogle) -> None:
    """An address in the subnetwork, as Cloud Run keeps one for an hour or two."""
    address = {"name": "serverless-ipv4-1", "subnetwork": f"{SUBNETS}/s"}
    session(fake).post(Api.COMPUTE, "projects/demo-project/regions/us-east5/addresses", address)


def test_a_free_one_goes_at_once(fake: FakeGoogle, time: FakeTime) -> None:
    remove(fake, time)
    assert fake.leftovers() == []
    assert sum(time.pauses) <= 1


def test_one_in_use_is_asked_for_until_it_goes(fake: FakeGoogle, time: FakeTime) -> None:
    hold(fake)
    shown: list[str] = []

    def show(message: str) -> None:
        shown.append(message)
        if len(shown) == 100:
            fake.compute.remove("projects/demo-project/regions/us-east5/addresses/serverless-ipv4-1")

    remove(fake, time, progress=show)
    assert fake.leftovers() == []
    assert 1800 < sum(time.pauses) < 2100
    assert "serverless-ipv4-1" in shown[0]
    assert shown[0].startswith(
        "waiting 0 min for Cloud Run to free the subnet's addresses, which takes one to two hours"
    )
    assert re.match(r"waiting (29|30|31|32|33) min ", shown[-1])


def test_one_that_stays_is_an_error_that_says_what_to_run(fake: FakeGoogle, time: FakeTime) -> None:
    hold(fake)
    with pytest.raises(GoogleError, match=r"still in use after 120 min.*pulumi destroy"):
        remove(fake, time)


def test_what_is_forbidden_is_not_waited_for(fake: FakeGoogle, time: FakeTime) -> None:
    fake.fault("DELETE", "/subnetworks/s", status=403, message="Permission 'compute.subnetworks.delete' denied")
    with pytest.raises(GoogleError, match=r"compute\.subnetworks\.delete; grant roles/compute\.networkAdmin"):
        remove(fake, time)
    assert time.pauses == []


def test_a_storm_is_outlasted(fake: FakeGoogle, time: FakeTime) -> None:
    fake.fault("DELETE", "/subnetworks/s", times=20, status=503)
    remove(fake, time)
    assert fake.leftovers() == []


class TestTheResource:
    def test_creating_it_asks_nothing_and_deleting_it_removes_the_subnetwork(
        self, fake: FakeGoogle, time: FakeTime
    ) -> None:
        provider = SubnetCleanupProvider()
        provider.session = lambda: session(fake, time)  # type: ignore[method-assign]
        fake.clear()
        created = provider.create(PLACE)
        assert fake.requests == []
        provider.delete(created.id, created.outs or {})
        assert fake.leftovers() == []

    def test_another_subnetwork_is_another_cleanup(self) -> None:
        provider = SubnetCleanupProvider()
        assert provider.diff("", PLACE, {**PLACE, "urn": "u"}).changes is False
        moved = provider.diff("", PLACE, {**PLACE, "region": "us-east4"})
        assert (moved.changes, moved.replaces or []) == (True, [])

    def test_wherever_it_has_been_is_cleared_at_its_end_and_not_before(self, fake: FakeGoogle, time: FakeTime) -> None:
        provider = SubnetCleanupProvider()
        provider.session = lambda: session(fake, time)  # type: ignore[method-assign]
        first = provider.create(PLACE).outs or {}
        moved = provider.update("", first, {**PLACE, "region": "us-east4"}).outs or {}
        back = provider.update("", moved, PLACE).outs or {}
        assert [place["region"] for place in back["places"]] == ["us-east4", "us-east5"]
        assert fake.leftovers() != []
        provider.delete("", back)
        assert fake.leftovers() == []

    def test_it_looks_where_it_was_made_whatever_the_project_is_now(self, fake: FakeGoogle, time: FakeTime) -> None:
        provider = SubnetCleanupProvider()
        provider.session = lambda: session(fake, time, project="other-project")  # type: ignore[method-assign]
        provider.delete("", provider.create(PLACE).outs or {})
        assert fake.leftovers() == []

    @pytest.mark.parametrize(
        ("change", "key"), [({"cidr": "10.9.0.0/26"}, "network.subnetCidr"), ({"region": "us-east4"}, "region")]
    )
    def test_one_that_cloud_run_holds_cannot_move_under_a_living_service(
        self, fake: FakeGoogle, time: FakeTime, change: dict[str, str], key: str
    ) -> None:
        held = {**PLACE, "service": "gateway"}
        provider = SubnetCleanupProvider()
        provider.session = lambda: session(fake, time, retry=Retry(attempts=1))  # type: ignore[method-assign]
        nobody_there = provider.diff("", held, {**held, **change})
        assert (nobody_there.changes, nobody_there.replaces or []) == (True, [])
        fake.fault("GET", "/services/gateway", status=503)
        with pytest.raises(Exception, match=rf"^{key} cannot change.*pulumi destroy"):
            provider.diff("", held, {**held, **change})
        service = {"template": {"containers": [{"image": "haproxy"}]}}
        place = "projects/demo-project/locations/us-east5/services"
        session(fake).post(Api.CLOUD_RUN, place, service, serviceId="gateway")
        with pytest.raises(Exception, match=rf"^{key} cannot change.*pulumi destroy"):
            provider.diff("", held, {**held, **change})
