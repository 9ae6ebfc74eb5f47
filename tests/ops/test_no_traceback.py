"""Files, terminals and disks that are not as they should be: one line, the documented exit code, and no traceback."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import Gemma4Error
from infra.ops.cli import run
from infra.ops.endpoint import stack_state
from infra.ops.terminal.safe_output import safe_output
from infra.planning.report.diff import compare
from infra.planning.report.saved_plan import misshapen
from infra.planning.report.terminal import plain
from infra.providers.base import progress_on
from infra.suggestions import printable
from tests.projects import ROOT, Answer, Capture, Command, assert_shown_safely, command, write_stack

MODEL = "gemma-4-12b-it-qat-w4a16"


@pytest.fixture
def gemma4(monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path) -> Command:
    """The command in a project with one good stack, mine."""
    write_stack(tmp_path, "", model=MODEL, accelerator="l4")
    monkeypatch.chdir(tmp_path)
    return command(capsys)


def in_a_process(*words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """The command as a shell runs it, its output buffered."""
    start = [sys.executable, "-c", "from infra.ops.cli import main; main()", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        start, **{"cwd": ROOT, "capture_output": True, "text": True, "check": False, "env": environment, **how}
    )


class TestAStackFileThatCannotBeRead:
    @pytest.fixture(params=["folder", "dangling link", "no right to read", "pipe"])
    def broken(self, request: pytest.FixtureRequest, gemma4: Command, monkeypatch: pytest.MonkeyPatch) -> str:
        path = Path("Pulumi.broken.yaml")
        if request.param == "folder":
            path.mkdir()
            return "it is a folder."
        if request.param == "dangling link":
            path.symlink_to("nowhere")
            return "it is a link to a file that does not exist."
        read = Path.read_text
        why: OSError | AssertionError = AssertionError("the end of a pipe would be waited for")
        if request.param == "pipe":
            os.mkfifo(path)
        else:  # tests may run as root, whom no mode keeps out
            path.write_text("config: {}\n", "utf-8")
            why = PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        def refuse(self: Path, *args: Any, **named: Any) -> str:
            if self.name == path.name:
                raise why
            return read(self, *args, **named)

        monkeypatch.setattr(Path, "read_text", refuse)
        return "it is not a file." if request.param == "pipe" else "Permission denied."

    def test_says_why(self, gemma4: Command, broken: str) -> None:
        answer = gemma4("plan", "broken")
        assert answer.code == 2
        assert f"Pulumi.broken.yaml: cannot be read: {broken} Nothing would be set." in answer.err

    def test_does_not_keep_the_other_stacks_from_the_list(self, gemma4: Command, broken: str) -> None:
        answer = gemma4("stacks")
        assert answer.code == 0
        assert f"broken: Pulumi.broken.yaml: cannot be read: {broken}" in answer.out
        assert MODEL in answer.out


SAVED = json.loads((ROOT / "tests" / "golden" / "l4.json").read_text("utf-8"))


class TestASavedPlanThatIsNone:
    @pytest.mark.parametrize(
        ("changed", "where"),
        [
            ({"vllm": {}}, "vllm.argv, vllm.env"),
            ({"verdict": "weird"}, "verdict"),
            ({"verdict": ["fits"]}, "verdict"),
            ({"cost": {"usdPerHour": "1.42"}}, "cost.usdPerHour"),
            ({"cost": {"usdPerHour": float("nan")}}, "cost.usdPerHour"),
            ({"cost": {"usdPerHour": 10**400}}, "cost.usdPerHour"),
            ({"resources": [{}]}, "resources"),
            ({"resources": 7}, "resources"),
            ({"stack": {"a": 1}}, "stack"),
            ({"access": {"invokers": [1]}}, "access.invokers"),
            ({"vllm": {"argv": [None], "env": []}}, "vllm.argv, vllm.env"),
        ],
    )
    def test_names_what_is_not_as_a_plan_is_written(self, gemma4: Command, changed: dict[str, Any], where: str) -> None:
        Path("p.json").write_text(json.dumps({**SAVED, **changed}), "utf-8")
        answer = gemma4("plan", "mine", "--no-resources", "--diff", "p.json")
        assert answer.code == 2
        assert f"--diff: p.json is not as a plan is written: {where}. There is nothing to compare with." in answer.err

    @pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, '{"stack": "\ud800"}', "null", "\x00"])
    def test_is_no_plan_at_all(self, gemma4: Command, text: str) -> None:
        Path("p.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        answer = gemma4("plan", "mine", "--no-resources", "--diff", "p.json")
        assert (answer.code, "--diff: p.json is not a plan." in answer.err) == (2, True)

    def test_a_good_one_may_come_through_a_pipe_and_from_an_editor_with_a_mark(self, gemma4: Command) -> None:
        Path("p.json").write_text(json.dumps({**SAVED, "stack": "other"}), "utf-8-sig")
        os.mkfifo("pipe")
        writer = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("p.json").read_bytes()))
        writer.start()
        through = gemma4("plan", "mine", "--no-resources", "--diff", "pipe")
        writer.join()
        assert through == gemma4("plan", "mine", "--no-resources", "--diff", "p.json")
        assert through.code == 0

    def test_a_good_one_is_as_a_plan_is_written(self) -> None:
        for path in sorted((ROOT / "tests" / "golden").glob("*.json")):
            assert misshapen(json.loads(path.read_text("utf-8"))) == [], path.name

    @settings(max_examples=200)
    @given(data=st.data())
    def test_whatever_is_edited_is_compared_or_found(self, data: st.DataObject) -> None:
        plan = json.loads(json.dumps(SAVED))
        node: Any = plan
        for _ in range(data.draw(st.integers(1, 3))):
            key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
            if not isinstance(node[key], dict | list) or not node[key]:
                break
            node, parent = node[key], node
        else:
            node = parent
        node[key] = data.draw(st.sampled_from([None, "x", 7, -1.5, True, [], {}, [{}], ["a"], {"mid": "x"}]))
        if {"stack", "verdict", "vllm"} <= set(plan) and not misshapen(plan):
            compare(plan, SAVED)


GOOD = (ROOT / "Pulumi.v6e4.yaml").read_bytes()
PLACES = [place for place in range(len(GOOD)) if GOOD[:place].endswith((b": ", b"\n", b"  "))]
TAGS = (b"!!set ", b"!!omap ", b"!!bool ", b"!!timestamp ", b"!!int ", b"? ", b"<<: ", b"- ", b": ", b"&a ", b"*a")
SIGNS = (b"{", b"}", b"[", b"]", b"'", b"|", b">", b"#", b"\t", b"\x00", b"\xff", b"~", b"1e9999", b".inf", b"=", b"\n")


class TestWhateverStandsInAStackFile:
    @settings(max_examples=150)
    @given(
        cuts=st.lists(
            st.tuples(st.sampled_from(PLACES), st.integers(0, 3), st.sampled_from([*TAGS, *SIGNS])),
            min_size=1,
            max_size=4,
        )
    )
    def test_is_planned_or_answered(
        self, tmp_path_factory: pytest.TempPathFactory, cuts: list[tuple[int, int, bytes]]
    ) -> None:
        text = bytearray(GOOD)
        for place, length, scrap in cuts:
            text[place : place + length] = scrap
        folder = tmp_path_factory.mktemp("project")
        (folder / "Pulumi.yaml").write_text("name: gemma4\nruntime: python\n", "utf-8")
        (folder / "Pulumi.mine.yaml").write_bytes(bytes(text))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            answer = said_by("plan", "mine", "--no-resources")
        assert_shown_safely(answer.out + answer.err)
        assert answer.code in (0, 2, 3)


class Narrow(io.TextIOWrapper):
    """Output in an encoding, as bytes."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)

    @property
    def said(self) -> str:
        held = self.buffer
        assert isinstance(held, io.BytesIO)
        return held.getvalue().decode(self.encoding)


