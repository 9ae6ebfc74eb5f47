"""`gemma4 zones`, `tpu status` and `tpu ended` against the fake Google: what is seen, what is deleted, what to do next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import time as now
from typing import Any

import pytest
import yaml

from infra.catalog import catalog
from infra.google.supervisor_report import read_report
from infra.google.tpu_types import QueueState
from infra.ops.cli import run
from infra.ops.tpu.read_slices import slice_statuses
from infra.ops.tpu.slice_status import SliceStatus
from infra.ops.tpu.zone_survey import ZoneRow
from infra.planning.planner import make_plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session
from tests.fakes.google.queued_slice import queue_slice
from tests.fakes.member_records import make_member_zone, route_to_machine
from tests.projects import assert_has_its_form

ZONE = "us-east5-a"
QUOTA = "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI"
BLUE, BLUE_B = "gemma4-v6e4-blue-a", "gemma4-v6e4-blue-b"


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
    make_member_zone(fake, plan().names)


def queue(
    fake: FakeGoogle, name: str, *, zone: str = ZONE, state: str = "WAITING_FOR_RESOURCES", **labels: str
) -> None:
    full = queue_slice(session(fake), name, zone=zone, labels=labels)
    if state == "ACTIVE":
        fake.tpu.advance(full, to="ACTIVE")
    fake.tpu.advance(full, to=state)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == code
    said = capsys.readouterr().out
    assert_has_its_form([*arguments, "--json"], said)
    found: dict[str, Any] = json.loads(said)
    return found


class TestZones:
    def test_a_row_of_zones_holds_flex_start_quota_and_what_is_held(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        give(fake, {ZONE: 8, "us-east5-b": 4}, {"us-east5": 100})
        queue(fake, BLUE)
        queue(fake, "other", zone="us-east5-b", state="SUSPENDED", owner="ann")
        rows = {row["zone"]: row for row in answer(capsys, "zones", "v6e4")["zones"]}
        assert rows[ZONE] == {
            "zone": ZONE,
            "flexStart": True,
            "limit": 8,
            "held": 4,
            "regionLimit": 100,
            "regionHeld": 8,
            "room": True,
        }
        assert (rows["us-east5-b"]["held"], rows["us-east5-b"]["room"]) == (4, False)
        assert (rows["europe-west4-a"]["limit"], rows["europe-west4-a"]["room"]) == (None, None)
        assert "us-central1-b" not in rows

    def test_the_smaller_quota_of_zone_and_region_decides_whether_there_is_room(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        give(fake, {ZONE: 8, "us-east5-b": 8}, {"us-east5": 4})
        queue(fake, "other", zone="us-east5-b")
        rows = {row["zone"]: row for row in answer(capsys, "zones", "v6e4")["zones"]}
        assert (rows[ZONE]["held"], rows[ZONE]["room"]) == (0, False)

    def test_the_stacks_own_provisioning_names_the_quota_and_what_counts_against_it(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        give(fake, {ZONE: 64}, {}, quota="TPUV6EPerProjectPerZoneForTPUAPI")
        give(fake, {ZONE: 4}, {})
        queue(fake, "flex")
        queue(fake, "bought")
        for key in ("provisioningModel", "runDuration"):
            del record(fake, "bought")[key]
        queue(fake, "older")
        record(fake, "older")["tpu"]["nodeSpec"][0]["node"]["acceleratorType"] = "v5litepod-16"
        rows = {row["zone"]: row for row in answer(capsys, "zones", "v6e4")["zones"]}
        assert (rows[ZONE]["limit"], rows[ZONE]["held"]) == (4, 4)
        text = Path("Pulumi.v6e4.yaml").read_text() + "  gemma4:tpu: {provisioning: on-demand}\n"
        Path("Pulumi.v6e4.yaml").write_text(text)
        found = answer(capsys, "zones", "v6e4")
        rows = {row["zone"]: row for row in found["zones"]}
        assert (rows[ZONE]["limit"], rows[ZONE]["held"]) == (64, 4)
        assert found["quota"] == "TPUV6EPerProjectPerZoneForTPUAPI"
        assert "us-central1-b" in rows  # which takes every provisioning but flex-start

    def test_the_option_all_shows_zones_without_flex_start_behind_the_others(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = answer(capsys, "zones", "v6e4", "--all")["zones"]
        assert [row["flexStart"] for row in rows] == sorted((row["flexStart"] for row in rows), reverse=True)
        assert "us-central1-b" in [row["zone"] for row in rows]

    def test_a_zone_that_refused_flex_start_is_told_from_one_that_nobody_tried(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["zones", "v6e4", "--all"]) == 0
        shown = {row.split()[0]: row.split()[1] for row in capsys.readouterr().out.splitlines() if "-" in row[:12]}
        assert [shown[zone] for zone in (ZONE, "us-central1-b", "us-east1-d")] == ["yes", "refused", "untried"]

    def test_a_zone_or_quota_that_cannot_be_asked_is_a_gap_and_the_rest_is_shown(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        give(fake, {"us-east5-b": 8}, {"us-east5": 8})
        fake.fault("GET", f"/quotaInfos/{QUOTA}", status=403, message="Permission 'cloudquotas.quotas.get' denied")
        fake.fault("GET", f"/{ZONE}/acceleratorTypes", status=403, message="no")
        fake.tpu.configure(unreachable=["europe-west4-a"])
        found = answer(capsys, "zones", "v6e4")
        assert "roles/cloudquotas.viewer" in found["gaps"][0]
        assert found["gaps"][1].startswith(f"{ZONE}: ")
        assert "europe-west4-a: did not answer" in found["gaps"]
        rows = {row["zone"]: row for row in found["zones"]}
        assert ZONE not in rows
        assert (rows["us-east5-b"]["regionLimit"], rows["us-east5-b"]["room"]) == (8, None)
        assert (rows["europe-west4-a"]["held"], rows["europe-west4-a"]["room"]) == (None, None)

    def test_a_quota_that_nobody_knows_is_a_gap(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        give(fake, {ZONE: 8}, {})
        found = answer(capsys, "zones", "v6e4")
        assert [gap for gap in found["gaps"] if "PerRegion" in gap and "unknown" in gap]
        assert next(row for row in found["zones"] if row["zone"] == ZONE)["room"] is True

    def test_zones_of_which_none_answers_are_an_error_and_not_full(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.fault("GET", "/acceleratorTypes", status=403, message="no", times=99)
        assert run(["zones", "v6e4"]) == 1
        said = capsys.readouterr().err
        assert "No zone could be asked" in said
        assert "room" not in said

    def test_zones_without_room_anywhere_end_with_3(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        give(fake, dict.fromkeys(fake.tpu.flex_zones, 0), {})
        answer(capsys, "zones", "v6e4", code=3)

    def test_the_table_of_zones_shows_room_and_no_limit(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.cloudquotas.set_quota("tpu.googleapis.com", QUOTA, ZONE, -1)
        assert run(["zones", "v6e4"]) == 0
        out = capsys.readouterr().out
        assert "no limit" in out
        head, units = out.splitlines()[:2]
        assert (head.split()[-2:], units.split()[-1]) == (["room", "for"], "v6e-4")

    @pytest.mark.parametrize("arguments", [["zones", "l4"], ["zones", "--accelerator", "l4"], ["tpu", "status", "l4"]])
    def test_a_stack_or_accelerator_without_zones_is_a_clean_error(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(arguments) == 2
        said = capsys.readouterr().err
        assert ("TPU" if arguments[0] == "tpu" else "l4 is not a machine that is asked for by zone") in said

    def test_a_zone_without_a_limit_always_has_room(self) -> None:
        assert ZoneRow(ZONE, True, -1, 400, None, None).room(4) is True


class TestAdvice:
    """Google's word about a machine of Compute Engine: what is not said is a gap, and never 0."""

    def test_of_a_machine_with_gpus_is_a_row_a_zone_with_the_likeliest_first(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        offer(fake, {"us-central1-b": 0.2, "us-west1-c": 0.9, "europe-west4-a": 0.0})
        fake.compute.spot_usd["us-west1-c", G4] = [3.25, 3.5]
        found = answer(capsys, "zones", "v6e4", "--accelerator", "g4-2", "--all")
        assert (found["machineTypes"], found["zones"], found["quota"], found["gaps"]) == ([G4], [], "", [])
        assert [(row["zone"], row["obtainability"]) for row in found["advice"]] == [
            ("us-west1-c", 0.9),
            ("us-central1-b", 0.2),
            ("europe-west4-a", 0.0),
        ]
        best, other, _ = found["advice"]
        assert (best["spotUsdPerHour"], best["spotSince"]) == (3.5, "2026-11-11T00:00:00Z")  # the newest, not the first
        assert best["preempted"] == pytest.approx(0.15)
        assert (best["uptimeS"], best["provisioning"]) == (21600, "SPOT")
        assert (other["spotUsdPerHour"], other["spotSince"], other["preempted"]) == (None, "", None)
        assert run(["zones", "v6e4", "--accelerator", "g4-2", "--all"]) == 0
        shown = capsys.readouterr().out
        (line,) = (line for line in shown.splitlines() if line.startswith("us-west1-c"))
        assert line.split() == ["us-west1-c", G4, "SPOT", "90%", "6", "h", "$3.50", "15%"]
        assert len(line) <= 80
        assert "the newest of 2026-11-11" in " ".join(shown.split())

    def test_without_the_option_all_is_asked_where_the_catalog_knows_the_machine(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        offer(fake, {"us-central1-b": 0.2, "asia-south1-b": 0.9})
        found = answer(capsys, "zones", "v6e4", "--accelerator", "g4-2")
        assert [row["zone"] for row in found["advice"]] == ["us-central1-b"]
        assert not fake.sent("GET", "aggregated/machineTypes")

    def test_of_a_stack_is_for_its_shapes_zones_and_terms(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        google = {f"gcp:{key}": value for key, value in fake.settings().items()}
        machine = {
            "zones": ["us-central1-b", "us-central1-f"],
            "shapes": [G4, "g4-standard-192"],
            "provisioning": "spot",
        }
        config = {**google, "gemma4:model": "gemma-4-31b-it", "gemma4:accelerator": "g4-2", "gemma4:machine": machine}
        Path("Pulumi.g4x2.yaml").write_text(yaml.safe_dump({"config": config}))
        offer(fake, {"us-central1-f": 0.9})
        fake.compute.obtainability["us-central1-b", "g4-standard-192"] = 0.3
        found = answer(capsys, "zones", "g4x2")
        assert found["machineTypes"] == [G4, "g4-standard-192"]
        assert [(row["zone"], row["machineType"]) for row in found["advice"]] == [
            ("us-central1-f", G4),
            ("us-central1-b", "g4-standard-192"),
        ]

    def test_that_no_zone_can_give_one_ends_with_3(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        offer(fake, {"us-central1-b": 0.0})
        answer(capsys, "zones", "v6e4", "--accelerator", "g4-2", code=3)

    @pytest.mark.parametrize("status", [403, 404])
    def test_that_nobody_gives_is_an_error_for_gpus_and_asked_for_once(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str], status: int
    ) -> None:
        offer(fake, {"us-central1-b": 0.5, "us-west1-c": 0.5})
        fake.fault("POST", "/advice/", status=status, message="Required 'compute.advice.capacity' permission", times=99)
        assert run(["zones", "v6e4", "--accelerator", "g4-2", "--all"]) == 1
        assert "where there is capacity is unknown" in capsys.readouterr().err
        assert len(fake.sent("POST", "advice/capacity")) <= 2  # one of each kind

    def test_for_a_model_that_google_does_not_answer_is_that_for_spot(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        give(fake, {ZONE: 8, "us-east5-b": 8}, {"us-east5": 100})
        fake.compute.obtainability = {(ZONE, "ct6e-standard-4t"): 0.4, ("us-east5-b", "ct6e-standard-4t"): 0.6}
        found = answer(capsys, "zones", "v6e4")
        assert [(row["zone"], row["provisioning"]) for row in found["advice"]] == [
            ("us-east5-b", "SPOT"),
            (ZONE, "SPOT"),
        ]
        (gap,) = [one for one in found["gaps"] if "advice" in one]
        assert gap.startswith("advice for FLEX_START on ct6e-standard-4t: ")
        assert gap.endswith("Asked about SPOT instead.")
        refused = [one for one in fake.sent("POST", "advice/capacity") if "FLEX_START" in str(one.body)]
        assert len(refused) == 1

    def test_that_is_refused_leaves_the_quotas_of_tpus_as_they_are(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        give(fake, {ZONE: 8}, {"us-east5": 100})
        fake.fault("POST", "/advice/", status=403, message="no", times=99)
        found = answer(capsys, "zones", "v6e4")
        assert found["advice"] == []
        assert next(row for row in found["zones"] if row["zone"] == ZONE)["room"] is True
        assert len([one for one in found["gaps"] if one.startswith(("advice in", "spot prices in"))]) == 2

    def test_of_zones_that_are_not_told_is_asked_where_the_catalog_knows_the_machine(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        offer(fake, {"us-central1-b": 0.5})
        fake.fault("GET", "aggregated/machineTypes", status=403, message="no", times=9)
        found = answer(capsys, "zones", "v6e4", "--accelerator", "g4-2", "--all")
        assert [row["zone"] for row in found["advice"]] == ["us-central1-b"]
        assert "Those of the catalog were asked." in found["gaps"][0]


G4 = "g4-standard-96"


def offer(fake: FakeGoogle, likely: Mapping[str, float]) -> None:
    """Let zones list a machine with two GPUs, and Google say how likely one is to be had."""
    fake.compute.offers = {zone: [G4] for zone in likely} | {"us-east1-b": ["n2-standard-4"]}
    fake.compute.obtainability = {(zone, G4): value for zone, value in likely.items()}


class TestStatus:
    def test_a_stack_with_nothing_queued_says_what_to_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["tpu", "status", "v6e4"]) == 1
        assert "pulumi up makes one" in capsys.readouterr().out

    def test_a_serving_slice_shows_stage_and_time_left(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake, ago_s=20)
        (row,) = answer(capsys, "tpu", "status", "v6e4")["slices"]
        assert (row["supervisor"]["stage"], row["serving"]) == ("serving", True)
        assert 86300 < row["leftS"] <= 86400
        assert 20 <= row["supervisor"]["ageS"] < 40
        assert row["next"] == "nothing: it serves"
        assert run(["tpu", "status", "v6e4"]) == 0
        shown = capsys.readouterr().out
        end = datetime.fromtimestamp(now() + row["leftS"], UTC)
        assert f"ends {end:%Y-%m-%d} " in shown
        assert " UTC, " in shown
        assert "HEALTHY" in shown
        assert "reported 2" in shown

    @pytest.mark.parametrize("state", [state for state in QueueState if state is not QueueState.UNKNOWN])
    def test_every_state_of_a_slice_has_a_next_step_and_only_active_serves(
        self, fake: FakeGoogle, state: QueueState
    ) -> None:
        fake.tpu.configure(deletion_looks=1)
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        fake.tpu.advance(BLUE, to=state)
        (row,) = statuses(fake)
        assert row.next
        assert row.queue == state
        assert row.serving == (state is QueueState.ACTIVE)

    @pytest.mark.parametrize(
        ("said", "wanted", "serving"),
        [
            ({"stage": "serving", "running": "spec-old"}, "another specification", False),
            ({"stage": "starting"}, "it is starting", False),
            (
                {"stage": "waiting", "errors": [{"message": "registry answers 403"}]},
                "reports trouble: registry answers 403; ",
                False,
            ),
            (
                {"stage": "serving", "errors": [{"message": "registry answers 403"}]},
                "reports trouble: registry answers 403; ",
                True,
            ),
            ({"stage": "serving", "maintenance": "TERMINATE_ON_HOST_MAINTENANCE"}, "Google announces", True),
        ],
    )
    def test_the_report_of_the_supervisor_decides_what_to_do_next(
        self, fake: FakeGoogle, said: dict[str, Any], wanted: str, serving: bool
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake, **said)
        (row,) = statuses(fake)
        assert wanted in row.next
        assert row.serving is serving
        shows = f'gcloud logging read \'resource.type="generic_node" AND resource.labels.namespace="gemma4" AND \
resource.labels.node_id="{BLUE}"'
        assert (shows in row.next) is ("errors" in said)

    def test_a_report_that_is_five_minutes_old_says_nothing_about_now(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake, ago_s=400)
        assert run(["tpu", "status", "v6e4"]) == 1
        shown = capsys.readouterr().out
        assert "serving" in shown
        assert "has not reported for 6 min" in shown

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_report_that_google_does_not_hand_out_is_not_taken_for_silence(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str], status: int
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        message = "Permission 'tpu.nodes.getGuestAttributes' denied"
        fake.fault("POST", ":getGuestAttributes", status=status, message=message, times=9)
        assert run(["tpu", "status", "v6e4"]) == 1
        shown = " ".join(capsys.readouterr().out.split())
        assert "no report yet" not in shown
        assert {401: "Google no longer accepts these credentials", 403: "roles/tpu.admin"}[status] in shown

    def test_the_first_fault_of_a_slice_decides_what_to_do_next(self, fake: FakeGoogle) -> None:
        """Queue, owner, machine, health, report, specification, maintenance, time left, stage."""
        queue(fake, BLUE, state="ACTIVE")
        found = node(fake)
        ends_in(fake, 1800)
        report(fake, stage="starting")
        steps: list[tuple[dict[str, Any], str]] = [
            ({}, "it ends in 30 min"),
            ({"upcomingMaintenance": {"windowStartTime": "2027-01-15T10:00:00Z"}}, "2027-01-15 10:00 UTC"),
            ({"health": "UNHEALTHY_TPU", "healthDescription": "a chip is lost"}, "UNHEALTHY_TPU"),
            ({"state": "REPAIRING"}, "REPAIRING"),
        ]
        for fields, wanted in steps:
            found.update(fields)
            assert wanted in statuses(fake)[0].next
            assert not statuses(fake)[0].serving
        found["labels"]["stack"] = "theirs"
        record(fake)["tpu"]["nodeSpec"][0]["node"]["labels"] = {"stack": "theirs"}
        assert "foreign" in statuses(fake)[0].next

    def test_the_health_and_maintenance_of_a_machine_are_shown(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        node(fake).update(
            health="UNHEALTHY_TPU",
            healthDescription="a chip is lost",
            upcomingMaintenance={"windowStartTime": "2027-01-15T10:00:00Z"},
        )
        assert run(["tpu", "status", "v6e4"]) == 1
        shown = capsys.readouterr().out
        assert "UNHEALTHY_TPU: a chip is lost" in shown
        assert "maintenance 2027-01-15 10:00 UTC" in " ".join(shown.split())

    @pytest.mark.parametrize("tells", [True, False])
    def test_the_last_hours_of_a_slice_ask_for_the_next_one(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str], tells: bool
    ) -> None:
        """By Google's own word for the end, which a machine that took long to come keeps apart from its creation."""
        fake.tpu.configure(tells_end=tells)
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        if tells:
            ends_in(fake, 1800)
        else:
            node(fake)["createTime"] = datetime.fromtimestamp(now() - 86400 + 1800, UTC).isoformat()
        (row,) = statuses(fake)
        assert 1700 < (row.left_s or 0) <= 1800
        assert row.next == "it ends in 30 min: gemma4 renew v6e4 asks for the next one"
        assert (row.serving, row.ends_guessed) == (True, not tells)
        assert run(["tpu", "status", "v6e4"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert ("left by its run duration, since Google does not say" in shown) is not tells

    def test_the_warning_before_the_end_goes_by_the_queue_and_the_start_of_the_plan(self, fake: FakeGoogle) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        lead_s = 1200 + plan().startup.extremes.high + 3600
        ends_in(fake, round(lead_s) + 60)
        assert statuses(fake)[0].next == "nothing: it serves"
        ends_in(fake, round(lead_s) - 60)
        assert "gemma4 renew v6e4" in statuses(fake)[0].next

    def test_a_slice_that_is_renewed_is_shown_beside_the_next_one(self, fake: FakeGoogle) -> None:
        queue(fake, BLUE, state="ACTIVE")
        queue(fake, BLUE_B)
        report(fake, name=BLUE)
        old, new = statuses(fake)
        assert (old.host, old.name, old.serving, old.next) == ("blue-a", "blue", True, "nothing: it serves")
        assert (new.host, new.follows, new.serving) == ("blue-b", "blue-a", False)
        assert new.next == "it waits for capacity, to follow blue-a, which serves on"
        fake.tpu.advance(BLUE_B, to="ACTIVE")
        report(fake, name=BLUE_B)
        old, new = statuses(fake)
        assert "pulumi up drains this one and gives it back" in old.next
        assert (new.serving, new.next) == (True, "nothing: it serves")

    @pytest.mark.parametrize("text", ["", "soon", "2026-13-45T00:00:00Z"])
    def test_an_end_that_cannot_be_read_is_guessed(self, fake: FakeGoogle, text: str) -> None:
        queue(fake, BLUE, state="ACTIVE")
        node(fake)["schedulingConfig"] = {"terminationTimestamp": text}
        (row,) = statuses(fake)
        assert (row.ends_guessed, 86300 < (row.left_s or 0) <= 86400) == (True, True)
        node(fake)["createTime"] = text
        (row,) = statuses(fake)
        assert (row.ends_at, row.left_s) == ("", None)

    def test_the_terms_that_were_granted_count_and_not_what_the_file_says_now(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        record(fake)["runDuration"] = {"maxRunDuration": "7200s"}
        del node(fake)["schedulingConfig"]
        assert run(["tpu", "status", "v6e4"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "2 h left" in shown
        assert "granted as flex-start for 2 h, the file says flex-start for 24 h" in shown

    def test_a_slice_granted_without_an_end_has_none(self, fake: FakeGoogle) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        for key in ("runDuration", "provisioningModel"):
            record(fake).pop(key)
        record(fake)["spot"] = {}
        del node(fake)["schedulingConfig"]
        (row,) = statuses(fake)
        assert (row.left_s, row.ends_at, row.serving) == (None, "", True)
        assert "granted as spot" in row.granted

    def test_a_request_that_waits_says_when_it_ends(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        queue(fake, BLUE)
        (row,) = answer(capsys, "tpu", "status", "v6e4", code=1)["slices"]
        asked = datetime.fromisoformat(record(fake)["createTime"])
        assert abs((datetime.fromisoformat(row["expiresAt"]) - asked).total_seconds() - 14400) < 2
        assert (row["expiresGuessed"], row["expired"]) == (False, False)
        assert run(["tpu", "status", "v6e4"]) == 1
        shown = capsys.readouterr().out
        assert f"ends {datetime.fromisoformat(row['expiresAt']):%Y-%m-%d %H:%M} UTC" in shown
        assert "if tpu.validUntilDuration" not in shown
        del record(fake)["queueingPolicy"]
        assert run(["tpu", "status", "v6e4"]) == 1
        assert "UTC, if tpu.validUntilDuration was what it is now" in " ".join(capsys.readouterr().out.split())

    def test_a_request_that_stands_in_the_queue_after_its_end_is_to_be_asked_for_anew(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE)
        record(fake)["createTime"] = datetime.fromtimestamp(now() - 14400 - 660, UTC).isoformat()
        (row,) = statuses(fake)
        assert (row.expired, row.serving) == (True, False)
        assert "pulumi up removes it and asks anew" in row.next
        assert run(["tpu", "status", "v6e4"]) == 1
        assert "the request ended" in capsys.readouterr().out

    def test_a_change_under_way_is_shown_with_its_progress(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake, running="spec-1", preparing="spec-2", weightsPercent=40)
        assert run(["tpu", "status", "v6e4"]) == 1
        assert "serving spec-1, preparing spec-2, 40 % of the weights are here" in capsys.readouterr().out

    def test_a_foreign_slice_is_called_foreign(self, fake: FakeGoogle) -> None:
        queue(fake, BLUE, owner="ann")
        (row,) = statuses(fake)
        assert "foreign" in row.next
        assert not row.serving

    @pytest.mark.parametrize("text", ["", "not json", "[]", '{"errors": null}', '{"at": "yesterday"}'])
    def test_an_unreadable_report_is_no_report(self, text: str) -> None:
        assert read_report({"status": text}, now()).stage == ""


class TestOrphans:
    def test_a_slice_that_the_file_no_longer_names_or_looks_for_elsewhere_is_shown(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        queue(fake, "gemma4-v6e4-green", state="ACTIVE", app="gemma4", stack="v6e4", slice="green")
        queue(fake, "gemma4-v6e4-red", zone="europe-west4-a", app="gemma4", stack="v6e4", slice="red")
        queue(fake, "gemma4-other-blue", app="gemma4", stack="other", slice="blue")
        queue(fake, "theirs", stack="v6e4")
        found = answer(capsys, "tpu", "status", "v6e4")
        assert [
            (one["id"], one["zone"], one["why"]) for one in sorted(found["orphans"], key=lambda one: one["id"])
        ] == [
            ("gemma4-v6e4-green", ZONE, "paid, and not in tpu.slices"),
            ("gemma4-v6e4-red", "europe-west4-a", "paid once it is granted, and in another zone than tpu.zone"),
        ]
        assert run(["tpu", "status", "v6e4"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "paid, and not in tpu.slices" in shown
        assert "queued-resources delete gemma4-v6e4-red --zone europe-west4-a --project demo-project --force" in shown

    @pytest.mark.parametrize(
        ("state", "then"), [("SUSPENDED", "to give it back: pulumi up"), ("DELETING", "nothing: it is being deleted")]
    )
    def test_an_orphan_that_has_ended_cannot_be_kept(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str], state: str, then: str
    ) -> None:
        queue(fake, "gemma4-v6e4-green", state=state, app="gemma4", stack="v6e4", slice="green")
        (one,) = answer(capsys, "tpu", "status", "v6e4", code=1)["orphans"]
        assert one["why"] == "holds quota, and not in tpu.slices"
        assert one["next"].startswith(then)

    def test_a_zone_that_does_not_answer_is_a_gap_in_the_orphans(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for unreachable in ("europe-west4-a", "projects/demo-project/locations/europe-west4-a"):
            fake.tpu.configure(unreachable=[unreachable])
            assert answer(capsys, "tpu", "status", "v6e4", code=1)["gaps"] == ["europe-west4-a: did not answer"]

    def test_the_orphans_of_all_zones_cost_one_request(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Also those in which nobody offers flex-start: a slice was bought there once."""
        for zone in ("us-east1-d", "asia-northeast1-b"):
            queue(fake, "gemma4-v6e4-red", zone=zone, app="gemma4", stack="v6e4", slice="red")
        found = answer(capsys, "tpu", "status", "v6e4", code=1)
        assert sorted(one["zone"] for one in found["orphans"]) == ["asia-northeast1-b", "us-east1-d"]
        assert len([one for one in fake.requests if one.path.endswith("/queuedResources") and one.method == "GET"]) == 1

    @pytest.mark.parametrize("status", [400, 404])
    def test_zones_are_asked_one_by_one_where_google_does_not_list_all(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str], status: int
    ) -> None:
        queue(fake, "gemma4-v6e4-red", zone="us-east1-d", app="gemma4", stack="v6e4", slice="red")
        fake.fault("GET", "/locations/-/queuedResources", status=status, message="no wildcard", times=2)
        fake.fault("GET", "/us-east5-b/queuedResources", status=403, message="no")
        found = answer(capsys, "tpu", "status", "v6e4", code=1)
        assert [one["zone"] for one in found["orphans"]] == ["us-east1-d"]
        assert [gap.partition(":")[0] for gap in found["gaps"]] == ["us-east5-b"]

    def test_zones_that_cannot_be_asked_at_all_are_a_gap(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.fault("GET", "/locations/-/queuedResources", status=403, message="no", times=2)
        assert answer(capsys, "tpu", "status", "v6e4", code=1)["gaps"][0].startswith("all zones: ")
        assert run(["tpu", "ended", "v6e4"]) != 0
        assert "No ended requests" not in capsys.readouterr().out


class TestTheJsonOfTheTpuCommands:
    def test_has_its_form_with_everything_that_may_stand_in_it(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="ACTIVE")
        report(fake)
        queue(fake, "gemma4-v6e4-green", state="FAILED", app="gemma4", stack="v6e4", slice="green")
        fake.fault("DELETE", "/queuedResources/gemma4-v6e4-green", status=403, message="no")
        fake.tpu.configure(unreachable=["us-east5-b"])
        found = answer(capsys, "tpu", "status", "v6e4")
        assert found["slices"]
        assert found["orphans"]
        assert found["gaps"]
        found = answer(capsys, "tpu", "ended", "v6e4", "--delete", code=1)
        assert found["ended"]
        assert found["failed"]
        assert answer(capsys, "zones", "v6e4")["zones"]


class TestEndedRequests:
    def test_listing_ended_requests_deletes_nothing(self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]) -> None:
        queue(fake, "ended", state="SUSPENDED")
        queue(fake, "alive", state="ACTIVE")
        assert run(["tpu", "ended", "v6e4"]) == 0
        out = capsys.readouterr().out
        assert "ended" in out
        assert "alive" not in out
        assert "--delete" in out
        assert len(fake.tpu.resources) == 2

    def test_deletion_takes_the_stacks_ended_requests_and_leaves_live_and_foreign_ones(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, "ours", state="FAILED")
        queue(fake, "alive", state="ACTIVE")
        queue(fake, "foreign", zone="europe-west4-a", state="SUSPENDED", owner="ann")
        assert answer(capsys, "tpu", "ended", "v6e4", "--delete")["deleted"] == ["ours"]
        assert left(fake) == ["alive", "foreign"]
        assert answer(capsys, "tpu", "ended", "v6e4", "--delete", "--everybody")["deleted"] == ["foreign"]
        assert left(fake) == ["alive"]

    def test_deletion_without_a_stack_takes_the_ended_requests_of_all_stacks(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue(fake, "ours", state="FAILED")
        queue(fake, "sisters", state="FAILED", app="gemma4", stack="v6e8", slice="blue")
        assert answer(capsys, "tpu", "ended", "v6e4", "--delete")["deleted"] == ["ours"]
        for variable, key in (("GOOGLE_PROJECT", "project"), ("GOOGLE_OAUTH_ACCESS_TOKEN", "accessToken")):
            monkeypatch.setenv(variable, fake.settings()[key])
        for variable, key in (("TPU_V2", "tpuV2"),):
            monkeypatch.setenv(f"GOOGLE_{variable}_CUSTOM_ENDPOINT", fake.settings()[f"{key}CustomEndpoint"])
        assert answer(capsys, "tpu", "ended", "--delete")["deleted"] == ["sisters"]

    def test_the_option_everybody_without_delete_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["tpu", "ended", "v6e4", "--everybody"]) == 2
        assert "--everybody: has a meaning only beside --delete" in capsys.readouterr().err

    def test_the_hint_below_ended_requests_is_a_command_that_works(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, "ended", state="SUSPENDED")
        assert run(["tpu", "ended", "v6e4"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "gemma4 tpu ended v6e4 --delete" in shown
        assert "--delete --everybody" in shown

    def test_two_ended_requests_with_one_name_are_told_apart(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, BLUE, state="FAILED")
        queue(fake, BLUE, zone="europe-west4-a", state="FAILED")
        fake.fault("DELETE", f"/{ZONE}/queuedResources", status=403, message="no")
        found = answer(capsys, "tpu", "ended", "v6e4", "--delete", code=1)
        assert {one["zone"]: one["done"] for one in found["ended"]} == {ZONE: "failed", "europe-west4-a": "deleted"}
        assert found["deleted"] == [BLUE]

    def test_an_ended_request_that_cannot_be_deleted_ends_with_1_and_the_others_go(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        queue(fake, "a", state="FAILED")
        queue(fake, "b", state="FAILED")
        fake.fault("DELETE", "/queuedResources/a", status=403, message="Permission 'tpu.queuedResources.delete' denied")
        found = answer(capsys, "tpu", "ended", "v6e4", "--delete", code=1)
        assert "roles/tpu.admin" in found["failed"]["a"]
        assert left(fake) == ["a"]

    def test_a_zone_that_does_not_answer_is_named_beside_the_ended_requests(
        self, fake: FakeGoogle, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake.tpu.configure(unreachable=[ZONE])
        assert f"{ZONE}: did not answer" in answer(capsys, "tpu", "ended", "v6e4")["gaps"]

    def test_ended_requests_without_a_project_are_an_error_that_says_what_to_set(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["tpu", "ended"]) == 1
        assert "GOOGLE_CLOUD_PROJECT" in capsys.readouterr().err


def plan() -> Any:
    settings = {"model": "gemma-4-26b-a4b-it", "accelerator": "v6e-4"}
    return make_plan("v6e4", settings, project="demo-project", facts=catalog())


def node(fake: FakeGoogle) -> dict[str, Any]:
    """The machine as Google has it, to be changed."""
    return fake.tpu.nodes[f"projects/demo-project/locations/{ZONE}/nodes/{BLUE}"]


def record(fake: FakeGoogle, name: str = BLUE) -> dict[str, Any]:
    """The queued resource as Google has it, to be changed."""
    return fake.tpu.resources[f"projects/demo-project/locations/{ZONE}/queuedResources/{name}"]


def give(fake: FakeGoogle, zones: Mapping[str, int], regions: Mapping[str, int], quota: str = QUOTA) -> None:
    """Limits in chips of a quota and of its twin by region."""
    for name, places in ((quota, zones), (quota.replace("PerZone", "PerRegion"), regions)):
        for place, chips in places.items():
            fake.cloudquotas.set_quota("tpu.googleapis.com", name, place, chips)


def report(fake: FakeGoogle, *, name: str = BLUE, ago_s: float = 0, **fields: Any) -> None:
    """What the supervisor says of itself; all is well unless `fields` say otherwise."""
    at = datetime.fromtimestamp(now() - ago_s, UTC).isoformat()
    said = {"schema": 1, "at": at, "stage": "serving", "running": spec_hash(), "errors": [], **fields}
    fake.tpu.set_guest_attributes(name, {"gemma4/status": json.dumps(said)})
    route_to_machine(fake, plan().names, name.removeprefix("gemma4-v6e4-"))


def ends_in(fake: FakeGoogle, seconds: float) -> None:
    """Google says of the machine when it ends."""
    end = datetime.fromtimestamp(now() + seconds, UTC).isoformat()
    node(fake)["schedulingConfig"] = {"terminationTimestamp": end}


def statuses(fake: FakeGoogle) -> list[SliceStatus]:
    planned = plan()
    assert isinstance(planned.deployment, SlicesPlan)
    return slice_statuses(session(fake, FakeTime(now())), planned, planned.deployment)


def spec_hash() -> str:
    return str(plan().command.spec_hash)


def left(fake: FakeGoogle) -> list[str]:
    return sorted(name.rsplit("/", 1)[-1] for name in fake.tpu.resources)
