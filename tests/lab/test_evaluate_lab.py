"""`gemma4 evaluate` against a real vLLM whose model was never trained: everything is asked, and it is called broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.errors import ServingError
from infra.ops.evaluations.evaluate import evaluation_answer
from infra.ops.evaluations.stored_evaluation import load_evaluation
from infra.serving.check import CheckExpectation, run_check
from infra.serving.client import ServingClient
from infra.serving.evaluation.task_set import KINDS
from tests.lab import servers
from tests.lab.servers import LAB, MAX_MODEL_LEN, SPEC_HASH, TOOLS, RealVllm

pytestmark = pytest.mark.lab
needs_lab = pytest.mark.skipif(LAB is None, reason=servers.NO_LAB)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    assert LAB is not None
    model = LAB / "tiny-mm" if (LAB / "tiny-mm").is_dir() else LAB / "tiny"
    with servers.running(model, tmp_path_factory.mktemp("evaluated"), *TOOLS) as started:
        servers.wait_until_healthy(started)
        yield started


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are stored where the command is typed."""
    monkeypatch.chdir(tmp_path)


@needs_lab
class TestAModelThatWasNeverTrained:
    def test_is_asked_everything_called_broken_and_no_worse_than_itself(self, server: RealVllm) -> None:
        before = evaluation_answer(url=server.url)
        after = evaluation_answer(url=server.url, tasks=["instructions", "translation"], against="last")
        for answer in (before, after):
            assert (answer.verdict, answer.complete) == ("broken", True)
            assert answer.passed <= 2, "it writes random tokens"
            assert answer.asked == sum(row.asked for row in answer.kinds)
        pictures = LAB is not None and (LAB / "tiny-mm").is_dir()
        assert {row.kind for row in before.kinds if row.asked} == {
            kind for kind in KINDS if kind != "image" or pictures
        }
        assert after.comparison
        assert (after.comparison.verdict, after.comparison.common) == ("no difference", after.asked)
        run = load_evaluation(Path(before.file), "--stored")
        assert [item.why for item in run.items if item.outcome == "error"] == [], "vLLM takes every request"
        assert max(item.prompt_tokens for item in run.items) > 0.8 * MAX_MODEL_LEN, "the longest text nearly fills it"

    def test_repeats_itself_where_nothing_else_is_asked_at_the_same_time(self, server: RealVllm) -> None:
        before = evaluation_answer(url=server.url, tasks=["translation"], concurrency=1)
        after = evaluation_answer(url=server.url, tasks=["translation"], concurrency=1, against=before.file)
        assert after.comparison
        assert after.comparison.same_words == after.comparison.common == after.asked

    def test_does_not_pass_a_check_that_asks_for_right_answers(self, server: RealVllm) -> None:
        expected = CheckExpectation(model="gemma", spec_hash=SPEC_HASH, max_model_len=MAX_MODEL_LEN, evaluated_as="e2b")
        with pytest.raises(ServingError) as caught:
            run_check(ServingClient(server.url), expected)
        assert caught.value.stage == "evaluation"
        assert "below the floor: arithmetic (0 of 8)" in str(caught.value)
