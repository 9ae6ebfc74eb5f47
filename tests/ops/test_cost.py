"""`gemma4 cost` against the fake Google: running time times list price, what is projected, what if, and what nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.google.monitoring import TPU_CPU, TPU_WORKER
from infra.google.times import moment
from infra.ops.answers.cost_answers import CostAnswer
from infra.ops.commands import cost_so_far
from infra.ops.commands.cost_so_far import cost_lines, usd_per_month
from infra.planning.planner import make_plan
from infra.planning.report.terminal import NARROW, plain
from tests.fakes.google.client import START, FakeTime, session
from tests.fakes.operated_stack import OperatedStack, operated_stack
from tests.projects import Capture, Command, command

NOW = START
BEGAN = datetime.fromtimestamp(NOW, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


@pytest.fixture
def l4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    """Deployed two days ago."""
    with operated_stack(tmp_path, monkeypatch, "l4") as stack:
        deployed(stack, monkeypatch)
        yield stack


@pytest.fixture
def v6e4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    with operated_stack(tmp_path, monkeypatch, "v6e4") as stack:
        deployed(stack, monkeypatch)
        yield stack


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


def deployed(stack: OperatedStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy it two days before a day in the middle of a month, which is today."""
    monkeypatch.setattr(cost_so_far, "stack_session", lambda _: session(stack.google, FakeTime(NOW)))
    stack.updated_at = moment(NOW - 3600)
    stack.run_service()["createTime"] = moment(NOW - 2 * 86_400)
    stack.deploy()


def month_of(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m}"


def rows_of(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in data["rows"]}