class TestOutputThatCannotShowOurSigns:
    @pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
    @pytest.mark.parametrize("form", [["plan", "mine", "--no-resources"], ["stacks"], ["recommend", "--top", "1"]])
    def test_gets_them_spelled(
        self, gemma4: Command, monkeypatch: pytest.MonkeyPatch, encoding: str, form: list[str]
    ) -> None:
        out = Narrow(encoding)
        monkeypatch.setattr(sys, "stdout", out)
        assert run(form) == 0
        assert "~ " in out.said
        assert "?" not in out.said

    def test_a_letter_that_it_lacks_becomes_a_question_mark(self, monkeypatch: pytest.MonkeyPatch) -> None:
        out = Narrow("ascii")
        monkeypatch.setattr(sys, "stdout", out)
        with safe_output():
            print("Zürich ± 1 …")
        assert out.said == "Z?rich +- 1 ...\n"

    def test_none_at_all_is_no_reason_to_fail(self, gemma4: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        assert run(["plan", "mine", "--no-resources"]) == 0


class Broken(io.StringIO):
    """Output that takes nothing, or as `late` notices it only when its buffer is emptied."""

    def __init__(self, number: int, *, late: bool = False) -> None:
        super().__init__()
        self.number, self.late = number, late

    def write(self, text: str) -> int:
        if not self.late:
            raise OSError(self.number, os.strerror(self.number))
        return super().write(text)

    def flush(self) -> None:
        if self.late:
            raise OSError(self.number, os.strerror(self.number))


class TestOutputThatCannotBeWritten:
    @pytest.mark.parametrize("form", [["plan", "mine", "--no-resources"], ["plan", "mine", "--no-resources", "--json"]])
    @pytest.mark.parametrize("late", [False, True])
    def test_a_full_disk_is_one_line(
        self, gemma4: Command, monkeypatch: pytest.MonkeyPatch, capsys: Capture, form: list[str], late: bool
    ) -> None:
        monkeypatch.setattr(sys, "stdout", Broken(errno.ENOSPC, late=late))
        assert run(form) == 1
        assert capsys.readouterr().err == (
            "failed: No space left on device. The output is not whole: free some space, or write it elsewhere.\n"
        )

    @pytest.mark.parametrize("late", [False, True])
    def test_a_reader_who_has_gone_is_told_nothing(
        self, gemma4: Command, monkeypatch: pytest.MonkeyPatch, capsys: Capture, late: bool
    ) -> None:
        monkeypatch.setattr(sys, "stdout", Broken(errno.EPIPE, late=late))
        assert run(["plan", "mine", "--no-resources"]) == 1
        assert capsys.readouterr().err == ""

    def test_neither_output_can_be_written(self, gemma4: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", Broken(errno.ENOSPC))
        monkeypatch.setattr(sys, "stderr", Broken(errno.ENOSPC))
        assert run(["plan", "mine", "--no-resources"]) == 1

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_the_process_ends_without_trying_again(self) -> None:
        with open("/dev/full", "w") as full:
            ended = in_a_process("explain", "tpu", capture_output=False, stdout=full, stderr=subprocess.PIPE)
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)


class TestOtherPlaces:
    def test_a_folder_that_is_gone(self, gemma4: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone() -> Path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

        monkeypatch.setattr(Path, "cwd", gone)
        answer = gemma4("plan", "mine")
        assert answer.code == 1
        assert (
            answer.err == "failed: the current folder has been deleted, so no stack file can be found; go to another.\n"
        )

    def test_a_home_that_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch, gemma4: Command) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/home/x/.bashrc")

        monkeypatch.setattr("typer.completion.install", refuse)
        answer = gemma4("--install-completion", "bash")
        assert (answer.code, answer.err) == (
            1,
            "failed: /home/x/.bashrc: Permission denied. Allow yourself to read or write it, or use another place. "
            "Print it instead with: gemma4 --show-completion\n",
        )

    def test_more_users_than_there_are_people(self, gemma4: Command) -> None:
        answer = gemma4("recommend", "--users", "1" + "0" * 400)
        assert answer.code == 2
        assert "is too large: at most 1,000,000." in answer.err

    @pytest.mark.parametrize("said", ["no json", "[]", "", "[" * 100_000])
    def test_a_pulumi_that_answers_with_something_else(
        self, gemma4: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
    ) -> None:
        pulumi = tmp_path / "bin" / "pulumi"
        pulumi.parent.mkdir()
        (tmp_path / "said").write_text(said, "utf-8")
        pulumi.write_text(f"#!/bin/sh\ncat '{tmp_path}/said'\n", "utf-8")
        pulumi.chmod(0o755)
        monkeypatch.setenv("PATH", f"{pulumi.parent}:{os.environ['PATH']}")
        answer = gemma4("status", "mine")
        assert answer.code == 1
        assert "pulumi stack export answered with no JSON object" in " ".join(answer.out.split())

    def test_a_state_with_a_check_of_another_version(self, gemma4: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        resource = {"type": "pulumi-python:dynamic/gemma4:ServingCheck", "outputs": {"result": {"x": 1}}}
        monkeypatch.setattr(stack_state, "export_state", lambda *_: {"deployment": {"resources": [resource]}})
        answer = gemma4("status", "mine")
        assert answer.code == 1
        assert "holds a check that this version cannot read" in " ".join(answer.out.split())


class TestAFaultOfOurOwn:
    def test_says_so_with_its_place_and_shows_the_traceback_on_request(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Capture
    ) -> None:
        def fail(**_: object) -> None:
            raise KeyError("argv")

        monkeypatch.setattr("infra.ops.commands.stack_list.show_stacks", fail)
        assert run(["stacks"]) == 1
        said = capsys.readouterr().err
        assert said.startswith("failed: this is a fault of gemma4 itself (KeyError: 'argv'; test_no_traceback.py line ")
        assert said.endswith("report it with what the same command prints under GEMMA4_TRACEBACK=1.\n")
        assert said.count("\n") == 1
        monkeypatch.setenv("GEMMA4_TRACEBACK", "1")
        assert run(["stacks"]) == 1
        assert "Traceback" in capsys.readouterr().err


HOSTILE = st.text(
    st.sampled_from("\x1b[31m]0;\x07\r\x00\x7f\x9b\u202e\u2066\u200b\ufeff\udcffäa b/[]{}:'\"\n\t"), max_size=12
)


def said_by(*words: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    return Answer(code, out.getvalue(), err.getvalue())


class TestWhatATerminalWouldObey:
    @settings(max_examples=150)
    @given(word=HOSTILE, place=st.integers(0, 10))
    def test_never_reaches_it_from_a_command_line(self, word: str, place: int) -> None:
        words = (
            ["plan", word],
            ["plan", "l4", "--no-resources", "--set", word],
            ["plan", "l4", "--no-resources", "--set", f"labels.a{word}=x"],
            ["plan", "l4", "--no-resources", "--set", f"vllmArgs.{word}={word}"],
            ["plan", "l4", "--no-resources", "--diff", f"x{word}".replace("\x00", "")],
            ["explain", f"x{word}"],
            ["recommend", "--model", f"x{word}"],
            ["recommend", "--users", word],
            ["pin", f"x{word}"],
            [f"x{word}"],
            ["scorecard", f"x{word}"],
        )[place]
        with mock.patch.dict(os.environ, {"HTTPS_PROXY": "http://127.0.0.1:9/"}):  # a word with / may be a repository
            answer = said_by(*words)
        assert_shown_safely(answer.out + answer.err)
        assert answer.code in ((0, 1, 2, 3) if words[0] == "pin" else (0, 2, 3))

    @settings(max_examples=60)
    @given(word=HOSTILE, form=st.sampled_from([[], ["--json"], ["--markdown"]]))
    def test_never_reaches_it_from_a_saved_plan(
        self, tmp_path_factory: pytest.TempPathFactory, word: str, form: list[str]
    ) -> None:
        path = tmp_path_factory.mktemp("saved") / "p.json"
        edited = {**SAVED, "stack": word, "vllm": {"argv": ["a", "b", word, f"--{word}", word], "env": {word: word}}}
        edited["resources"] = [{"type": word, "name": word}]
        path.write_text(json.dumps(edited), "utf-8")
        answer = said_by("plan", "l4", "--no-resources", "--diff", str(path), *form)
        assert answer.code == 0
        assert_shown_safely(answer.out + answer.err)

    @settings(max_examples=60)
    @given(key=HOSTILE, value=HOSTILE)
    def test_never_reaches_it_from_a_stack_file(
        self, tmp_path_factory: pytest.TempPathFactory, key: str, value: str
    ) -> None:
        folder = tmp_path_factory.mktemp("project")
        config = {
            "gemma4:model": MODEL,
            "gemma4:accelerator": "l4",
            f"gemma4:{key}": value,
            "gemma4:labels": {key: value},
        }
        (folder / "Pulumi.yaml").write_text("name: gemma4\nruntime: python\n", "utf-8")
        (folder / "Pulumi.mine.yaml").write_text(json.dumps({"config": config}), "utf-8")
        before = Path.cwd()
        os.chdir(folder)
        try:
            for words in (["plan", "mine", "--no-resources"], ["stacks"], ["plan", "mine", "--json", "--no-resources"]):
                answer = said_by(*words)
                assert_shown_safely(answer.out + answer.err)
                assert answer.code in (0, 2, 3)
        finally:
            os.chdir(before)

    @settings(max_examples=30)
    @given(word=HOSTILE)
    def test_never_stands_in_an_error_whoever_prints_it(self, word: str) -> None:
        assert_shown_safely(str(Gemma4Error(f"the server says: {word}")))

    @given(word=HOSTILE)
    def test_never_stands_in_what_pulumi_is_given_to_print(self, word: str) -> None:
        assert_shown_safely(plain(word, f"[bold]{word}"))

    @settings(max_examples=40)
    @given(word=HOSTILE, as_json=st.booleans())
    def test_never_reaches_it_from_a_state(self, word: str, as_json: bool) -> None:
        result = {"vllm_version": word, "kv_tokens": 5, "notes": [word], "predicted_kv_tokens": 5, "ttft_s": 1.0}
        result |= {"tokens_per_second": 2.0, "ready_s": 3.0}
        outputs = {"url": word, "path": "/", "expected": {"spec_hash": word}, "result": result}
        resource = {"type": "pulumi-python:dynamic/gemma4:ServingCheck", "urn": f"a::{word}", "outputs": outputs}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stack_state, "export_state", lambda *_: {"deployment": {"resources": [resource]}})
            answer = said_by("status", "l4", *(["--json"] if as_json else []))
        assert answer.code == 1  # no project: Google cannot be asked what runs
        assert_shown_safely(answer.out + answer.err)

    @given(word=HOSTILE)
    def test_never_reaches_it_from_the_progress_of_a_deployment(self, word: str) -> None:
        out = io.StringIO()
        with redirect_stdout(out):
            progress_on(None)(f"the server's log says: {word}")
        assert_shown_safely(out.getvalue())

    def test_colours_stay_and_nothing_else_does(self, gemma4: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        edited = {**SAVED, "stack": "\x1b]0;owned\x07", "vllm": {**SAVED["vllm"], "env": {"A\x1b[8m": "\u202ex"}}}
        Path("p.json").write_text(json.dumps(edited), "utf-8")
        answer = said_by("plan", "mine", "--no-resources", "--diff", "p.json")
        assert "\x1b[1m" in answer.out
        assert_shown_safely(re.sub(r"\x1b\[[\d;]*m", "", answer.out))
        assert "\\x1b]0;owned" in answer.out

    def test_is_spelled_out(self) -> None:
        assert printable("a\x1b[31m\u202eb\n\tä≈ \udcff") == "a\\x1b[31m\\u202eb\n\tä≈ \\udcff"
