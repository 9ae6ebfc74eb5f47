"""The difference of two plans: nothing is missed, nothing is judged that cannot be, and two ways round agree."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, get_args

import pytest

from infra.catalog import catalog
from infra.errors import SettingsError
from infra.ops.commands.plan import list_resources
from infra.ops.plan_inputs import Planned
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.report.change import SECTIONS, Change
from infra.planning.report.data import as_json
from infra.planning.report.diff import compare
from infra.planning.report.markdown import as_markdown
from infra.planning.report.properties import properties, shortened, side_by_side
from infra.planning.report.resources import ResourceList, ResourceRow
from infra.planning.report.rows import plan_rows
from infra.planning.report.running_effects import _DELETED, _REPLACED, _REPLACES, _UPDATED
from infra.planning.report.saved_plan import misshapen
from infra.planning.report.text import print_changes
from infra.planning.settings.paths import known_paths, subgroup
from infra.planning.settings.stackfile import read_stack, stack_names
from infra.planning.units import read_duration, read_minutes, read_predicted
from infra.providers import tpu_queued_resource
from tests.projects import ROOT

NAMES = stack_names(ROOT)
RESOURCES = ResourceList(
    (
        ResourceRow("pulumi:pulumi:Stack", "gemma4-l4", ""),
        ResourceRow("gemma4:components:Network", "network", ""),
        ResourceRow("gcp:compute/network:Network", "network-vpc", "network", {"name": "gemma4-l4"}),
        ResourceRow("gcp:compute/subnetwork:Subnetwork", "network-subnet", "network", {"ipCidrRange": "10.8.0.0/26"}),
    )
)


def shipped(name: str, settings: Mapping[str, Any] | None = None, **typed: Any) -> Plan:
    written = {**read_stack(ROOT, name).settings, **(settings or {})}
    return make_plan(name, written, {key.replace("__", "."): value for key, value in typed.items()})


def data(name: str, resources: ResourceList | None = None, **typed: Any) -> dict[str, Any]:
    return as_json(shipped(name, **typed), resources)


def with_resources(name: str, **typed: Any) -> dict[str, Any]:
    """The plan with what the real program registers for it."""
    file = read_stack(ROOT, name)
    overrides = {key.replace("__", "."): value for key, value in typed.items()}
    plan = make_plan(name, file.settings, overrides)
    return as_json(plan, list_resources(Planned(file, overrides, plan)))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    return list(compare(before, after).changes)


def by_subject(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Change]:
    return {change.subject: change for change in changes(before, after)}


def other_values(path: str, field: Any) -> list[Any]:
    """Values of a setting that its declaration allows and that are not its default."""
    facts = catalog()
    if path in ("model", "accelerator"):
        return [*(facts.models if path == "model" else facts.accelerators)]
    default = field.get_default(call_default_factory=True)
    choices = [choice for part in (field.annotation, *get_args(field.annotation)) for choice in get_args(part)]
    candidates = [
        *field.examples,
        *(choice for choice in choices if isinstance(choice, str | int)),
        *([not default] if isinstance(default, bool) else []),
        *([default + 1, default * 2] if isinstance(default, int) and not isinstance(default, bool) else []),
        *([0.97 * default] if isinstance(default, float) else []),
        "90s",
        "30m",
        "10.9.0.0/24",
    ]
    return [value for value in candidates if value not in (default, None) and not isinstance(value, type)]


ACCOUNT = {"images": {"dockerHubUser": "somebody", "dockerHubSecret": "a-secret"}}
BASES: tuple[tuple[str, dict[str, Any]], ...] = (("l4", {}), ("v6e4", {}), ("l4", ACCOUNT))
SETTINGS = {path: field for path, field in known_paths() if subgroup(field) is None}


def laid_over(settings: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The settings with one more, set as a stack file sets it."""
    group, _, key = path.rpartition(".")
    if path == "hfToken":
        return {**settings, path: {"secure": ""}}
    if group in settings:
        return {**settings, group: {**settings[group], key: value}}
    return {**settings, path: value}


