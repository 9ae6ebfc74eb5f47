"""`gemma4 logs` against the fake Google: what is shown of which part of a stack, while following and to other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.errors import SettingsError
from infra.google.times import moment_ms
from infra.ops.cli import run
from infra.ops.commands import logs
from infra.ops.log_sources import log_sources
from infra.ops.plan_inputs import plan_stack
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import START, FakeTime, session
from tests.projects import ROOT, assert_has_its_form

RUN_SERVICE = {"service_name": "gemma4-l4", "location": "us-east4"}
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    with FakeGoogle() as running:
        yield running


@pytest.fixture(autouse=True)
def _project(fake: FakeGoogle, time: FakeTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with two stack files whose Google is the fake, at a time of its own."""
    for stack, accelerator, model in (("v6e4", "v6e-4", "gemma-4-26b-a4b-it"), ("l4", "l4", "gemma-4-e4b-it")):
        config: dict[str, Any] = {
            "gcp:project": "demo-project",
            "gemma4:model": model,
            "gemma4:accelerator": accelerator,
        }
        if stack == "v6e4":
            config["gemma4:tpu"] = {"slices": ["blue", "green"]}
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": config}))
    (tmp_path / "Pulumi.yaml").write_text("name: gemma4\nruntime: python\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs, "stack_session", lambda _: session(fake, time))


def write(fake: FakeGoogle, text: str, before_s: float = 10.0, **labels: str) -> None:
    """Write an entry of the service of `l4` that is so old."""
    where = {**RUN_SERVICE, "revision_name": "gemma4-l4-00001"} | labels
    fake.logging.add(text, "cloud_run_revision", where, timestamp=moment_ms(START - before_s))


class TestWhatIsShown:
    def test_an_entry_is_a_line_with_its_moment_severity_and_source(self, fake: FakeGoogle, capsys: Capture) -> None:
        write(fake, "Traceback:\n  File x\nValueError: no", 3)
        write(fake, "INFO starting", 4000)
        assert run(["logs", "l4"]) == 0
        assert (
            capsys.readouterr().out
            == "2027-01-15T07:59:57.000Z            service   Traceback:\\n  File x\\nValueError: no\n"
        )

    def test_of_a_stack_of_slices_are_gateway_slices_and_weights(self, fake: FakeGoogle, capsys: Capture) -> None:
        stamp = moment_ms(START - 5)
        gateway = {"service_name": "gemma4-v6e4", "location": "us-east5"}
        node = {"namespace": "gemma4", "node_id": "gemma4-v6e4-blue-b", "location": "us-east5-a"}
        job = {"job_name": "gemma4-v6e4-stage", "location": "us-east5"}
        fake.logging.add("forwarded", "cloud_run_revision", gateway, timestamp=stamp)
        fake.logging.add(
            "", "generic_node", node, timestamp=stamp, severity="ERROR", jsonPayload={"message": "no chips"}
        )
        fake.logging.add("copied", "cloud_run_job", job, timestamp=stamp)
        assert run(["logs", "v6e4", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert_has_its_form("logs", answer)
        assert {(one["source"], one["text"]) for one in answer["entries"]} == {
            ("gateway", "forwarded"),
            ("blue-b", "no chips"),
            ("weights", "copied"),
        }
        assert run(["logs", "v6e4", "--slice", "blue"]) == 0
        assert capsys.readouterr().out.splitlines() == ["2027-01-15T07:59:55.000Z  ERROR     blue-b    no chips"]

    def test_only_those_of_a_revision(self, fake: FakeGoogle, capsys: Capture) -> None:
        write(fake, "old")
        write(fake, "new", revision_name="gemma4-l4-00002")
        assert run(["logs", "l4", "--revision", "gemma4-l4-00002"]) == 0
        assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["new"]

    def test_that_older_ones_are_left_out_is_said(self, fake: FakeGoogle, capsys: Capture) -> None:
        for number in range(5):
            write(fake, f"line {number}", 50 - number)
        assert run(["logs", "l4", "--limit", "2"]) == 0
        shown = capsys.readouterr()
        assert [line[-1] for line in shown.out.splitlines()] == ["3", "4"]
        assert "raise --limit" in shown.err

    def test_nothing_is_said_as_such(self, capsys: Capture) -> None:
        assert run(["logs", "l4", "--errors"]) == 0
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "no failures since 2027-01-15T07:00:00.000Z" in shown.err


class TestFollowing:
    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_prints_each_entry_once_until_it_is_interrupted(
        self, fake: FakeGoogle, time: FakeTime, capsys: Capture, monkeypatch: pytest.MonkeyPatch, form: list[str]
    ) -> None:
        def sleep(seconds: float) -> None:
            time.now += seconds
            write(fake, f"line {len(time.pauses)}", START - time.now + 1)
            time.pauses.append(seconds)
            if len(time.pauses) == 4:
                raise KeyboardInterrupt

        monkeypatch.setattr(time, "sleep", sleep)
        for number in range(3):
            write(fake, f"old {number}", 30 - number)
        assert run(["logs", "l4", "--follow", "--limit", "2", *form]) == 130
        shown = capsys.readouterr().out.splitlines()
        texts = (
            [json.loads(line)["text"] for line in shown] if form else [line.split("service   ")[1] for line in shown]
        )
        assert texts == ["old 1", "old 2", "line 0", "line 1", "line 2"]
        assert time.pauses == [logs.POLL_S] * 4

    def test_outlasts_a_silence_of_google_and_says_so_once(
        self, fake: FakeGoogle, time: FakeTime, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks = 0

        def sleep(seconds: float) -> None:
            nonlocal looks
            time.now += seconds
            if seconds != logs.POLL_S:
                return  # a pause of the session's own
            looks += 1
            if looks == 1:
                write(fake, "meanwhile", START - time.now + 1)
                fake.fault("POST", "entries:list", status=503, times=99)
            if looks == 3:
                fake.rules.clear()
            if looks == 4:
                raise KeyboardInterrupt

        monkeypatch.setattr(time, "sleep", sleep)
        assert run(["logs", "l4", "--follow"]) == 130
        shown = capsys.readouterr()
        assert shown.out.endswith("meanwhile\n")
        assert shown.err.count("no answer from Cloud Logging") == 1

    def test_ends_at_once_where_it_may_not(self, fake: FakeGoogle, capsys: Capture) -> None:
        fake.fault("POST", "entries:list", status=403, message="Permission 'logging.logEntries.list' denied", times=9)
        assert run(["logs", "l4", "--follow"]) == 1
        assert "roles/logging.viewer" in capsys.readouterr().err


class TestAMachineWithSeveralServers:
    @pytest.mark.parametrize("name", ["blue", "blue-2"])
    def test_is_found_by_its_own_name_and_by_a_server_s(self, name: str) -> None:
        assert [*log_sources(plan_stack("g4x8", root=ROOT).plan, slice_name=name)] == ["blue"]

    def test_is_named_where_nothing_has_that_name(self) -> None:
        with pytest.raises(SettingsError, match=r"no machine 'bleu'.*Did you mean blue\?"):
            log_sources(plan_stack("g4x8", root=ROOT).plan, slice_name="bleu")


class TestBadInput:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["logs", "--url", "http://127.0.0.1:8000"], "Name the stack"),
            (["logs"], "Name a stack"),
            (["logs", "l4", "--slice", "blue"], "without slices"),
            (["logs", "v6e4", "--slice", "bleu"], "Did you mean blue?"),
            (["logs", "v6e4", "--slice", "blue", "--revision", "x"], "Give one of them"),
            (["logs", "l4", "--since", "yesterday"], "write a whole number and a unit"),
        ],
    )
    def test_says_what_to_write(self, capsys: Capture, words: list[str], said: str) -> None:
        assert run(words) == 2
        assert said in capsys.readouterr().err
