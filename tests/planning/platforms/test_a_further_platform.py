"""A platform that nothing outside its own module knows is planned, priced, reported, recommended and deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.ops.program import run_program
from infra.planning.candidates import Need
from infra.planning.planner import make_plan
from infra.planning.recommend import recommend
from tests.planning.platforms.pods import MACHINE, PODS, add_pods
from tests.projects import ROOT, Capture, Command, command, write_stack

MODEL = "gemma-4-12b-it-qat-w4a16"


@pytest.fixture(autouse=True)
def pods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    add_pods(monkeypatch)
    write_stack(tmp_path, "gemma4:scaling: {maxInstances: 2}", name="pod", model=MODEL, accelerator=MACHINE)
    write_stack(tmp_path, "", name="l4", model=MODEL, accelerator="l4")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


def planned(**settings: Any) -> dict[str, Any]:
    return {"model": MODEL, "accelerator": MACHINE, **settings}


class TestThePlan:
    def test_is_made_of_what_the_platform_answers(self) -> None:
        one = make_plan("pod", planned(scaling={"maxInstances": 3}))
        assert not one.refused
        assert (one.region, one.zone) == ("field-1", None)
        assert one.command.argv[2].startswith("/pod/weights/")
        assert one.command.argv[one.command.argv.index("--host") + 1] == "127.0.0.1"
        assert one.startup.source == "nobody has started a pod"
        assert {"Pods are green.", "Pods start when the weather is fair."} <= set(one.notes)

    def test_is_priced_by_the_platforms_own_lines(self) -> None:
        cost = make_plan("pod", planned(scaling={"maxInstances": 3})).cost
        assert (cost.usd_per_hour, cost.usd_per_hour_at_most) == (0.5, 1.5)
        assert [line.label for line in cost.replica_hour] == ["pod"]

    def test_is_refused_for_the_platforms_own_reasons_and_places(self) -> None:
        unlucky = make_plan("pod", planned(scaling={"maxInstances": 13}))
        assert [fault.key for fault in unlucky.refusals] == ["scaling.maxInstances"]
        elsewhere = make_plan("pod", planned(region="us-east4"))
        (fault,) = elsewhere.refusals
        assert (fault.key, fault.fix) == ("region", "Write one of: field-1, field-2.")

    def test_warns_of_what_does_nothing_there(self) -> None:
        (fault,) = make_plan("pod", planned(scaling={"cpu": 8})).warnings
        assert fault.fact == "has no effect in a pod: a pod is a pod."


class TestReports:
    def test_first_screen_and_whole_plan_have_its_rows(self, gemma4: Command) -> None:
        for form in ([], ["--full"], ["--markdown"]):
            answer = gemma4("plan", "pod", *form)
            assert answer.code == 0
            assert "2 of them" in answer.out
        assert "a changed flag takes" in gemma4("plan", "pod", "--full").out

    def test_json_has_its_own_key_and_a_difference_names_it(self, gemma4: Command) -> None:
        data = gemma4("plan", "pod", "--json", "--no-resources").data
        assert data["accelerator"]["platform"] == PODS
        assert (data["pods"], data["slices"]) == ({"count": 2}, None)
        Path("before.json").write_text(json.dumps(data), "utf-8")
        answer = gemma4(
            "plan", "pod", "--json", "--no-resources", "--diff", "before.json", "--set", "scaling.maxInstances=3"
        )
        changed = {change["subject"]: (change["old"], change["new"]) for change in answer.data["diff"]}
        assert changed["pods.count"] == (2, 3)
        other = gemma4("plan", "pod", "--no-resources", "--diff", "l4")
        assert other.code == 0
        assert MACHINE in other.out

    def test_stacks_and_machines_list_it(self, gemma4: Command) -> None:
        assert {row["accelerator"] for row in gemma4("stacks", "--json").data["stacks"]} == {"l4", MACHINE}
        assert MACHINE in gemma4("machines").out


class TestARecommendation:
    def test_offers_it_with_the_settings_that_make_so_many_replicas(self) -> None:
        found = recommend(Need(model="12b", users=200))
        (one,) = (one for one in found.candidates if one.plan.accelerator.id == MACHINE and one.plan.model.id == MODEL)
        assert one.replicas > 1
        assert one.changes["scaling.maxInstances"] == one.plan.deployment.replicas == one.replicas

    def test_says_its_terms(self, gemma4: Command) -> None:
        assert "rented by the pod" in gemma4("recommend", "--model", MODEL, "--top", "40").out


def test_its_own_components_build_it() -> None:
    config = {"gemma4:model": MODEL, "gemma4:accelerator": MACHINE, "gcp:project": "p1234"}
    ran = run_program(ROOT, "pod", config)
    assert ran.exit_code == 0
    types = {resource.type for resource in ran.resources}
    assert {"tests:pods:Pods", "gemma4:components:Weights"} <= types
    assert not {kind for kind in types if "cloudrunv2/service" in kind or "Tpu" in kind}
