"""`gemma4 zones`, `tpu status` and `tpu husks` against the fake Google: what is seen, what is deleted, what to do next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import time as now
from typing import Any

import pytest
import yaml

from infra.catalog import catalog
from infra.google.tpu import TpuZone
from infra.google.tpu_types import QueueState, SliceRequest, queued_resource_body
from infra.ops.cli import run
from infra.ops.slice_status import SliceStatus, read_supervisor, slice_statuses
from infra.ops.zone_survey import ZoneRow
from infra.planning.planner import make_plan
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session

ZONE = "us-east5-a"
QUOTA = "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI"
BLUE = "gemma4-v6e4-blue"


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    with FakeGoogle() as running:
        running.tpu.configure(pace=None, deletion_looks=0)
        yield running


@pytest.fixture(autouse=True)
def _project(fake: FakeGoogle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with two stack files whose `gcp:` settings point at the fake."""
    for variable in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_PROJECT", "GOOGLE_OAUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    google = {f"gcp:{key}": value for key, value in fake.settings().items()}
    for stack, accelerator, model in (("v6e4", "v6e-4", "gemma-4-26b-a4b-it"), ("l4", "l4", "gemma-4-e4b-it")):
        config = {**google, "gemma4:model": model, "gemma4:accelerator": accelerator}
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": config}))
    (tmp_path / "Pulumi.yaml").write_text("name: gemma4\nruntime: python\n")
    monkeypatch.chdir(tmp_path)


def queue(
    fake: FakeGoogle, name: str, *, zone: str = ZONE, state: str = "WAITING_FOR_RESOURCES", **labels: str
) -> None:
    body = queued_resource_body(
        SliceRequest(
            project="demo-project",
            zone=zone,
            node_id=name,
            accelerator_type="v6e-4",
            network="projects/demo-project/global/networks/n",
            subnetwork="projects/demo-project/regions/us-east5/subnetworks/s",
            service_account="sa@demo-project.iam.gserviceaccount.com",
            valid_until_duration_s=14400,
            max_run_duration_s=86400,
            labels=labels or {"app": "gemma4", "stack": "v6e4", "slice": "blue"},
        )
    )
    TpuZone(session(fake), zone).create(name, body)
    if state == "ACTIVE":
        fake.tpu.advance(name, to="ACTIVE")
    fake.tpu.advance(name, to=state)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


