"""Nothing outside a platform's own folders asks which platform it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.catalog import catalog
from infra.errors import CatalogError
from infra.planning.names import LONGEST_SUFFIX
from infra.planning.platforms.registry import PLATFORMS, platform_of
from tests.projects import ROOT

FOLDERS = {one.id.replace("-", "_") for one in PLATFORMS.values()}
ROOMS = ("infra/planning/platforms", "infra/preflight", "infra/components", "infra/ops")
"""Where each platform has a folder, or a module while it is small."""

EXCEPTIONS = {
    "infra/google/api_errors.py": "tells apart the errors of Google's services, one of which is called tpu",
    "infra/catalog/loader.py": "checks that the quotas named in the platforms' own tables of a machine exist",
    "infra/planning/platforms/registry.py": "the one line a platform",
    "infra/ops/command_line/slice_commands.py": "offers the commands that only one platform has",
    "infra/ops/commands/zones.py": "asks Google about the zones of TPUs, which its TPU API alone knows, beside all others",
}


def own(path: Path) -> bool:
    """Whether a file is a platform's own."""
    text = path.as_posix()
    return any(text.startswith(f"{room}/{name}{end}") for room in ROOMS for name in FOLDERS for end in ("/", ".py"))


def names_a_platform(tree: ast.AST) -> Iterator[str]:
    """Every expression that knows a platform: by its id, by a machine's table of it, by an import of its own folder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in FOLDERS and not _is_setting(node):
            yield f"{node.lineno}: .{node.attr}"
        elif isinstance(node, ast.Compare):
            words = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
            yield from (f"{node.lineno}: {word!r}" for word in words if word in PLATFORMS)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            yield from (f"{node.lineno}: {module}" for module in modules if module.startswith(_OWN_MODULES))


_OWN_MODULES = tuple(f"{room.replace('/', '.')}.{name}" for room in ROOMS for name in FOLDERS)


def _is_setting(node: ast.Attribute) -> bool:
    """Whether it is a group of settings that is named after a platform, not a machine's table."""
    return isinstance(node.value, ast.Attribute) and node.value.attr == "settings"


MODULES = sorted(path.relative_to(ROOT) for path in (ROOT / "infra").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_no_other_module_names_a_platform(path: Path) -> None:
    found = list(names_a_platform(ast.parse((ROOT / path).read_text("utf-8"))))
    if path.as_posix() in EXCEPTIONS:
        assert found, f"{path} names no platform any more: take it out of EXCEPTIONS"
    elif not own(path):
        assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "accelerator.tpu is None",
        "x = one.cloud_run",
        "if platform == 'cloud-run': pass",
        "if platform in ('tpu', 'x'): pass",
        "from infra.planning.platforms.tpu.slices import SlicesPlan",
        "from infra.planning.platforms.compute_engine import MachinePlan",
        "import infra.components.cloud_run.deploy",
        "def f():\n    from infra.ops.tpu import commands",
    ],
)
def test_the_count_sees_what_it_counts(text: str) -> None:
    assert list(names_a_platform(ast.parse(text)))


def test_every_machine_of_the_catalog_is_on_a_registered_platform() -> None:
    assert {one.platform for one in catalog().accelerators.values()} <= set(PLATFORMS)


def test_a_platform_that_can_be_deployed_says_how() -> None:
    for one in catalog().accelerators.values():
        assert one.deployable == bool(PLATFORMS[one.platform].components)


def test_every_platform_stands_in_its_own_folder() -> None:
    for one in PLATFORMS.values():
        assert own(Path(*type(one).__module__.split(".")).with_suffix(".py"))
        for module in filter(None, (one.components, one.preflight)):
            assert own(Path(*module.split(".")).with_suffix(".py"))


def test_no_part_of_a_platform_has_a_longer_name_than_the_prefix_leaves_room_for() -> None:
    for one in PLATFORMS.values():
        assert all(len(suffix) <= LONGEST_SUFFIX for suffix in one.part_suffixes)


def test_a_machine_on_a_platform_that_is_not_registered_is_a_fault_of_the_catalog() -> None:
    lost = catalog().accelerator("l4").model_copy(update={"platform": "moon"})
    with pytest.raises(CatalogError, match="is on 'moon', which is not one of cloud-run"):
        platform_of(lost)