class TestEverySetting:
    """A setting that is declared is covered: the list comes from the declarations."""

    @pytest.mark.parametrize("path", SETTINGS)
    def test_changed_alone_is_seen(self, path: str) -> None:
        tried = 0
        for name, settings in BASES:
            before = as_json(shipped(name, settings))
            for value in other_values(path, SETTINGS[path]):
                try:
                    after = as_json(shipped(name, laid_over(settings, path, value)))
                except SettingsError:
                    continue  # not legal on this machine
                if before["settings"].get(path) == after["settings"].get(path):
                    continue  # what the stack has already
                tried += 1
                found = [change for change in changes(before, after) if change.section == "settings"]
                keys = {change.subject for change in found}
                assert any(key == path or key.startswith(f"{path}.") for key in keys), (name, value, keys)
        assert tried, f"no legal value other than the default was found for {path}"

    def test_is_in_a_saved_plan_with_its_value_whatever_set_it(self) -> None:
        plan = shipped("v6e4", {"labels": {"team": "ml"}}, serving__maxModelLen=4096)
        values = json.loads(json.dumps(as_json(plan)))["settings"]
        assert {*values} == {*SETTINGS}
        assert (values["serving.maxModelLen"], values["labels"], values["tpu.slices"]) == (
            4096,
            {"team": "ml"},
            ["blue"],
        )

    def test_is_told_with_who_set_it(self) -> None:
        change = by_subject(data("l4"), data("l4", serving__maxModelLen=4096))["serving.maxModelLen"]
        assert (change.before, change.after, change.old, change.new) == (
            "8192 (recipe)",
            "4096 (command line)",
            8192,
            4096,
        )

    def test_of_the_token_says_only_that_there_is_one(self) -> None:
        after = as_json(shipped("l4", {"hfToken": {"secure": "cipher-text"}}))
        change = by_subject(data("l4"), after)["hfToken"]
        assert (change.old, change.new) == (False, True)
        assert "cipher-text" not in json.dumps(after)


class TestEveryInput:
    """What the real program registers is compared input by input."""

    @pytest.mark.parametrize(
        ("name", "typed", "subject", "shown"),
        [
            (
                "l4",
                {"scaling__maxInstances": 3},
                "serving-service: template.scaling.maxInstanceCount",
                ("1", "3"),
            ),
            ("l4", {"scaling__requestTimeout": "5m"}, "serving-service: template.timeout", ("3600s", "300s")),
            ("l4", {"deletionProtection": True}, "serving-service: deletionProtection", ("false", "true")),
            ("l4", {"weights__protect": True}, "weights-bucket: options.protect", ("", "true")),
            ("l4", {"labels": {"team": "ml"}}, "weights-bucket: labels.team", ("", "ml")),
            (
                "l4",
                {"network__subnetCidr": "10.9.0.0/24"},
                "network-subnet: ipCidrRange",
                ("10.8.0.0/26", "10.9.0.0/24"),
            ),
            ("v6e4", {"tpu__validUntilDuration": "3h"}, "slice-blue-node: valid_until_duration_s", ("1200", "10800")),
            (
                "v6e4",
                {"serving__maxModelLen": 8192},
                "rollout-blue-spec: metadata.gemma4-spec.argv",
                ("--max-model-len 16384", "--max-model-len 8192"),
            ),
        ],
    )
    def test_is_shown_from_old_to_new(
        self, name: str, typed: dict[str, Any], subject: str, shown: tuple[str, str]
    ) -> None:
        change = by_subject(with_resources(name), with_resources(name, **typed))[subject]
        assert change.section == "resources"
        assert (change.before.partition(" spec-")[0], change.after.partition(" spec-")[0]) == shown

    def test_is_the_same_in_two_runs_and_never_a_path_of_this_machine(self) -> None:
        once, again = with_resources("v6e4"), with_resources("v6e4")
        assert once["resources"] == again["resources"]
        assert compare(once, again).verdict.startswith("No change against v6e4: ")
        text = json.dumps(once["resources"])
        assert str(ROOT) not in text
        assert "object at 0x" not in text

    def test_of_another_stack_differs_by_its_settings_and_not_by_its_name(self, tmp_path: Any) -> None:
        before = with_resources("l4")
        file = read_stack(ROOT, "l4")
        plan = make_plan("other-one", file.settings)
        renamed = as_json(plan, list_resources(Planned(file, {}, plan)))
        assert changes(before, renamed) == []
        assert "other-one" in json.dumps(renamed["resources"])

    def test_that_a_saved_plan_lacks_is_said_and_not_called_the_same(self) -> None:
        before, after = with_resources("l4"), with_resources("l4")
        for row in before["resources"]:
            del row["inputs"]
        del before["settings"]
        del before["cost"]["wholeStack"]
        found = compare(before, after)
        assert found.changes == ()
        assert [gap.partition(" (")[0] for gap in found.not_compared] == ["settings", "inputs of the resources"]
        assert "in what can be compared" in found.verdict
        assert found.effects == ()  # of inputs that are not known, nothing is said to be replaced

    def test_is_never_a_secret(self) -> None:
        file = replace(read_stack(ROOT, "l4"), settings=laid_over(read_stack(ROOT, "l4").settings, "hfToken", None))
        plan = make_plan("l4", file.settings)
        rows = as_json(plan, list_resources(Planned(file, {}, plan)))["resources"]
        (version,) = (row for row in rows if row["type"].endswith(":SecretVersion"))
        assert "[secret]" in version["inputs"].values()


