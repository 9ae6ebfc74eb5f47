"""What is recommended meets its need, plans as it is printed, and nothing goes first that nobody should choose."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import pytest
import yaml

from infra.catalog import Catalog, Model, catalog
from infra.errors import SettingsError
from infra.ops.command_line.all_commands import whole_command
from infra.ops.commands.recommend import stack_file
from infra.planning.candidates import Candidate, Need, quality_of
from infra.planning.checks.reading_pace import READING_SPEED
from infra.planning.planner import make_plan
from infra.planning.ranking import doubt_about, reason, usd
from infra.planning.recommend import recommend


class TestRecommendations:
    def test_meet_the_need_they_were_asked_for(self) -> None:
        need = Need(model="12b", context=16_384, users=12, max_usd_per_hour=6, min_tokens_per_second=12)
        found = recommend(need).candidates
        assert found
        for one in found:
            assert not one.plan.refused
            assert one.usd_per_hour <= 6
            assert one.rate.per_stream.mid >= 12
            assert one.replicas * one.rate.requests >= 12
            assert one.plan.server.max_model_len == 16_384
            assert one.plan.capacity.requests_held(1280) >= one.rate.requests

    LONG: ClassVar[dict[str, Any]] = {"context": 32_768, "prompt_tokens": 6000, "output_tokens": 2000}
    FAST: ClassVar[dict[str, Any]] = {
        "context": 2048,
        "prompt_tokens": 200,
        "output_tokens": 50,
        "min_tokens_per_second": 25.0,
    }

    @pytest.mark.parametrize(
        ("users", "rest"),
        [(1, {}), (100, {}), (901, {}), (5000, {}), (1, LONG), (100, LONG), (300, FAST)],
        ids=["one", "hundred", "900 and one", "5000", "one, long", "hundred, long", "300, fast"],
    )
    def test_plan_as_they_were_ranked_from_the_stack_file_that_is_printed(
        self, users: int, rest: dict[str, Any]
    ) -> None:
        for one in recommend(Need(users=users, **rest)).candidates:
            config = yaml.safe_load("\n".join(stack_file(one)))["config"]
            again = make_plan("again", {key.removeprefix("gemma4:"): value for key, value in config.items()})
            shown = one.plan.model.id, one.plan.accelerator.id, users
            assert not again.refused, (shown, again.refusals)
            assert again.cost.usd_per_hour_at_most == one.usd_per_hour, shown
            assert again.cost.replicas == one.replicas, shown
            assert one.replicas * again.requests_held == one.holds, shown
            assert min(again.requests_held, again.server.max_num_seqs) >= one.rate.requests, shown
            assert again.speed_model.tokens_per_second_at(one.rate.requests) == one.rate, shown
            assert one.replicas * one.rate.requests >= users
            wasteful = {"serving.maxNumSeqs", "scaling.concurrency"} & {fault.key for fault in again.warnings}
            assert not wasteful, (shown, again.warnings)

    def test_find_speculation_where_only_it_is_fast_enough(self) -> None:
        found = recommend(Need(model="31b", min_tokens_per_second=60)).candidates
        best = next(one for one in found if one.plan.model.id == "gemma-4-31b-it")
        assert (best.plan.accelerator.id, best.plan.server.speculation) == ("rtx-pro-6000", "mtp")
        assert best.usd_per_hour < 4
        calm = recommend(Need(model="gemma-4-31b-it")).candidates[0]
        assert (calm.plan.accelerator.id, calm.plan.server.speculation) == ("rtx-pro-6000", "none")

    def test_offer_nothing_slower_than_people_read_unless_asked(self) -> None:
        def on_l4(need: Need) -> float:
            found = recommend(need).candidates
            assert all(one.rate.per_stream.mid >= need.floor for one in found)
            return next((one.rate.per_stream.mid for one in found if one.plan.accelerator.id == "l4"), math.inf)

        need = Need(model="gemma-4-31b-it-qat-w4a16")
        assert need.floor == READING_SPEED
        assert on_l4(replace(need, min_tokens_per_second=0.5)) < READING_SPEED <= on_l4(need)

    def test_say_the_cheapest_where_the_limit_excludes_all(self) -> None:
        found = recommend(Need(max_usd_per_hour=0.1))
        assert not found.candidates
        assert found.cheapest is not None
        assert found.cheapest.usd_per_hour == min(one.usd_per_hour for one in recommend(Need()).candidates)

    def test_say_how_many_users_would_be_held_and_that_many_are(self) -> None:
        model = "gemma-4-12b-it-qat-w4a16"
        most = recommend(Need(model=model, users=100_000)).most_users
        assert not recommend(Need(model=model, users=100_000)).candidates
        assert recommend(Need(model=model, users=int(0.9 * most))).candidates

    @pytest.mark.parametrize("users", [10**6, 10**400], ids=["a million", "400 digits"])
    def test_answer_enormous_numbers(self, users: int) -> None:
        found = recommend(Need(users=users))
        assert found.candidates == ()
        assert sum(found.rejected.values()) == len(catalog().models) * len(catalog().accelerators)

    def test_call_measured_only_what_was(self) -> None:
        def measured(need: Need, machine: str) -> str:
            return next(one for one in recommend(need).candidates if one.plan.accelerator.id == machine).measured

        assert measured(Need(model="gemma-4-31b-it", users=4), "rtx-pro-6000") == "speed"
        assert measured(Need(model="gemma-4-31b-it", users=40), "rtx-pro-6000") == "ran"
        assert measured(Need(model="gemma-4-31b-it", context=65_536), "rtx-pro-6000") == "no"
        assert measured(Need(model="gemma-4-31b-it", min_tokens_per_second=60), "rtx-pro-6000") == "no"
        assert measured(Need(model="gemma-4-e2b-it"), "v6e-1") == "ran"
        assert measured(Need(model="gemma-4-12b-it", context=16_384), "v6e-1") == "no"

    def test_no_number_is_no_limit(self) -> None:
        with pytest.raises(SettingsError, match="--max-usd-per-hour: is not a number"):
            recommend(Need(max_usd_per_hour=math.nan))

    def test_every_pair_is_a_candidate_or_is_counted_with_a_reason(self) -> None:
        found = recommend(Need(users=2))
        facts = catalog()
        pairs = {(one.plan.model.id, one.plan.accelerator.id) for one in found.candidates}
        assert len(pairs) + sum(found.rejected.values()) == len(facts.models) * len(facts.accelerators)

    def test_a_harder_need_never_finds_more(self) -> None:
        counts = [len(recommend(Need(model="31b", min_tokens_per_second=speed)).candidates) for speed in (1, 20, 200)]
        assert counts == sorted(counts, reverse=True)

    def test_a_model_may_be_named_in_part_and_exactly(self) -> None:
        models = {one.plan.model.id for one in recommend(Need(model="12b")).candidates}
        assert {"gemma-4-12b-it", "gemma-4-12b-it-qat-w4a16"} <= models
        assert all("12b" in model for model in models)
        assert {one.plan.model.id for one in recommend(Need(model="gemma-4-12b-it")).candidates} == {"gemma-4-12b-it"}


RECOMMEND: Any = whole_command().commands["recommend"]


@cache
def candidates(need: Need) -> tuple[Candidate, ...]:
    return recommend(need).candidates


class TestQuality:
    def test_every_model_has_a_score_or_is_said_to_have_none(self) -> None:
        facts = catalog()
        assert set(facts.models) == set(facts.scores) | set(facts.unscored)
        assert not set(facts.scores) & set(facts.unscored)

    @pytest.mark.parametrize("model", catalog().models.values(), ids=lambda model: model.id)
    def test_a_score_is_the_weights_own_or_is_marked(self, model: Model) -> None:
        quality = quality_of(model, catalog())
        assert quality.percent is not None
        assert quality.own == (model.id in catalog().scores) == (not quality.says) == ("~" not in quality.cell)
        assert quality.own <= (model.weight_format == "bf16")

    def test_fp8_made_while_loading_has_no_score_of_its_own(self) -> None:
        quality = quality_of(catalog().model("gemma-4-31b-it"), catalog(), quantized_while_loading=True)
        assert not quality.own
        assert quality.percent == quality_of(catalog().model("gemma-4-31b-it"), catalog()).percent

    def test_a_larger_model_of_google_scores_higher(self) -> None:
        rows = [
            (catalog().architecture_of(model).parameters.total, row.percent) for model, row in catalog().scores.items()
        ]
        assert [score for _, score in sorted(rows)] == sorted(score for _, score in rows)

    def test_the_floor_is_kept_and_the_help_names_every_score(self) -> None:
        need = Need(min_quality=80, users=5)
        assert all((one.quality.percent or 0) >= 80 for one in candidates(need))
        assert any("below a quality" in reason for reason in recommend(need).rejected)
        (helped,) = (option.help for option in RECOMMEND.params if getattr(option, "name", "") == "min_quality")
        for row in catalog().scores.values():
            assert f"{row.percent:.1f}" in helped


class TestTheRanking:
    NEEDS: ClassVar[list[Need]] = [
        Need(model="31b", users=4),
        Need(users=5),
        Need(users=100),
        Need(users=5, may_end=True),
        Need(users=5, min_quality=75),
        Need(users=16, order="tokens"),
        Need(order="speed"),
    ]
    needs = pytest.mark.parametrize("need", NEEDS, ids=["31b", "5", "100", "may end", "a floor", "tokens", "speed"])

    @needs
    def test_what_can_be_deployed_goes_before_what_cannot_and_what_is_sure_before_what_is_doubtful(
        self, need: Need
    ) -> None:
        keys = [(not one.plan.accelerator.deployable, bool(doubt_about(one, need))) for one in candidates(need)]
        assert keys == sorted(keys)
        assert keys[0] == (False, False)

    @needs
    def test_nothing_goes_before_what_beats_it_in_price_score_maker_and_speed(self, need: Need) -> None:
        found = candidates(need)
        for index, one in enumerate(found):
            for other in found[index + 1 :]:
                ends = other.plan.deployment.ends_after_s is not None and not need.may_end
                cheaper = usd(other, need) < usd(one, need) / 1.6
                better = (other.quality.percent or 0) >= (one.quality.percent or 0)
                trusted = not other.plan.model.third_party and other.quality.own >= one.quality.own
                faster = other.rate.per_stream.mid >= one.rate.per_stream.mid
                sure = not doubt_about(other, need) and other.plan.accelerator.deployable
                assert not (sure and not ends and cheaper and better and trusted and faster), index

    def test_a_machine_that_ends_stands_behind_the_same_one_that_stays_unless_the_need_may_end(self) -> None:
        need = Need(model="gemma-4-31b-it", users=2)
        ends = [
            one.plan.deployment.ends_after_s is not None for one in candidates(need) if one.plan.platform.id == "tpu"
        ]
        assert set(ends) == {True, False}
        assert not ends[0]
        relaxed = candidates(replace(need, may_end=True))
        assert all(one.plan.deployment.ends_after_s for one in relaxed if one.plan.platform.id == "tpu")

    def test_more_score_for_the_same_price_goes_first_and_ten_points_are_worth_twice_the_price(self) -> None:
        first = candidates(Need(users=5))[0]
        same = [
            one
            for one in candidates(Need(users=5))
            if one.usd_per_hour <= first.usd_per_hour and _sure(one, Need(users=5))
        ]
        assert first.quality.percent == max(one.quality.percent or 0 for one in same)
        for need in (Need(users=100), Need(users=1000)):
            best = candidates(need)[0]
            for one in candidates(need):
                if _sure(one, need):
                    points = (best.quality.percent or 0) - (one.quality.percent or 0)
                    assert best.usd_per_hour <= 1.25 * one.usd_per_hour * 2 ** (points / 10)

    def test_host_memory_is_a_last_resort(self) -> None:
        need = Need(model="gemma-4-31b-it-qat-w4a16", min_tokens_per_second=0.5)
        found = candidates(need)
        (offloaded,) = (one for one in found if one.plan.accelerator.id == "l4")
        assert offloaded.plan.server.cpu_offload_gib
        assert "last resort" in doubt_about(offloaded, need)
        assert all(index < found.index(offloaded) for index, one in enumerate(found) if _sure(one, need))

    def test_text_only_is_never_offered_to_who_sends_pictures(self) -> None:
        for one in candidates(Need(users=5, images=True)):
            assert one.plan.settings.serving.modalities.image >= 1

    def test_the_order_of_speed_and_of_tokens_put_the_best_there_first(self) -> None:
        fast, cheap = Need(order="speed", min_quality=80), Need(users=16, order="tokens", min_quality=80, may_end=True)
        first = candidates(fast)[0]
        for one in candidates(fast):
            if _sure(one, fast):
                worth = (one.usd_per_hour / first.usd_per_hour) ** 0.5
                assert one.rate.per_stream.mid <= 1.5 * worth * first.rate.per_stream.mid
        prices = [usd(one, cheap) for one in candidates(cheap) if _sure(one, cheap)]
        assert usd(candidates(cheap)[0], cheap) <= min(prices) * 1.5

    @needs
    def test_every_row_says_in_one_line_why_it_stands_there(self, need: Need) -> None:
        found = candidates(need)
        for index in range(len(found)):
            said = reason(found, index, need)
            assert said
            assert "\n" not in said
            assert len(said) <= 76, said

    def test_a_search_with_many_variants_plans_no_pair_more_often_than_it_has_variants(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planned: list[object] = []

        def counted_plan(*args: Any, **rest: Any) -> Any:
            planned.append(args)
            return make_plan(*args, **rest)

        monkeypatch.setattr("infra.planning.recommend.make_plan", counted_plan)
        found = recommend(Need(users=5), facts=Catalog())  # of which no plan is known yet
        pairs = len(catalog().models) * len(catalog().accelerators)
        assert len(found.candidates) <= len(planned) <= 2.5 * pairs


def _sure(one: Candidate, need: Need) -> bool:
    ends = one.plan.deployment.ends_after_s is not None and not need.may_end
    return one.plan.accelerator.deployable and not doubt_about(one, need) and not ends
