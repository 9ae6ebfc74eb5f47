"""A pause says what it saves before anything is done, sets one setting, and lets Pulumi do the rest."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from infra.errors import Gemma4Error
from infra.ops.changing.pause import pause_answer, resume_answer
from infra.ops.changing.run_pulumi import run_pulumi
from tests.projects import Capture, Command, command, write_stack


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a Pulumi CLI was asked, one line a command; it fails at commands that hold the word in the file `fails`."""
    log, fails = tmp_path / "asked", tmp_path / "fails"
    log.touch()
    fails.write_text("nothing-of-the-kind")
    cli = tmp_path / "pulumi"
    cli.write_text(f'#!/bin/sh\necho "$*" >>{log}\necho updating\ncase "$*" in *"$(cat {fails})"*) exit 3;; esac\n')
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    project = tmp_path / "project"
    project.mkdir()
    write_stack(project, "", name="slices", model="gemma-4-e2b-it", accelerator="v6e-1")
    write_stack(project, "gemma4:scaling: {minInstances: 2, maxInstances: 3}", name="warm", accelerator="l4",
                model="gemma-4-12b-it-qat-w4a16")  # fmt: skip
    write_stack(project, "", name="cold", model="gemma-4-12b-it-qat-w4a16", accelerator="l4")
    write_stack(project, "gemma4:paused: true", name="off", model="gemma-4-e2b-it", accelerator="v6e-1")
    write_stack(project, "gemma4:tpu: {slices: []}", name="none", model="gemma-4-e2b-it", accelerator="v6e-1")
    monkeypatch.chdir(project)
    return log


class TestAPause:
    def test_of_slices_saves_their_whole_price_and_says_what_is_lost(self, asked: Path) -> None:
        answer = pause_answer("slices")
        assert (answer.done, answer.already) == (False, False)
        assert answer.usd_per_hour > 1
        assert 0 < answer.usd_per_month_kept < 50
        assert any("slice is given back" in effect for effect in answer.effects)
        assert any("answers 503" in effect for effect in answer.effects)
        assert asked.read_text() == ""

    def test_of_warm_instances_saves_those_and_makes_no_new_revision(self, asked: Path) -> None:
        answer, one = pause_answer("warm"), pause_answer("cold")
        assert answer.usd_per_hour == pytest.approx(2 * 1.42, abs=0.1)
        assert "serving-service is changed in place, without a new revision." in answer.effects
        assert one.usd_per_hour == 0
        assert any("a pause saves nothing" in effect for effect in one.effects)

    def test_sets_one_setting_and_runs_up(self, asked: Path, gemma4: Command) -> None:
        answer = gemma4("pause", "slices", "--yes")
        assert answer.code == 0, answer.err
        assert asked.read_text().splitlines() == [
            "config set --stack slices gemma4:paused true",
            "up --stack slices --yes",
        ]
        assert "gemma4 resume slices" in answer.out

    def test_as_data_holds_no_word_of_pulumi(self, asked: Path, gemma4: Command) -> None:
        answer = gemma4("pause", "slices", "--yes", "--json")
        assert (answer.data["done"], len(asked.read_text().splitlines())) == (True, 2)

    def test_without_a_terminal_is_not_begun(self, asked: Path, gemma4: Command) -> None:
        answer = gemma4("pause", "slices")
        assert answer.code == 2
        assert "--yes: is missing" in answer.err
        assert asked.read_text() == ""

    @pytest.mark.parametrize(("said", "runs"), [("y\n", 2), ("\n", 0), ("no\n", 0)])
    def test_on_a_terminal_is_asked_for(
        self, asked: Path, gemma4: Command, monkeypatch: pytest.MonkeyPatch, said: str, runs: int
    ) -> None:
        terminal = io.StringIO(said)
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", terminal)
        assert gemma4("pause", "slices").code == 0
        assert len(asked.read_text().splitlines()) == runs

    def test_that_fails_says_what_is_left_to_run(self, asked: Path, gemma4: Command) -> None:
        (asked.parent / "fails").write_text("up --stack")
        answer = gemma4("pause", "slices", "--yes")
        assert answer.code == 1
        assert "go on with: pulumi up --stack slices --yes" in answer.err

    def test_that_fails_at_the_setting_runs_nothing_more(self, asked: Path, gemma4: Command) -> None:
        (asked.parent / "fails").write_text("config set")
        assert "gemma4:paused true && pulumi up" in gemma4("pause", "slices", "--yes").err
        assert len(asked.read_text().splitlines()) == 1


class TestAnEmptyListOfSlices:
    """Is a pause that somebody wrote by hand."""

    def test_is_a_pause_already(self, asked: Path, gemma4: Command) -> None:
        answer = pause_answer("none", yes=True)
        assert (answer.already, answer.says) == (True, "tpu.slices: []")
        assert answer.usd_per_hour == pause_answer("off").usd_per_hour
        assert not any("given back" in effect for effect in answer.effects)
        assert asked.read_text().splitlines() == ["up --stack none --yes"]
        assert "The stack file says tpu.slices: [] already." in gemma4("pause", "none", "--yes").out

    def test_is_not_resumed_since_the_names_are_written_nowhere(self, asked: Path, gemma4: Command) -> None:
        answer = gemma4("resume", "none", "--yes")
        assert (answer.code, asked.read_text()) == (2, "")
        assert "tpu.slices: is an empty list" in answer.err
        assert "pulumi up -s none" in answer.err


class TestResuming:
    def test_takes_the_setting_away_and_says_what_it_costs(self, asked: Path) -> None:
        answer = resume_answer("off", yes=True)
        assert answer.usd_per_hour == pause_answer("slices").usd_per_hour
        assert asked.read_text().splitlines() == ["config rm --stack off gemma4:paused", "up --stack off --yes"]

    def test_of_what_runs_changes_no_setting(self, asked: Path) -> None:
        answer = resume_answer("slices")
        assert answer.already
        assert answer.commands == ["pulumi up --stack slices --yes"]


def test_without_the_cli_nothing_is_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Gemma4Error, match="nothing was changed"):
        run_pulumi([["pulumi", "up"]], tmp_path)


def test_ctrl_c_waits_until_pulumi_has_ended_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Killed, it would leave the stack locked."""
    cli, unlocked = tmp_path / "pulumi", tmp_path / "unlocked"
    cli.write_text(f"#!/bin/sh\ntrap '' INT\nkill -INT $PPID\nsleep 0.6\ntouch {unlocked}\nexit 255\n")
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Gemma4Error, match="interrupted; go on with: pulumi up"):
        run_pulumi([["pulumi", "up"], ["pulumi", "never"]], tmp_path)
    assert unlocked.exists()