class TestThePrice:
    def test_of_the_whole_stack_leads(self) -> None:
        found = changes(data("l4"), data("l4", scaling__maxInstances=50))
        assert [change.subject for change in found[:2]] == ["$/hour, whole stack", "$/month, whole stack"]
        assert (found[0].before, found[0].after, found[0].tone) == ("$0.00 to $1.42", "$0.00 to $71.05 (× 50)", "worse")
        assert found[0].new == pytest.approx(50 * found[0].old)

    def test_of_a_second_slice_is_twice_that_of_one(self) -> None:
        before, after = data("v6e4"), data("v6e4", tpu__slices=["blue", "green"])
        hour = by_subject(before, after)["$/hour, whole stack"]
        assert hour.new == 2 * hour.old == after["cost"]["usdPerHourAtMost"]
        assert "$0.00 to $5.40 → $0.00 to $10.80 an hour" in compare(before, after).price

    def test_of_kept_instances_is_the_least_and_is_counted_once(self) -> None:
        cost = data("l4", scaling__minInstances=1, scaling__maxInstances=3)["cost"]
        hour, month = cost["wholeStack"]["usdPerHour"], cost["wholeStack"]["usdPerMonth"]
        assert (hour["least"], hour["most"]) == (cost["usdPerHour"], pytest.approx(3 * cost["usdPerHour"]))
        assert month["least"] == cost["usdPerMonthIdle"]
        assert month["most"] - month["least"] == pytest.approx(2 * 730 * cost["usdPerHour"])

    def test_of_what_never_ends_is_paid_around_the_clock(self) -> None:
        whole = data("v6e4", tpu__provisioning="on-demand")["cost"]["wholeStack"]
        assert whole["replicas"] == {"least": 1, "most": 1}
        assert whole["usdPerMonth"]["least"] == whole["usdPerMonth"]["most"]

    def test_is_a_sentence_where_it_stays(self) -> None:
        assert "stays" in compare(data("l4"), data("l4", serving__maxModelLen=4096)).price


PAIRS = [(one, other) for one in NAMES for other in NAMES if one < other]


