"""The archives: the same bytes on every machine, whatever the words, and Python as old as where they run."""

from __future__ import annotations

import ast
import io
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from containers import archive

VALUE_MAX, METADATA_MAX = 256 * 1024, 512 * 1024  # bytes, limits of the metadata server
ARCHIVES = {archive.SUPERVISOR: archive.supervisor, archive.STAGE: archive.stage}
OLDEST_PYTHON = {archive.SUPERVISOR: (3, 10), archive.STAGE: (3, 9), "shared": (3, 9)}
NEWER_NAMES = {"Self", "StrEnum", "UTC", "tomllib", "assert_never", "LiteralString", "override"}


def modules(folder: str = "") -> list[Path]:
    return sorted((archive.HERE / folder).rglob("*.py"))


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder, from which the archives are made."""
    folder = tmp_path / "containers"
    shutil.copytree(archive.HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(archive, "HERE", folder)
    return folder


def test_the_supervisor_fits_into_the_nodes_metadata_with_room_for_the_rest() -> None:
    values = [archive.startup_script(), archive.in_base64(archive.supervisor())]
    assert max(map(len, values)) < VALUE_MAX * 3 // 4
    assert sum(map(len, values)) < METADATA_MAX // 2


@pytest.mark.parametrize("pack", ARCHIVES.values(), ids=ARCHIVES)
class TestAnArchive:
    def test_is_the_same_from_a_checkout_on_windows(self, pack: Callable[[], bytes], copy: Path) -> None:
        here = pack()
        for path in [*copy.rglob("*.py"), *copy.rglob("*.service")]:
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        assert pack() == here

    def test_is_the_same_whatever_the_comments_say(self, pack: Callable[[], bytes], copy: Path) -> None:
        here = pack()
        for path in copy.rglob("*.py"):
            text = re.sub(r'^( *""")(?=\w)', r"\1Other words. ", path.read_text(), flags=re.MULTILINE)
            path.write_text(text.replace("\nimport ", "\n\n# Why.\nimport ") + "\n# The end.\n")
        assert pack() == here

    @pytest.mark.parametrize(
        ("name", "old", "new"), [("shared/web.py", "2.0 **", "3.0 **"), ("shared/manifest.py", "sha256", "sha512")]
    )
    def test_is_another_for_another_line_of_code(
        self, pack: Callable[[], bytes], copy: Path, name: str, old: str, new: str
    ) -> None:
        here = pack()
        text = (copy / name).read_text()
        assert old in text
        (copy / name).write_text(text.replace(old, new))
        assert pack() != here

    def test_depends_on_no_compressor(self, pack: Callable[[], bytes]) -> None:
        with zipfile.ZipFile(io.BytesIO(pack())) as packed:
            assert {entry.compress_type for entry in packed.infolist()} == {zipfile.ZIP_STORED}

    def test_holds_no_word_of_any_docstring(self, pack: Callable[[], bytes]) -> None:
        with zipfile.ZipFile(io.BytesIO(pack())) as packed:
            for name in packed.namelist():
                if name.endswith(".py"):
                    tree = ast.parse(packed.read(name))
                    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
                    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, holders)]
                    assert not any(found), name


class TestWithoutWords:
    @pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(archive.HERE)))
    def test_a_module_is_the_same_program(self, path: Path) -> None:
        text = path.read_text()
        assert ast.dump(wordless(archive.bare(text))) == ast.dump(wordless(text))
        assert "# " not in re.sub(r"\".*?\"", "", archive.bare(text))

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ('x = """a\n\n# no comment\n"""  # why\n', 'x = """a\n\n# no comment\n"""\n'),
            ('def f():\n    """Alone."""  # why\n', "def f():\n pass\n"),
            ('class A:\n    """Doc\n\n    more."""\n\n    x: int = 1\n    """Why."""\n', "class A:\n x: int = 1\n"),
            ("y = '# no comment'\n\n\n# gone\nz = 1\n", "y = '# no comment'\nz = 1\n"),
        ],
    )
    def test_only_words_are_left_out(self, code: str, expected: str) -> None:
        assert archive.bare(code) == expected


@pytest.mark.parametrize(
    ("folder", "path"),
    [(folder, path) for folder in OLDEST_PYTHON for path in modules(folder)],
    ids=lambda each: each.name if isinstance(each, Path) else each,
)
def test_a_module_is_python_as_the_machine_has_it(folder: str, path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=OLDEST_PYTHON[folder])
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not {alias.name for node in froms for alias in node.names} & NEWER_NAMES
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in froms if not node.level}
    assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, "containers"}


def wordless(code: str) -> ast.Module:
    """The syntax without texts that stand by themselves."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            empty: list[ast.stmt] = [] if isinstance(node, ast.Module) else [ast.Pass()]
            node.body = [each for each in body if not _is_lone_text(each)] or empty  # type: ignore[attr-defined]
    return tree


def _is_lone_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
