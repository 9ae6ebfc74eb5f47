"""One thing that somebody types or writes, and the `gemma4` command's answer to it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import shlex
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from infra.google.gcp_settings import Api
from infra.google.session import Retry
from infra.ops import google_access
from infra.ops.cli import run
from infra.ops.plan_inputs import plan_stack
from infra.planning.settings.declarations import Settings
from tests.projects import ROOT, Answer, assert_shown_safely, bare_environment

TOKEN = "hf_" + "a1B2" * 8
"""What a token of Hugging Face looks like. `A-TOKEN` stands for it in the cases: no answer may repeat it."""
PROJECT = "/project"
"""What the transcript calls the folder that the commands run in."""


@dataclass(frozen=True)
class Case:
    """A command line, with the stack file `Pulumi.x.yaml` and the environment that it meets."""

    typed: str
    """Words after `gemma4`, as a shell reads them."""
    code: int
    """Exit code: 2 cannot be read, 3 cannot work, 1 could not be done, 0 answered."""
    names: tuple[str, ...] = ()
    """With code 2, and of a plan: the key of every fault, in order, and there are no others. Else: words that the
    answer must hold, such as the variable to set."""
    meant: str = ""
    """The word that the answer must offer instead: `Did you mean …?`"""
    title: str = ""
    """What is wrong with the file; a case without a file is called by what was typed."""
    file: str | bytes | None = None
    place: str = "Pulumi.x.yaml"
    """Where the file lies, or `folder` or `dangling link` for what lies there instead of a file."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def command(self) -> str:
        """The whole command line."""
        variables = "".join(f"{key}={shlex.quote(value)} " for key, value in self.env.items())
        return f"{variables}gemma4 {self.typed}".rstrip()

    @property
    def name(self) -> str:
        """A name that no other case has."""
        return self.title or self.command

    @property
    def is_plan(self) -> bool:
        """Whether a plan was made: what is said about it are refusals and warnings."""
        return self.code in (0, 3) and self.typed.startswith("plan ")

    @property
    def is_warned(self) -> bool:
        """Whether a plan was made that is not refused."""
        return self.is_plan and self.code == 0


def written(
    title: str,
    code: int,
    names: tuple[str, ...],
    body: str,
    *,
    pair: tuple[str, str] = ("gemma-4-12b-it-qat-w4a16", "l4"),
    meant: str = "",
) -> Case:
    """Return the case of a stack file with a model, an accelerator (neither where they are empty), and the lines of
    `body` below them."""
    head = [f"gemma4:{key}: {value}" for key, value in zip(("model", "accelerator"), pair, strict=True) if value]
    lines = [*head, *textwrap.dedent(body).strip().splitlines()]
    file = "config:\n" + textwrap.indent("\n".join(lines) + "\n", "  ")
    return Case("plan x", code, names, meant=meant, title=title, file=file)


@functools.cache
def answer_to(case: Case, *more: str) -> Answer:
    """Return what the command answers to a case, typed with `more` words behind it. Nobody is signed in, and whoever is
    asked over the network is not there."""
    folder = _project()
    words = [word.replace("A-TOKEN", TOKEN) for word in shlex.split(case.typed)]
    env = {name: value.replace("A-TOKEN", TOKEN) for name, value in case.env.items()}
    with _alone(folder, env), _file(folder, case):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([*words, *more])
    said = [stream.getvalue().replace(str(folder), PROJECT).replace(str(ROOT), "/checkout") for stream in (out, err)]
    answer = Answer(code, *said)
    assert_shown_safely(answer.out + answer.err)
    assert TOKEN not in answer.out + answer.err, case.name
    return answer


def plan_of(case: Case) -> Answer:
    """Return the plan of a case as data, without its resources."""
    return answer_to(case, "--json", "--no-resources")


def settings_of(case: Case) -> Settings:
    """Return the settings that a case's plan was made from."""
    stack, *options = shlex.split(case.typed)[1:]
    assignments = [value for option, value in zip(options[::2], options[1::2], strict=True) if option == "--set"]
    with _alone(_project(), case.env), _file(_project(), case):
        return plan_stack(stack, assignments).plan.settings


def faults_of(case: Case) -> list[str]:
    """Return what a case is told, a line for each fault: the refusals of a plan, or its warnings where it is not refused,
    else what was printed."""
    if case.is_plan:
        return plan_of(case).faults("refusals" if case.code == 3 else "warnings")
    answer = answer_to(case)
    if answer.out.startswith("{"):
        return str(answer.data["error"]).splitlines()
    _, usage, fault = f"\n{answer.err}".partition("\nError: ")
    return [fault.strip()] if usage else [line.strip() for line in answer.err.splitlines()[1:]]


@functools.cache
def _project() -> Path:
    """A project folder with the stacks that ship."""
    folder = Path(tempfile.mkdtemp(prefix="gemma4-messages-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for path in (*ROOT.glob("Pulumi*.yaml"), ROOT / "README.md"):
        shutil.copy(path, folder)
    (folder / "docs").mkdir()
    (folder / "old.json").write_text('{"schema": 0, "stack": "x", "verdict": "fits", "vllm": {}}', "utf-8")
    return folder


@contextlib.contextmanager
def _alone(folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """The project folder as the current one, in an environment that holds nothing of this machine's."""
    nobody = {api.variable: "https://127.0.0.1:9/" for api in Api}
    nobody |= {"NO_GCE_CHECK": "true", "CLOUDSDK_CONFIG": str(folder / "no-gcloud")}
    with (
        bare_environment(**nobody, **env),
        mock.patch.object(google_access, "ONCE_MORE", Retry(attempts=2, first_s=0)),
        contextlib.chdir(folder),
    ):
        yield


@contextlib.contextmanager
def _file(folder: Path, case: Case) -> Iterator[None]:
    path = folder / "Pulumi.x.yaml"
    if case.place == "folder":
        path.mkdir()
    elif case.place == "dangling link":
        path.symlink_to("nowhere")
    elif case.file is not None:
        content = case.file if isinstance(case.file, bytes) else case.file.replace("A-TOKEN", TOKEN).encode()
        (path := folder / case.place).write_bytes(content)
    try:
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
