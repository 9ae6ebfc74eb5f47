"""File names and door plates lead a newcomer: each name has one meaning, each package names all that is in it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.projects import ROOT

MODULES = [
    path
    for room in ("infra", "containers")
    for path in sorted(ROOT.glob(f"{room}/**/*.py"))
    if not path.name.startswith("__")
]
PACKAGES = [path.parent for room in ("infra", "containers") for path in sorted(ROOT.glob(f"{room}/**/__init__.py"))]

SHARED_NAMES = {
    "base": "what all classes of a package have in common",
    "deploy": "wires the components of one platform",
    "logs": "the entries of a log, and the command that prints them",
    "plan": "a plan, and the command that prints it",
    "recommend": "the ranking, and the command that prints it",
}
"""Names of more than one module, with the one meaning that they have wherever they stand."""


def plate(package: Path) -> str:
    """Return the docstring of a package."""
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""


def test_a_file_name_stands_twice_only_with_one_meaning() -> None:
    twice = {name for name, times in Counter(path.stem for path in MODULES).items() if times > 1}
    assert twice == set(SHARED_NAMES)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
class TestDoorPlates:
    def test_names_every_module_and_package_inside(self, package: Path) -> None:
        inside = [path.stem for path in MODULES if path.parent == package]
        inside += [path.name for path in PACKAGES if path.parent == package]
        assert [name for name in inside if not re.search(rf"\b{name}\b", plate(package))] == []

    def test_names_no_file_that_does_not_exist(self, package: Path) -> None:
        """A path starts at the repository or at the package; a name alone may stand in a folder below."""
        for word in re.findall(
            r"(?<![\w/.*<])(?:\.\./)?[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|toml|json|sh))(?![\w/<])", plate(package)
        ):
            assert (ROOT / word).exists() or (package / word).exists() or list(package.glob(f"*/{word}")), word
