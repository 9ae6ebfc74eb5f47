"""`gemma4 memory`: what a server has really laid out, beside the plan's bands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.errors import Gemma4Error, GoogleError
from infra.ops.answers.memory_answers import MemberMemory
from infra.ops.commands.memory import memory_of
from infra.ops.endpoint.endpoint import Endpoint, Member
from infra.ops.plan_inputs import plan_stack
from infra.planning.plan import Plan
from tests.fakes.vllm import FakeVllm
from tests.projects import ROOT, Capture, Command, command

PLANNED = plan_stack("l4", root=ROOT)
PLAN = PLANNED.plan


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    """A server that laid out its KV cache as the plan expects."""
    with FakeVllm(spec_hash=PLAN.command.spec_hash, max_model_len=PLAN.server.max_model_len) as fake:
        fake.version = PLAN.server.vllm_version
        as_planned(fake, PLAN)
        yield fake


def as_planned(fake: FakeVllm, plan: Plan) -> None:
    geometry = plan.capacity.geometry
    fake.metrics.kv_tokens, fake.metrics.kv_blocks = plan.capacity.tokens, plan.capacity.num_blocks
    fake.metrics.block_size = min(geometry.full_block, geometry.sliding_block)
    fake.metrics.cache_dtype = plan.server.kv_cache_dtype


def of(fake: FakeVllm) -> Endpoint:
    return Endpoint(fake.url, (Member("", ""),), planned=PLANNED)


def member(fake: FakeVllm) -> MemberMemory:
    (only,) = memory_of(of(fake)).members
    return only


class TestAgainstThePlan:
    def test_a_server_as_planned_is_inside_and_holds_as_many_requests(self, server: FakeVllm) -> None:
        found = member(server)
        assert (found.tokens_inside, found.blocks_inside, found.requests_inside) == (True, True, True)
        assert found.requests == PLAN.requests_held
        assert found.tokens == PLAN.capacity.tokens

    @pytest.mark.parametrize("edge", ["low", "high"])
    def test_the_ends_of_the_band_are_inside_and_what_lies_beyond_is_not(self, server: FakeVllm, edge: str) -> None:
        end = getattr(PLAN.kv_tokens, edge)
        server.metrics.kv_tokens = round(end)
        assert member(server).tokens_inside
        server.metrics.kv_tokens = round(end * (0.97 if edge == "low" else 1.03))
        assert member(server).tokens_inside is False

    def test_fewer_blocks_hold_fewer_requests(self, server: FakeVllm) -> None:
        server.metrics.kv_blocks //= 2
        found = member(server)
        assert found.blocks_inside is False
        assert found.requests is not None
        assert 0 < found.requests <= PLAN.requests_held // 2

    def test_blocks_of_another_size_are_not_counted_as_the_plans(self, server: FakeVllm) -> None:
        server.metrics.block_size *= 2
        found = member(server)
        assert (found.blocks_inside, found.requests) == (None, None)
        assert found.tokens_inside, "tokens are tokens"

    @pytest.mark.parametrize("other", ["specification", "version"])
    def test_another_server_than_the_planned_one_is_not_compared_and_a_note_says_why(
        self, server: FakeVllm, other: str
    ) -> None:
        if other == "version":
            server.version = "0.21.0"
        else:
            server.spec_hash = "spec-other"
        answer = memory_of(of(server))
        assert (answer.members[0].tokens_inside, answer.members[0].requests) == (None, None)
        assert answer.members[0].tokens == PLAN.capacity.tokens
        assert ("pulumi up -s l4" if other == "specification" else "runs vLLM 0.21.0") in answer.notes[0]

    def test_figures_that_the_version_does_not_report_are_unknown(self, server: FakeVllm) -> None:
        server.metrics.missing = {"cache_config_info"}
        found = member(server)
        assert (found.tokens, found.tokens_inside, found.blocks, found.requests) == (None,) * 4


class TestTheLog:
    def test_tells_weights_and_graphs_of_the_planned_server(
        self, server: FakeVllm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        weights = PLAN.memory.weights.mid / 2**30
        lines = (f"Model loading took {weights:.2f} GiB memory and 21.0 seconds", "kv cache group sizes (32, 16)")
        monkeypatch.setattr("infra.ops.commands.memory.last_lines", lambda *_: lines)
        (found,) = memory_of(Endpoint(server.url, (Member("", ""),), planned=PLANNED, session=object())).members  # type: ignore[arg-type]
        assert (found.weights_inside, found.group_block_sizes, found.graphs_gib) == (True, [32, 16], None)

    def test_that_cannot_be_read_costs_only_what_it_would_have_told(
        self, server: FakeVllm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise GoogleError("Cloud Logging refused: grant roles/logging.viewer.", status=403)

        monkeypatch.setattr("infra.ops.commands.memory.last_lines", refuse)
        answer = memory_of(Endpoint(server.url, (Member("", ""),), planned=PLANNED, session=object()))  # type: ignore[arg-type]
        assert answer.members[0].tokens_inside
        assert "roles/logging.viewer" in answer.notes[0]


class TestSeveralServers:
    def test_one_that_does_not_answer_is_said_and_the_others_are_shown(self, server: FakeVllm) -> None:
        server.prefixes = ("/members/blue",)
        two = (Member("blue", "/members/blue"), Member("green", "/members/green"))
        blue, green = memory_of(Endpoint(server.url, two, planned=PLANNED)).members
        assert blue.tokens_inside
        assert "404" in green.error

    def test_where_none_answers_it_fails(self) -> None:
        with pytest.raises(Gemma4Error, match="nothing listens there"):
            memory_of(Endpoint("http://127.0.0.1:9", (Member("", ""),)))


def test_of_a_url_the_command_shows_what_is_there_without_a_plan(server: FakeVllm, gemma4: Command) -> None:
    answer = gemma4("memory", "--url", server.url)
    cells = {line[:22].strip(): line[22:].strip() for line in answer.out.splitlines()}
    assert cells["tokens"] == f"{PLAN.capacity.tokens:,}"
    assert max(map(len, answer.out.splitlines())) <= 80
    data = gemma4("memory", "--url", server.url, "--json").data
    assert data["planned"] is None
    assert data["members"][0]["kvCacheDtype"] == PLAN.server.kv_cache_dtype