class TestTwoWaysRound:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_plan_does_not_differ_from_itself(self, name: str) -> None:
        found = compare(data(name, RESOURCES), data(name, RESOURCES))
        assert (found.changes, found.effects, found.not_compared) == ((), (), ())

    @pytest.mark.parametrize(("one", "other"), PAIRS)
    def test_agree(self, one: str, other: str) -> None:
        opposite = {"better": "worse", "worse": "better", "": ""}

        def bare(shown: str) -> str:
            return re.sub(r" \(([+−]\d+ %|× [\d,]+)\)$", "", shown)

        def told(change: Change) -> tuple[Any, ...]:
            return change.subject, bare(change.before), bare(change.after)

        one_data, other_data = data(one), data(other)
        there = {told(c): c.tone for c in changes(one_data, other_data)}
        back = {
            (subject, new, old): tone
            for (subject, old, new), tone in ((told(c), c.tone) for c in changes(other_data, one_data))
        }
        assert {*there} == {*back}
        differing = {key for key in there if there[key] and back[key] and there[key] != opposite[back[key]]}
        assert not differing

    def test_agree_from_a_saved_plan(self) -> None:
        saved = json.loads(json.dumps(data("rtx6000", RESOURCES)))
        assert misshapen(saved) == []
        assert changes(saved, data("l4", RESOURCES)) == changes(data("rtx6000", RESOURCES), data("l4", RESOURCES))


class TestAFigure:
    @pytest.mark.parametrize("name", NAMES)
    def test_reads_as_in_the_plan_in_words(self, name: str) -> None:
        shown = " ".join(line for _, lines in plan_rows(shipped(name)) for line in lines)
        shown = shown.replace(" alone", "").replace(" from zero", "")
        found = by_subject(data("l4" if name != "l4" else "v6e4"), data(name))
        for subject in ("Speed alone", "First token", "Start from zero", "$/hour of one replica", "$/M output tokens"):
            told = found[subject].after if subject in found else ""
            assert re.sub(r" \([+−×].*\)$| with .*$", "", told) in shown, subject

    def test_has_the_percentage_of_what_is_not_rounded(self) -> None:
        change = by_subject(data("v6e1"), data("v6e1", serving__maxNumSeqs=200))["$/M output tokens, prompts cached"]
        percent = 100 * (change.new / change.old - 1)
        assert re.match(r"≈ \$0\.\d\d\d with|\$0\.\d\d\d to \$0\.\d+ with", change.before)
        assert change.after.endswith(f"({percent:+.0f} %)".replace("-", "−"))
        assert -15 < percent < -14

    def test_that_differs_below_what_is_printed_is_neither_judged_nor_lost(self) -> None:
        before, after = data("l4"), data("l4")
        after["cost"]["usdPerHour"] *= 1.0001
        after["speed"]["ttftS"] = {key: 1.0001 * value for key, value in before["speed"]["ttftS"].items()}
        found = changes(before, after)
        assert {(c.section, c.subject, c.tone) for c in found} == {
            ("other", "cost.usdPerHour", ""),
            ("other", "speed.ttftS", ""),
        }

    def test_that_differs_by_less_than_a_percent_has_no_mark(self) -> None:
        before, after = data("l4"), data("l4")
        before["cost"]["usdPerMonthIdle"], after["cost"]["usdPerMonthIdle"] = 11.85, 11.86
        (change,) = (c for c in changes(before, after) if c.section == "price")
        assert (change.tone, "%" in change.after) == ("", False)

    def test_that_grows_tenfold_is_a_factor(self) -> None:
        change = by_subject(data("l4"), data("l4", scaling__minInstances=1))["$/month idle"]
        assert re.search(r"\(× \d+\)$", change.after)

    def test_of_another_length_is_not_judged(self) -> None:
        found = by_subject(data("l4"), data("l4", serving__maxModelLen=16384))
        lengths = found["Requests of full length"]
        assert re.match(r"≈ 1\d\.\d of 8,192 tokens \(", lengths.before)
        assert re.match(r"≈ 1\d\.\d of 16,384 tokens \(", lengths.after)
        assert lengths.tone == ""
        assert found["capacity.tokens"].section == "other"
        workload = by_subject(data("l4"), data("l4", workload__outputTokens=1024))
        assert {c.tone for c in workload.values() if c.section in ("figures", "price")} == {""}
        assert " of 2,048 tokens" in workload["Requests held"].after

    def test_that_rises_is_worse_for_a_price_and_better_for_requests(self) -> None:
        found = by_subject(data("l4"), data("rtx6000"))
        assert found["$/hour, whole stack"].tone == "worse"
        assert found["Requests held"].tone == found["KV cache"].tone == "better"


