"""What people type and write wrongly, all of it: the exit code, the fact and what to do instead, and never a traceback.

The mistakes stand in tests/data/mistakes.yaml: words of the command line, a stack file `x` (its bytes as Latin-1), the
environment, and what the answer must hold. The more important answers stand word for word in
tests/planning/settings/test_bad_input.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.google.provider_settings import VARIABLES, Api
from infra.google.session import Retry
from infra.ops import google_access as access
from tests.projects import ROOT, Answer, Capture, Command, command

MISTAKES = yaml.load((ROOT / "tests" / "data" / "mistakes.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
TOKEN = "hf_" + "a1B2" * 8
HEADS = ("bad settings", "bad input", "Error: ", "Usage: gemma4 tpu")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder with the stacks that ship."""
    folder = tmp_path_factory.mktemp("project")
    for path in (*ROOT.glob("Pulumi*.yaml"), ROOT / "README.md"):
        shutil.copy(path, folder)
    (folder / "docs").mkdir()
    return folder


@pytest.fixture
def gemma4(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Iterator[Command]:
    """The command in that folder; nobody is signed in, and whoever is asked over the network is not there."""
    monkeypatch.chdir(project)
    for name in {variable for variables in VARIABLES.values() for variable in variables}:
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HF_TOKEN", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for api in Api:
        monkeypatch.setenv(api.variable, "https://127.0.0.1:9/")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(project / "no-gcloud"))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setattr(access, "ONCE_MORE", Retry(attempts=2, first_s=0))
    yield command(capsys)
    for left in (*project.glob("Pulumi.x.*"),):
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def prepared(mistake: dict[str, Any]) -> None:
    """Put the mistake's file where it belongs, in the current folder."""
    path = Path("Pulumi.x.yaml")
    match mistake.get("place"):
        case "folder":
            path.mkdir()
        case "dangling link":
            path.symlink_to("nowhere")
        case other if "file" in mistake:
            depth = mistake.get("nested", 0)
            text = mistake["file"].replace("A-TOKEN", TOKEN) + "[" * depth + "]" * depth
            Path(other or path).write_bytes(text.encode("latin-1"))


def made(mistake: dict[str, Any], gemma4: Command, monkeypatch: pytest.MonkeyPatch, *more: str) -> Answer:
    for name, value in mistake.get("env", {}).items():
        monkeypatch.setenv(name, value)
    answer = gemma4(*(word.replace("A-TOKEN", TOKEN) for word in mistake["run"]), *more)
    assert TOKEN not in answer.out + answer.err
    return answer


def named(mistake: dict[str, Any]) -> str:
    return str(mistake["name"])


@pytest.mark.parametrize("mistake", MISTAKES, ids=named)
def test_a_mistake_is_answered(mistake: dict[str, Any], gemma4: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(mistake)
    answer = made(mistake, gemma4, monkeypatch)
    said = " ".join((answer.err + answer.out).split())
    assert answer.code == mistake["code"], said
    assert [text for text in mistake["says"] if text not in said] == [], said
    if answer.code == 2 and "--json" not in mistake["run"]:
        assert answer.err.startswith(HEADS) or "\n\nError: " in answer.err, said
        assert answer.out == ""


@pytest.mark.parametrize("mistake", [one for one in MISTAKES if one["code"] == 2 and len(one["run"]) > 1], ids=named)
def test_as_data_a_mistake_has_a_key_a_fact_and_a_way_out(
    mistake: dict[str, Any], gemma4: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(mistake)
    answer = made(mistake, gemma4, monkeypatch, *([] if "--json" in mistake["run"] else ["--json"]))
    data = json.loads(answer.out)
    assert (answer.code, data["verdict"], answer.err) == (2, "bad settings", "")
    assert data["faults"]
    for fault in data["faults"]:
        assert fault["key"]
        assert fault["fact"]
        assert fault["fix"] or "; write" in fault["fact"] or " is not one of " in fault["fact"], fault


def test_each_mistake_has_its_own_name_and_a_word_to_look_for() -> None:
    names = [one["name"] for one in MISTAKES]
    assert len(names) == len(set(names))
    assert [one["name"] for one in MISTAKES if not one["says"] or not all(one["says"])] == []


@pytest.mark.parametrize(
    ("stack", "says"),
    [
        ("l4", "That folder is the Pulumi project shop, not gemma4's. Go to the folder of gemma4; here are: dev."),
        ("dev", "stack: Pulumi.dev.yaml belongs to the Pulumi project shop and says nothing to gemma4."),
    ],
)
def test_another_projects_folder_is_named(
    stack: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: shop\nruntime: python\n", "utf-8")
    (tmp_path / "Pulumi.dev.yaml").write_text("config:\n  shop:size: 1\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    answer = command(capsys)("plan", stack)
    assert answer.code == 2
    assert says in answer.err