class TestZones:
    def test_a_row_holds_flex_start_quota_and_what_is_held(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.cloudquotas.set_quota("tpu.googleapis.com", QUOTA, ZONE, 8)
        fake.cloudquotas.set_quota("tpu.googleapis.com", QUOTA, "us-east5-b", 4)
        queue(fake, BLUE)
        queue(fake, "other", zone="us-east5-b", state="SUSPENDED", owner="ann")
        rows = {row["zone"]: row for row in answer(capsys, "zones", "v6e4")["zones"]}
        assert rows[ZONE] == {"zone": ZONE, "flex_start": True, "limit": 8, "held": 4, "room": True}
        assert (rows["us-east5-b"]["held"], rows["us-east5-b"]["room"]) == (4, False)
        assert (rows["europe-west4-a"]["limit"], rows["europe-west4-a"]["room"]) == (None, None)
        assert "us-central1-b" not in rows

    def test_all_shows_zones_without_flex_start_behind_the_others(self, capsys: pytest.CaptureFixture[str]) -> None:
        rows = answer(capsys, "zones", "v6e4", "--all")["zones"]
        assert [row["flex_start"] for row in rows] == sorted((row["flex_start"] for row in rows), reverse=True)
        assert "us-central1-b" in [row["zone"] for row in rows]

    def test_what_cannot_be_asked_is_a_gap_and_no_end(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.fault("GET", "/quotaInfos/", status=403, message="Permission 'cloudquotas.quotas.get' denied")
        fake.fault("GET", f"/{ZONE}/acceleratorTypes", status=403, message="no")
        found = answer(capsys, "zones", "v6e4")
        assert "roles/cloudquotas.viewer" in found["gaps"][0]
        assert found["gaps"][1].startswith(f"{ZONE}: ")
        assert ZONE not in [row["zone"] for row in found["zones"]]

    def test_no_room_anywhere_is_exit_3(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        for zone in fake.tpu.flex_zones:
            fake.cloudquotas.set_quota("tpu.googleapis.com", QUOTA, zone, 0)
        answer(capsys, "zones", "v6e4", code=3)

    def test_the_table_reads(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        fake.cloudquotas.set_quota("tpu.googleapis.com", QUOTA, ZONE, -1)
        assert run(["zones", "v6e4"]) == 0
        out = capsys.readouterr().out
        assert "no limit" in out
        assert "room for v6e-4" in out

    @pytest.mark.parametrize("arguments", [["zones", "l4"], ["zones", "--accelerator", "l4"], ["tpu", "status", "l4"]])
    def test_what_is_no_tpu_is_a_clean_error(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert run(arguments) == 2
        assert "TPU" in capsys.readouterr().err

    def test_without_limit_there_is_always_room(self) -> None:
        assert ZoneRow(ZONE, True, -1, 400).room(4) is True


class TestStatus:
    def test_nothing_queued_says_what_to_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["tpu", "status", "v6e4"]) == 1
        assert "pulumi up asks for it" in capsys.readouterr().out

    def test_a_serving_slice_shows_stage_and_time_left(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        said = {"schema": 1, "stage": "serving", "running": spec_hash(), "errors": []}
        fake.tpu.set_guest_attributes(BLUE, {"gemma4/status": json.dumps(said)})
        (row,) = answer(capsys, "tpu", "status", "v6e4")["slices"]
        assert row["supervisor"]["stage"] == "serving"
        assert 86300 < row["left_s"] <= 86400
        assert row["next"] == "nothing: it serves"

    @pytest.mark.parametrize("state", [state for state in QueueState if state is not QueueState.UNKNOWN])
    def test_every_state_has_a_next_step(self, fake: FakeGoogle, state: QueueState) -> None:
        fake.tpu.configure(deletion_looks=1)
        queue(fake, BLUE, state="ACTIVE")
        fake.tpu.advance(BLUE, to=state)
        (row,) = statuses(fake)
        assert row.next
        assert row.queue == state

    @pytest.mark.parametrize(
        ("said", "wanted"),
        [
            ({"stage": "serving", "running": "spec-old"}, "another specification"),
            ({"stage": "starting"}, "it is starting"),
            ({"stage": "waiting", "errors": [{"message": "registry answers 403"}]}, "reports trouble"),
        ],
    )
    def test_what_the_machine_says_decides(self, fake: FakeGoogle, said: dict[str, Any], wanted: str) -> None:
        queue(fake, BLUE, state="ACTIVE")
        fake.tpu.set_guest_attributes(BLUE, {"gemma4/status": json.dumps(said)})
        (row,) = statuses(fake)
        assert wanted in row.next

    def test_the_last_hour_asks_for_a_further_slice(self, fake: FakeGoogle) -> None:
        queue(fake, BLUE, state="ACTIVE")
        started = datetime.fromtimestamp(now() - 86400 + 1800, UTC).isoformat()
        fake.tpu.nodes[f"projects/demo-project/locations/{ZONE}/nodes/{BLUE}"]["createTime"] = started
        (row,) = statuses(fake)
        assert 1700 < (row.left_s or 0) <= 1800
        assert "queue a further slice" in row.next

    def test_a_change_under_way_is_shown_with_its_progress(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        said = {"stage": "serving", "running": "spec-1", "preparing": "spec-2", "weightsPercent": 40}
        fake.tpu.set_guest_attributes(BLUE, {"gemma4/status": json.dumps(said)})
        assert run(["tpu", "status", "v6e4"]) == 0
        assert "serving spec-1, preparing spec-2, 40 % of the weights are here" in capsys.readouterr().out

    def test_a_stranger_s_slice_is_named_as_one(self, fake: FakeGoogle) -> None:
        queue(fake, BLUE, owner="ann")
        (row,) = statuses(fake)
        assert "somebody else" in row.next

    @pytest.mark.parametrize("text", ["", "not json", "[]", '{"errors": null}'])
    def test_an_unreadable_report_is_no_report(self, text: str) -> None:
        assert read_supervisor({"status": text}).stage == ""


class TestHusks:
    def test_listing_deletes_nothing(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        queue(fake, "ended", state="SUSPENDED")
        queue(fake, "alive", state="ACTIVE")
        assert run(["tpu", "husks", "v6e4"]) == 0
        out = capsys.readouterr().out
        assert "ended" in out
        assert "alive" not in out
        assert "--delete" in out
        assert len(fake.tpu.resources) == 2

    def test_delete_takes_ours_and_leaves_the_living_and_the_strangers(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, "ours", state="FAILED")
        queue(fake, "alive", state="ACTIVE")
        queue(fake, "strangers", zone="europe-west4-a", state="SUSPENDED", owner="ann")
        assert answer(capsys, "tpu", "husks", "v6e4", "--delete")["deleted"] == ["ours"]
        assert left(fake) == ["alive", "strangers"]
        assert answer(capsys, "tpu", "husks", "v6e4", "--delete", "--everybody")["deleted"] == ["strangers"]
        assert left(fake) == ["alive"]

    def test_one_that_cannot_be_deleted_is_exit_1_and_the_others_go(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, "a", state="FAILED")
        queue(fake, "b", state="FAILED")
        fake.fault("DELETE", "/queuedResources/a", status=403, message="Permission 'tpu.queuedResources.delete' denied")
        found = answer(capsys, "tpu", "husks", "v6e4", "--delete", code=1)
        assert "roles/tpu.admin" in found["failed"]["a"]
        assert left(fake) == ["a"]

    def test_a_zone_that_does_not_answer_is_named(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        fake.tpu.configure(unreachable=[ZONE])
        assert f"{ZONE}: did not answer" in answer(capsys, "tpu", "husks", "v6e4")["gaps"]

    def test_without_a_project_the_error_says_what_to_set(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["tpu", "husks"]) == 1
        assert "GOOGLE_CLOUD_PROJECT" in capsys.readouterr().err


def plan() -> Any:
    settings = {"model": "gemma-4-26b-a4b-it", "accelerator": "v6e-4"}
    return make_plan("v6e4", settings, project="demo-project", facts=catalog())


def statuses(fake: FakeGoogle) -> list[SliceStatus]:
    planned = plan()
    return slice_statuses(session(fake, FakeTime(now())), planned, planned.slices)


def spec_hash() -> str:
    return str(plan().command.spec_hash)


def left(fake: FakeGoogle) -> list[str]:
    return sorted(name.rsplit("/", 1)[-1] for name in fake.tpu.resources)