class TestARefusedPlan:
    REFUSED: ClassVar[dict[str, Any]] = {"serving__gpuMemoryUtilization": 0.42, "serving__maxModelLen": 131072}

    def test_is_worse_and_comes_first(self) -> None:
        first = changes(data("l4"), data("l4", region="europe-north1"))[0]
        assert (first.subject, first.before, first.after, first.tone) == ("Verdict", "fits", "refused", "worse")

    def test_gets_no_praise(self) -> None:
        after = data("l4", **self.REFUSED)
        assert after["verdict"] == "refused"
        assert "better" not in {change.tone for change in changes(data("l4"), after)}

    def test_leaves_what_runs_as_it_is(self) -> None:
        after = as_json(shipped("l4", region="europe-north1"), ResourceList((), "refused: nothing would be created"))
        found = compare(data("l4", RESOURCES), after)
        assert [effect.partition(":")[0] for effect in found.effects] == ["Refused"]
        assert found.not_compared == ("resources (refused: nothing would be created)",)
        assert not [change for change in found.changes if change.section == "resources"]


class TestWhatIsRunning:
    def effects(self, name: str, **typed: Any) -> str:
        return "\n".join(compare(with_resources(name), with_resources(name, **typed)).effects)

    def test_gets_a_new_revision_for_a_new_flag(self) -> None:
        said = self.effects("l4", serving__maxModelLen=4096)
        start = read_predicted(shipped("l4").startup.from_zero, read_duration, ends=read_minutes)
        assert said.startswith(f"serving-service gets a new revision, {start} from zero")

    def test_gets_none_for_what_is_not_in_its_template(self) -> None:
        assert self.effects("l4", deletionProtection=True) == (
            "serving-service is changed in place, without a new revision."
        )

    def test_moves_with_its_region(self) -> None:
        said = self.effects("l4", region="us-central1")
        assert "serving-service is deleted and made anew (location cannot change in place): an outage" in said
        assert "weights-bucket is replaced (location cannot change in place): the weights are copied anew" in said

    def test_keeps_a_second_copy_of_other_weights(self) -> None:
        said = self.effects("l4", weights__revision="abc1234")
        assert "the old copy stays in the bucket" in said

    def test_a_slice_that_moves_is_followed_before_it_goes(self) -> None:
        said = self.effects("v6e4", tpu__zone="us-east5-b")
        assert "another slice is asked for (zone)" in said
        assert "given back when the other has passed its check, and both are paid for until then" in said

    def test_a_flag_on_the_only_slice_is_an_outage(self) -> None:
        assert "an outage, since no other slice answers meanwhile" in self.effects("v6e4", serving__maxModelLen=8192)

    def test_a_flag_together_with_a_second_slice_is_an_outage_still(self) -> None:
        said = self.effects("v6e4", serving__maxModelLen=8192, tpu__slices=["blue", "green"])
        assert "an outage, since no other slice answers meanwhile" in said

    def test_a_flag_on_two_slices_is_none(self) -> None:
        both = ["blue", "green"]
        before, after = (with_resources("v6e4", tpu__slices=both, serving__maxModelLen=size) for size in (16384, 8192))
        assert "the other slices answer meanwhile" in "\n".join(compare(before, after).effects)

    def test_a_machine_that_moves_is_an_outage_and_a_name_that_changes_with_it_is_the_way_round(self) -> None:
        said = self.effects("g4x2", machine__zones=["us-central1-f"])
        assert (
            "machine-blue-group: the machine is deleted before another one is asked for (distributionPolicyZones"
            in said
        )
        assert "an outage until that one serves" in said
        renamed = self.effects("g4x2", machine__zones=["us-central1-f"], machine__names=["green"])
        assert renamed == "machine-blue-group is deleted with its machine."

    def test_a_flag_is_an_outage_where_one_server_runs_and_none_where_a_machine_has_several(self) -> None:
        assert "an outage, since no other one answers then" in self.effects("g4x2", serving__maxModelLen=4096)
        said = self.effects("g4x8", serving__maxModelLen=4096)
        assert "one after the other" in said
        assert "the others answer meanwhile" in said

    def test_a_flag_on_two_machines_with_a_server_each_is_an_outage_where_none_can_be_checked(self) -> None:
        both = ["blue", "green"]
        for ingress, meanwhile in (
            ("all", "the other machines answer meanwhile"),
            ("internal", "an outage, since no machine waits for another one"),
        ):
            before, after = (
                with_resources("g4x2", machine__names=both, access__ingress=ingress, serving__maxModelLen=size)
                for size in (8192, 4096)
            )
            said = compare(before, after).effects
            assert sum(meanwhile in one for one in said) == 2, said

    def test_of_another_stack_nothing_is_said(self) -> None:
        assert compare(with_resources("l4"), with_resources("rtx6000")).effects == ()

    def test_what_replaces_a_slice_is_what_its_provider_says(self) -> None:
        assert _REPLACES["pulumi-python:dynamic/gemma4:TpuQueuedResource"] == tpu_queued_resource._FIXED

    def test_every_type_that_is_spoken_of_is_one_that_the_program_registers(self) -> None:
        registered = {row["type"] for name in ("l4", "v6e4", "g4x2") for row in with_resources(name)["resources"]}
        assert {*_REPLACES, *_REPLACED, *_UPDATED, *_DELETED} <= registered


