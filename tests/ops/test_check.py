"""`gemma4 check` against a server that answers as vLLM does: what it proves, and how it says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.errors import ServingError
from infra.serving.client import ServingClient
from infra.serving.served_expectation import served_expectation
from tests.fakes.operated_stack import OperatedStack, operated_stack
from tests.fakes.vllm import FakeVllm
from tests.projects import Capture, Command, command


@pytest.fixture
def l4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    with operated_stack(tmp_path, monkeypatch, "l4") as stack:
        stack.deploy()
        yield stack


@pytest.fixture
def v6e4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    settings = {"tpu": {"slices": ["blue", "green"]}}
    with operated_stack(tmp_path, monkeypatch, "v6e4", settings) as stack:
        stack.deploy()
        yield stack


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


class TestAStack:
    def test_that_does_what_is_planned_passes_with_its_figures_beside_the_prediction(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        l4.server.metrics.kv_tokens = round(l4.plan.kv_tokens.mid)
        answer = gemma4("check", "l4", "--json")
        (server,) = answer.data["servers"]
        assert (answer.code, answer.data["passed"], server["passed"], server["error"]) == (0, True, True, "")
        assert answer.data["expected"] == ["reasoning", "tools", "image"]
        figures = {row["figure"]: row for row in server["figures"]}
        assert figures["KV cache"]["measured"] == l4.server.metrics.kv_tokens
        assert figures["KV cache"]["predicted"]["mid"] == pytest.approx(l4.plan.kv_tokens.mid)
        assert (figures["KV cache"]["inBand"], figures["first token"]["inBand"]) == (True, None)

    def test_is_asked_with_an_identity_token_that_is_shown_nowhere(self, l4: OperatedStack, gemma4: Command) -> None:
        answer = gemma4("check", "l4")
        (token,) = l4.server.tokens_seen
        assert token.count(".") == 2
        assert token not in answer.out + answer.err

    def test_prints_what_was_predicted_and_measured_in_eighty_columns(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.server.metrics.kv_tokens = 7
        answer = gemma4("check", "l4")
        lines = answer.out.splitlines()
        assert lines[0].startswith("l4 passed in ")
        assert lines[0].endswith(" s: text, reasoning, tools, image")
        assert lines[1] == f"  at {l4.server.url}"
        assert lines[2].split() == ["predicted", "measured"]
        assert [line.split()[0] for line in lines[3:7]] == ["KV", "first", "alone", "ready"]
        assert lines[3].endswith("7 tokens")
        assert "without network" in lines[4]
        assert "  KV cache is outside the predicted band" in lines
        assert max(map(len, lines)) <= 80

    def test_that_cannot_generate_fails_with_stage_cause_and_fix(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.server.mode = "cannot generate"
        labels = {"service_name": "gemma4-l4", "location": l4.plan.region}
        l4.google.logging.add("ValueError: k_scale must be positive", "cloud_run_revision", labels)
        answer = gemma4("check", "l4", "--json")
        (server,) = answer.data["servers"]
        assert (answer.code, answer.data["passed"], server["stage"]) == (1, False, "chat")
        assert "cannot generate" in server["error"]
        assert "kvCacheDtype" in server["error"]
        assert server["log"] == ["ValueError: k_scale must be positive"]
        assert server["figures"] == []
        assert answer.data["next"] == "gemma4 diagnose l4"
        l4.server.mode = "empty"
        text = gemma4("check", "l4")
        assert text.code == 1
        assert text.out.splitlines()[0] == "l4 FAILED at stage chat"
        assert "Next: gemma4 diagnose l4" in text.out
        assert max(map(len, text.out.splitlines())) <= 80

    def test_of_which_another_specification_is_deployed_is_not_waited_for(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        l4.write({"serving": {"maxModelLen": 4096}})
        answer = gemma4("check", "l4", "--json")
        (server,) = answer.data["servers"]
        assert (answer.code, server["stage"], answer.data["next"]) == (1, "models", "pulumi up -s l4")
        assert f"deployed is {l4.outputs['plan']['spec']}" in server["error"]
        assert l4.server.requests == []

    def test_whose_caller_may_not_make_a_token_names_the_role(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.google.fault("POST", ":generateIdToken", status=403, message="Permission denied", times=99)
        answer = gemma4("check", "l4", "--json")
        (server,) = answer.data["servers"]
        assert (answer.code, server["stage"]) == (1, "identity")
        assert "roles/iam.serviceAccountOpenIdTokenCreator" in server["error"]

    def test_that_never_gets_ready_is_given_up_after_the_time_that_was_given(
        self, l4: OperatedStack, gemma4: Command
    ) -> None:
        l4.server.mode, l4.server.refusals_left = "loading", -1
        answer = gemma4("check", "l4", "--wait", "1", "--json")
        (server,) = answer.data["servers"]
        assert (answer.code, server["stage"]) == (1, "ready")
        assert "not ready after 1 s" in server["error"]

    def test_that_is_not_deployed_says_what_to_type(self, l4: OperatedStack, gemma4: Command) -> None:
        l4.outputs = {}
        l4.save()
        answer = gemma4("check", "l4")
        assert answer.code == 1
        assert "pulumi up -s l4" in answer.err


class TestSlices:
    def test_are_checked_one_by_one_by_their_own_path(self, v6e4: OperatedStack, gemma4: Command) -> None:
        answer = gemma4("check", "v6e4", "--json")
        assert [(one["name"], one["passed"]) for one in answer.data["servers"]] == [("blue", True), ("green", True)]
        assert [one["url"] for one in answer.data["servers"]] == [
            f"{v6e4.server.url}/members/{name}" for name in ("blue", "green")
        ]

    def test_of_which_one_is_named_are_left_alone_but_that_one(self, v6e4: OperatedStack, gemma4: Command) -> None:
        answer = gemma4("check", "v6e4", "--slice", "green", "--json")
        assert [one["name"] for one in answer.data["servers"]] == ["green"]
        assert gemma4("check", "v6e4", "--slice", "pink").code == 2


class TestAUrl:
    def test_is_expected_to_do_what_it_says_and_takes(self, gemma4: Command) -> None:
        with FakeVllm(model="mine", max_model_len=2048) as fake:
            answer = gemma4("check", "--url", fake.url, "--json")
        (server,) = answer.data["servers"]
        assert (answer.code, answer.data["endpoint"]) == (0, fake.url)
        assert answer.data["expected"] == ["tools", "image"]
        assert [row["predicted"] for row in server["figures"]] == [None] * 4

    @pytest.mark.parametrize(("mode", "left_out"), [("no images", "image"), ("no tool flags", "tools")])
    def test_that_refuses_tools_or_images_is_not_asked_for_them_again(self, mode: str, left_out: str) -> None:
        with FakeVllm() as fake:
            fake.mode = mode  # type: ignore[assignment]
            expected = served_expectation(ServingClient(fake.url))
        assert {"tools": expected.tools, "image": expected.image} == {
            name: name != left_out for name in ("tools", "image")
        }

    def test_that_serves_no_model_is_nothing_to_check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ServingClient, "models", lambda _: ())
        with pytest.raises(ServingError, match="lists no model"):
            served_expectation(ServingClient("http://127.0.0.1:1"))

    def test_where_nobody_listens_fails_at_once(self, gemma4: Command) -> None:
        answer = gemma4("check", "--url", "http://127.0.0.1:9")
        assert answer.code == 1
        assert answer.out.splitlines()[0] == "http://127.0.0.1:9 FAILED at stage ready"
        assert "nothing listens there" in " ".join(answer.out.split())
