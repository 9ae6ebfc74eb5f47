"""The evaluation of a server that knows everything, and of servers of which one thing is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from infra.serving.client import ServingClient
from infra.serving.evaluation.evaluation_comparison import compare_items
from infra.serving.evaluation.evaluation_record import STOPPED, AskedItem, count_kinds, judge
from infra.serving.evaluation.evaluator import EvaluationScope, Evaluator
from infra.serving.evaluation.task_set import KINDS, Kind, task_set
from tests.fakes.oracle import Oracle
from tests.fakes.vllm import FakeVllm

SET = task_set()
FLOOR = SET.floor("")
ALL = len(SET.tasks) + 12


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm(max_model_len=8192) as fake:
        fake.says = Oracle()
        yield fake


def evaluator(server: FakeVllm, progress: Any = lambda *_: None, **changes: Any) -> Evaluator:
    scope = replace(EvaluationScope("gemma", server.max_model_len), **changes)
    return Evaluator(ServingClient(server.url), SET, scope, progress=progress, sleep=lambda _: None)


def asked(server: FakeVllm, **changes: Any) -> tuple[AskedItem, ...]:
    return evaluator(server, **changes).run()


def outcomes(items: tuple[AskedItem, ...]) -> set[str]:
    return {item.outcome for item in items}


class TestAServerThatKnowsEverything:
    def test_passes_every_question(self, server: FakeVllm) -> None:
        items = asked(server)
        assert [item.id for item in items if item.outcome != "passed"] == []
        assert len(items) == ALL
        assert judge(items, FLOOR).verdict == "sound"

    def test_is_asked_some_questions_twice_and_repeats_itself(self, server: FakeVllm) -> None:
        twice = [item.same_again for item in asked(server) if item.same_again is not None]
        assert 8 <= len(twice) <= 20
        assert all(twice)

    def test_is_asked_long_texts_up_to_its_context_and_never_beyond(self, server: FakeVllm) -> None:
        lengths = {item.id.split("-")[1] for item in asked(server) if item.kind == "context"}
        assert lengths == {"2048", "4096", "8192"}
        assert {item.id.split("-")[1] for item in asked(server, longest_context=2048) if item.kind == "context"} == {
            "1024",
            "2048",
        }

    def test_compares_with_itself_as_no_difference(self, server: FakeVllm) -> None:
        found = compare_items(asked(server), asked(server))
        assert (found.verdict, found.common, found.same_words, found.lost) == ("no difference", ALL, ALL, ())


class TestABrokenServer:
    @pytest.mark.parametrize("kind", KINDS)
    def test_is_named_by_the_kind_that_broke(self, server: FakeVllm, kind: Kind) -> None:
        before = asked(server)
        server.says = Oracle(wrong={kind})
        items = asked(server)
        assert judge(items, FLOOR).broken_kinds == [kind]
        assert kind in judge(items, FLOOR).reason
        found = compare_items(before, items)
        assert (found.verdict, {one.partition("-")[0] for one in found.lost}) == ("worse", {kind})
        assert compare_items(items, before).verdict == "better"

    @pytest.mark.parametrize(
        ("mistake", "sign"),
        [
            ({"content": ""}, "empty"),
            ({"content": "!" * 60}, "repeats itself"),
            ({"content": "und\ufffd der\ufffd"}, "is no text"),
        ],
    )
    def test_is_broken_though_every_kind_is_above_its_floor(
        self, server: FakeVllm, mistake: dict[str, str], sign: str
    ) -> None:
        """More than a quarter of its answers are no answers, spread over all kinds."""
        own = [[task.id for task in SET.tasks if task.kind == kind] for kind in KINDS]
        lost = {name for names in own for name in names[:2]}
        server.says = Oracle(
            knows=lambda name: name not in lost and not name.startswith("context-harbour"), mistake=mistake
        )
        found = judge(asked(server), FLOOR)
        assert found.broken_kinds == []
        assert (found.verdict, set(found.signs)) == ("broken", {sign})

    def test_that_is_right_in_60_percent_where_it_was_in_90_is_found(self, server: FakeVllm) -> None:
        server.says = Oracle(knows=lambda name: hash_of(name) % 10 < 9)
        before = asked(server)
        server.says = Oracle(knows=lambda name: hash_of(name) % 10 < 6)
        found = compare_items(before, asked(server))
        assert found.verdict == "worse"
        assert found.p_value < 0.01

    def test_that_dies_is_broken_and_not_asked_on_and_on(self, server: FakeVllm) -> None:
        server.mode = "cannot generate"
        items = asked(server, kinds=("arithmetic", "copying"))
        assert outcomes(items) == {"error", "not asked"}
        assert {item.why for item in items if not item.asked} == {STOPPED}
        found = judge(items, FLOOR)
        assert found.verdict == "broken"
        assert STOPPED in found.reason
        assert len(server.sent("/v1/chat/completions")) < 40

    def test_that_fails_on_some_requests_has_them_counted_as_wrong(self, server: FakeVllm) -> None:
        server.mode = "no tool flags"
        items = asked(server, kinds=("tools",))
        assert outcomes(items) == {"error"}
        assert "requires --tool-call-parser" in items[0].why
        assert judge(items, FLOOR).broken_kinds == ["tools"]


class TestWhatIsNotAsked:
    def test_says_why(self, server: FakeVllm) -> None:
        items = asked(server, without={"image": "serving.modalities.image is 0"})
        (image,) = [one for one in count_kinds(items, FLOOR) if one.kind == "image"]
        assert (image.asked, image.why_not) == (0, "serving.modalities.image is 0")
        assert "image_url" not in str(server.sent("/v1/chat/completions"))
        assert judge(items, FLOOR).verdict == "sound"

    def test_is_what_an_unknown_server_refuses(self, server: FakeVllm) -> None:
        server.mode = "no images"
        items = asked(server, kinds=("image", "copying"), may_refuse=frozenset({"image"}))
        assert {item.outcome for item in items if item.kind == "image"} == {"not asked"}
        assert "At most 0 image(s)" in items[0].why
        assert judge(items, FLOOR).verdict == "sound"

    def test_is_every_kind_that_was_not_chosen(self, server: FakeVllm) -> None:
        assert {item.kind for item in asked(server, kinds=("tools", "copying"))} == {"tools", "copying"}

    def test_makes_no_verdict_where_too_little_is_left(self, server: FakeVllm) -> None:
        items = asked(server, kinds=("copying",))[:3]
        assert judge(items, FLOOR).verdict == "unknown"


class TestInterruptions:
    def test_keep_what_was_asked(self, server: FakeVllm) -> None:
        def interrupt(done: int, _total: int, _item: AskedItem) -> None:
            if done == 5:
                raise KeyboardInterrupt

        stopped = evaluator(server, progress=interrupt)
        items = stopped.run()
        assert stopped.interrupted
        assert sum(item.asked for item in items) == 5
        assert {item.why for item in items if not item.asked} == {"interrupted"}

    def test_of_a_fault_in_this_program_end_the_run(self, server: FakeVllm) -> None:
        class Faulty(ServingClient):
            def chat(self, _request: Any) -> Any:
                raise ZeroDivisionError

        scope = EvaluationScope("gemma", 0, kinds=("copying",))
        with pytest.raises(ZeroDivisionError):
            Evaluator(Faulty(server.url), SET, scope).run()


class TestABusyServer:
    def test_is_asked_again(self, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "busy", 2
        assert outcomes(asked(server, kinds=("copying",))) == {"passed"}


def hash_of(name: str) -> int:
    """A number that is spread evenly and the same in every process."""
    import zlib

    return zlib.crc32(name.encode()) // 7