class TestEverythingElse:
    def test_flags_variables_callers_and_resources_are_compared(self) -> None:
        after = data(
            "l4",
            ResourceList(RESOURCES.rows[:3]),
            serving__reasoning=False,
            serving__env={"A": "1"},
            access__invokers=["group:ml@example.com"],
            access__deployers=["user:me@example.com"],
        )
        found = {subject: (c.before, c.after) for subject, c in by_subject(data("l4", RESOURCES), after).items()}
        assert found["--reasoning-parser"] == ("gemma4", "")
        assert found["A"] == ("", "1")
        assert found["May call"] == ("", "group:ml@example.com")
        assert found["May deploy"] == ("", "user:me@example.com")
        assert found["Resources"] == ("4", "3")
        assert found["− network-subnet"] == ("Subnetwork", "")

    def test_a_flag_that_is_given_twice_is_compared_whole(self) -> None:
        before, after = data("l4"), data("l4")
        before["vllm"]["argv"] += ["--twice", "a", "--twice", "b"]
        after["vllm"]["argv"] += ["--twice", "c", "--twice", "b"]
        change = by_subject(before, after)["--twice"]
        assert (change.before, change.after) == ("a b", "c b")

    def test_the_hash_is_no_news(self) -> None:
        subjects = {*by_subject(data("l4"), data("l4", serving__maxModelLen=4096))}
        assert not subjects & {"--served-model-name", "vllm.specHash"}

    def test_any_value_of_the_plan_that_differs_is_a_change(self) -> None:
        before = data("v6e4", RESOURCES)
        keys = [
            path for path, _ in properties({key: before[key] for key in before if key not in ("resources", "stack")})
        ]
        for path in keys:
            after = json.loads(json.dumps(before))
            node, parts = after, re.findall(r"[^.\[\]]+", path)
            if path.startswith(("schema", "verdict", "resourcesMissing", "settings", "origins")):
                continue  # told elsewhere, or names with dots
            try:
                for part in parts[:-1]:
                    node = node[int(part)] if isinstance(node, list) else node[part]
                last: Any = int(parts[-1]) if isinstance(node, list) else parts[-1]
                node[last] = "something else" if not isinstance(node[last], list) else [*node[last], "more"]
            except (KeyError, ValueError):
                continue  # a member that is named by its name
            if not misshapen(after):
                assert changes(before, after), path

    def test_sections_stand_in_their_order(self) -> None:
        order = [*SECTIONS]
        found = [order.index(change.section) for change in changes(data("l4", RESOURCES), data("v6e4", RESOURCES))]
        assert found == sorted(found)

    def test_a_warning_that_comes_or_goes_is_told(self) -> None:
        before, after = data("l4"), data("l4", scaling__maxInstances=50)
        (change,) = (c for c in changes(before, after) if c.section == "warnings")
        assert (change.before, change.tone) == ("", "worse")
        assert change.after.startswith("scaling.maxInstances: 50 instances need")
        assert change.new in after["warnings"]

    def test_a_warning_of_which_only_the_figures_differ_is_one_change(self) -> None:
        before, after = data("g4x2"), data("g4x8")
        found = [change for change in changes(before, after) if change.section == "warnings"]
        (other,) = (change for change in found if change.before)
        assert (other.old in before["warnings"], other.new in after["warnings"], other.tone) == (True, True, "")
        assert ("needs 2 GPU" in other.before, "needs 8 GPU" in other.after) == (True, True)
        assert [change.after.partition(":")[0] for change in found if change is not other] == ["machine.names"]
        comment = as_markdown(shipped("g4x8"), None, before)
        assert "new, **machine.names**" in comment
        assert "new, **accelerator**" not in comment