class TestAService:
    def test_costs_its_billable_time_at_the_price_of_an_hour(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.bill(7200, at=NOW - 600)
        l4.bill(360, at=NOW - 600, job=True)
        data = gemma4("cost", "l4", "--json").data
        rows, plan = rows_of(data), l4.plan
        assert rows["server"]["runningS"] == 7200
        assert rows["server"]["usdLeast"] == rows["server"]["usdMost"] == pytest.approx(2 * plan.cost.usd_per_hour)
        assert plan.staging
        assert rows["weights copy"]["usdLeast"] == pytest.approx(
            0.1 * (plan.staging.cpu * 0.0648 + plan.staging.memory_gib * 0.0072)
        )
        assert data["sinceUp"]["runningS"] == 7560
        assert data["usdLeast"] == pytest.approx(sum(row["usdLeast"] for row in data["rows"]))

    def test_pays_for_what_is_stored_since_it_was_deployed(self, l4: OperatedStack, gemma4: Command) -> None:
        rows = rows_of(gemma4("cost", "l4", "--json").data)
        (bucket,) = (line for line in l4.plan.cost.idle_month if line.label == "bucket")
        share = (NOW - max(BEGAN, NOW - 2 * 86_400)) / (730 * 3600)
        assert rows["bucket"]["usdLeast"] == pytest.approx(bucket.usd * share, rel=0.01)
        assert rows["server"]["usdLeast"] is None
        assert "has no record" in rows["server"]["note"]

    def test_is_projected_as_it_was_so_far_but_for_the_copy_of_the_weights(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        l4.bill(7200, at=NOW - 600)
        l4.bill(360, at=NOW - 600, job=True)
        rows = rows_of(gemma4("cost", "l4", "--json").data)
        assert rows["weights copy"]["monthUsd"] == rows["weights copy"]["usdMost"]
        whole = rows["server"]["monthUsd"] / rows["server"]["usdMost"]
        assert whole == pytest.approx(rows["bucket"]["monthUsd"] / rows["bucket"]["usdMost"])
        assert whole >= 1

    def test_of_a_month_that_is_over_is_not_projected(self, l4: OperatedStack, gemma4: Command) -> None:
        last = BEGAN - 86_400
        l4.run_service()["createTime"] = moment(BEGAN - 20 * 86_400)
        l4.bill(3600, at=last)
        l4.bill(9999, at=NOW - 600)
        data = gemma4("cost", "l4", "--month", month_of(last), "--json").data
        assert rows_of(data)["server"]["runningS"] == 3600
        assert (data["month"], data["monthUsd"], data["until"]) == (month_of(last), None, moment(BEGAN))

    def test_is_printed_in_eighty_columns(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.bill(7200, at=NOW - 600)
        answer = gemma4("cost", "l4")
        lines = answer.out.splitlines()
        assert answer.code == 0
        assert lines[0].startswith(f"l4 in {month_of(NOW)}, until ")
        assert lines[1].split() == ["running", "cost", "whole", "month"]
        assert lines[2].split()[:3] == ["server", "2", "h"] or lines[2].split()[:3] == ["server", "120", "min"]
        assert max(map(len, lines)) <= 80


class TestSlices:
    def test_cost_the_time_of_all_their_machines_also_of_those_that_are_gone(
        self, v6e4: OperatedStack, gemma4: Command
    ) -> None:
        ran(v6e4, "gemma4-v6e4-blue-a", 90)
        ran(v6e4, "gemma4-v6e4-red-a", 30)
        ran(v6e4, "gemma4-v6e4-31b-blue-a", 500)
        rows = rows_of(gemma4("cost", "v6e4", "--json").data)
        price = v6e4.plan.cost.usd_per_hour
        assert {name: row["runningS"] for name, row in rows.items() if name.startswith("slice")} == {
            "slice blue-a": 5400,
            "slice red-a": 1800,
        }
        assert rows["slice blue-a"]["usdLeast"] == pytest.approx(1.5 * price)

    def test_of_a_paused_stack_are_counted_where_they_ran_and_else_not_missed(
        self, v6e4: OperatedStack, gemma4: Command
    ) -> None:
        v6e4.write({"paused": True})
        assert not [one for one in rows_of(gemma4("cost", "v6e4", "--json").data) if one.startswith("slice")]
        ran(v6e4, "gemma4-v6e4-blue-a", 90)
        assert "slice blue-a" in rows_of(gemma4("cost", "v6e4", "--json").data)

    def test_without_a_record_are_not_said_to_have_cost_nothing(self, v6e4: OperatedStack, gemma4: Command) -> None:
        v6e4.google.time_series.forgotten = (TPU_CPU,)
        rows = rows_of(gemma4("cost", "v6e4", "--json").data)
        assert (rows["slice blue"]["usdLeast"], rows["slice blue"]["runningS"]) == (None, None)
        assert "no record" in rows["slice blue"]["note"]

    @pytest.mark.parametrize(("busy_share", "exact"), [(0.1, True), (1.0, False)])
    def test_pay_the_gateway_idle_or_busy_whichever_way_billable_time_counts(
        self, v6e4: OperatedStack, gemma4: Command, busy_share: float, exact: bool
    ) -> None:
        kept_s = NOW - max(BEGAN, NOW - 2 * 86_400)
        v6e4.bill(busy_share * kept_s, at=NOW - 60)
        gateway = rows_of(gemma4("cost", "v6e4", "--json").data)["gateway"]
        hours = kept_s / 3600
        idle, busy = hours * (0.009 + 0.5 * 0.009), hours * busy_share * (0.0864 - 0.009)
        assert gateway["usdMost"] == pytest.approx(idle + busy, rel=0.01)
        assert gateway["usdLeast"] == pytest.approx(idle + (busy if exact else 0), rel=0.01)


class TestWhatIf:
    @pytest.mark.parametrize("hours", [0, 8, 24])
    def test_hours_a_day_are_paid_beside_what_is_always_kept(self, hours: int) -> None:
        plan = make_plan("l4", {"model": "gemma-4-e4b-it", "accelerator": "l4"})
        expected = plan.cost.usd_per_month_idle + hours * 30.4 * plan.cost.usd_per_hour
        assert usd_per_month(plan, hours) == pytest.approx(expected)

    def test_kept_instances_are_paid_only_while_they_run_and_the_gateway_always(self) -> None:
        settings = {"model": "gemma-4-e4b-it", "accelerator": "l4", "scaling": {"minInstances": 2, "maxInstances": 3}}
        plan = make_plan("l4", settings)
        assert usd_per_month(plan, 0) < 5 < plan.cost.usd_per_month_idle
        assert usd_per_month(plan, 10) - usd_per_month(plan, 9) == pytest.approx(30.4 * 2 * plan.cost.usd_per_hour)
        slices = make_plan("v6e4", {"model": "gemma-4-26b-a4b-it", "accelerator": "v6e-4"})
        assert usd_per_month(slices, 0) == pytest.approx(slices.cost.usd_per_month_idle)

    def test_needs_neither_network_nor_deployment(
        self, l4: OperatedStack, gemma4: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        l4.google.fault("GET", "/", status=403, message="no", times=99)
        answer = gemma4("cost", "l4", "--hours-a-day", "4", "--json")
        data = answer.data
        assert (answer.code, data["rows"], data["deployed"]) == (0, [], None)
        assert [row["hoursADay"] for row in data["whatIf"]] == [0, 4, 24]
        assert data["unknown"]
        assert "4 hours a day" in gemma4("cost", "l4", "--hours-a-day", "4").out

    def test_of_a_stack_that_is_not_deployed_says_so(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.google.run.resources.clear()
        answer = gemma4("cost", "l4")
        assert answer.code == 0
        assert answer.out.startswith("l4 is not deployed, so it costs nothing now")

    @pytest.mark.parametrize("month", ["2026-13", "November", "2999-01", "0000-01"])
    def test_a_month_that_is_none_or_has_not_begun_is_a_clean_error(
        self, l4: OperatedStack, gemma4: Command, month: str
    ) -> None:
        answer = gemma4("cost", "l4", "--month", month)
        assert answer.code == 2
        assert "--month" in answer.err

    def test_every_price_has_its_source_and_date(self, v6e4: OperatedStack, gemma4: Command) -> None:
        prices = gemma4("cost", "v6e4", "--json").data["prices"]
        assert prices
        assert all(price["source"] and price["read"] and price["confidence"] for price in prices)


def test_the_text_of_an_answer() -> None:
    row = {"running_s": None, "usd_least": None, "usd_most": None, "month_usd": None, "note": ""}
    answer = CostAnswer.model_validate(
        {
            "stack": "v6e4",
            "month": "2026-11",
            "until": "2026-11-22T08:00:00Z",
            "deployed": True,
            "rows": [
                {
                    **row,
                    "what": "slice blue",
                    "running_s": 36_000,
                    "usd_least": 54,
                    "usd_most": 54,
                    "month_usd": 75.6,
                },
                {**row, "what": "slice red", "note": "nobody knows"},
                {**row, "what": "gateway", "running_s": 90_000, "usd_least": 1, "usd_most": 3, "month_usd": 4.2},
            ],
            "usd_least": 55,
            "usd_most": 57,
            "month_usd": 79.8,
            "since_up": {
                "since": "2026-11-21T07:30:00Z",
                "running_s": 3600,
                "usd_least": 5.4,
                "usd_most": 5.6,
                "notes": [],
            },
            "usd_per_hour": 5.4,
            "usd_per_month_idle": 12,
            "what_if": [
                {"hours_a_day": 0, "usd_per_month": 12},
                {"hours_a_day": 8, "usd_per_month": 1325.28},
                {"hours_a_day": 24, "usd_per_month": 3951.84},
            ],
            "prices": [
                {
                    "what": "chips",
                    "usd": 1.35,
                    "unit": "chip-hour",
                    "source": "page",
                    "read": "2026-08-25",
                    "confidence": "reported",
                }
            ],
            "unknown": ["the state cannot be read"],
        },
        by_name=True,
    )
    assert plain(*cost_lines(answer), columns=NARROW).splitlines() == [
        "v6e4 in 2026-11, until 2026-11-22 08:00 UTC, by running time at list prices",
        "            running              cost  whole month",
        "slice blue     10 h            $54.00     ≈ $75.60",
        "slice red                   not known",
        "gateway        25 h    $1.00 to $3.00      ≈ $4.20",
        "in all               $55.00 to $57.00     ≈ $79.80",
        "  slice red     nobody knows",
        "since the last up (2026-11-21 07:30 UTC), storage left out: $5.40 to $5.60",
        "planned: $5.40 an hour for one that runs, $12.00 a month idle",
        "if it runs … (30.4 days a month, the fewest that serve)",
        "  never         ≈ $12.00 a month",
        "  8 hours a day ≈ $1,325 a month",
        "  all day       ≈ $3,952 a month",
        "list prices, without discounts, taxes and free tiers",
        "  chips             $1.35 a chip-hour; reported, read 2026-08-25",
        "not known  the state cannot be read",
    ]


def ran(stack: OperatedStack, node: str, minutes: int) -> None:
    labels = {"zone": "us-east5-a", "node_id": node, "worker_id": "0"}
    stack.google.time_series.record(TPU_CPU, TPU_WORKER, labels, 3.0, at=NOW - 60, times=minutes)