class TestSeveralServers:
    def test_the_speed_of_all_is_compared(self) -> None:
        change = by_subject(data("g4x2"), data("g4x8"))["Speed of all servers"]
        assert change.tone == "better"
        assert change.new == pytest.approx(4 * data("g4x8")["speed"]["planned"]["withNewPrompts"]["mid"])

    def test_that_of_an_only_server_is_not_told_twice(self) -> None:
        subjects = {change.subject for change in changes(data("l4"), data("rtx6000"))}
        assert "Speed as planned" in subjects
        assert not any("allServers" in subject or subject == "Speed of all servers" for subject in subjects)


class TestLongValues:
    LONG = "a" * 500 + "X" + "b" * 500, "a" * 500 + "Y" + "b" * 500

    def test_are_cut_where_they_do_not_differ(self) -> None:
        before, after = shortened(*self.LONG, 60)
        assert (len(before), len(after)) == (60, 60)
        assert ("X" in before, "Y" in after) == (True, True)

    def test_are_whole_in_the_data(self) -> None:
        change = Change("resources", "it", *self.LONG, *self.LONG)
        assert change.as_json()["before"] == change.as_json()["old"] == self.LONG[0]
        assert len(change.brief(40)[0]) == 40

    def test_of_lists_show_the_members_that_differ_with_their_flag(self) -> None:
        old, new = (["serve", "--a", "1", "--b", value, "--c"] for value in ("2", "3"))
        assert side_by_side(old, new) == ("--b 2", "--b 3")
        assert side_by_side(["x", "y"], ["x", "z", "y"]) == ("", "z")

    def test_of_an_object_in_a_text_are_its_members(self) -> None:
        found = dict(properties({"spec": '{"argv": ["a"], "env": {"B": "1"}}', "items": [{"name": "n", "v": 1}]}))
        assert found == {"spec.argv": ["a"], "spec.env.B": "1", "items[n].name": "n", "items[n].v": 1}


class TestHowItIsPrinted:
    def test_the_price_and_what_runs_stand_before_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        before, after = with_resources("l4"), shipped("l4", scaling__maxInstances=50)
        file = read_stack(ROOT, "l4")
        listed = list_resources(Planned(file, {"scaling.maxInstances": 50}, after))
        print_changes(after, listed, before)
        shown = capsys.readouterr().out
        marks = ["The whole stack: $0.00", "serving-service gets a new revision", "new: warning", "$/hour, whole stack"]
        assert [shown.index(mark) for mark in marks] == sorted(shown.index(mark) for mark in marks)
        comment = as_markdown(after, listed, before)
        assert comment.index("The whole stack: $0.00") < comment.index("| change |") < comment.index("The whole plan")

    def test_further_figures_are_counted_and_listed_where_nothing_else_changes(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = data("l4")
        before["startup"]["source"] = "elsewhere"
        print_changes(shipped("l4"), None, before)
        assert "startup.source" in capsys.readouterr().out
        print_changes(shipped("l4", serving__maxModelLen=4096), None, before)
        shown = capsys.readouterr().out
        assert "startup.source" not in shown
        assert re.search(r"\d+ further differences? of figures and words", shown)
