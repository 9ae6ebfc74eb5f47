"""What the workflow on pull requests says and runs: which stacks, in which words, within what GitHub takes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from infra.catalog import catalog
from infra.ops.commands.plan import list_resources
from infra.ops.plan_inputs import plan_stack
from infra.planning.report.data import as_json
from infra.planning.settings.stackfile import stack_names
from scripts import pr_comment, preview_stacks
from scripts.pr_comment import (
    LONGEST,
    MARKER,
    Part,
    joined,
    part_of,
    part_of_removed,
    removed,
    renamed,
    shortened,
    touched,
)
from scripts.preview_stacks import in_backend, why_not
from tests.projects import ROOT

STACKS = stack_names(ROOT)


class TestTouchedStacks:
    def test_are_all_after_a_change_that_every_plan_depends_on(self) -> None:
        assert touched(["infra/planning/cost/estimate.py"], STACKS) == STACKS

    def test_are_those_whose_file_changed(self) -> None:
        assert touched(["Pulumi.l4.yaml", "README.md"], STACKS) == ["l4"]

    def test_are_none_after_a_change_of_words(self) -> None:
        assert touched(["README.md", "docs/troubleshooting.md"], STACKS) == []


class TestRemovedStacks:
    def test_are_told_by_their_deleted_file_alone(self) -> None:
        changes = [
            "D\tPulumi.v6e8.yaml",
            "M\tPulumi.l4.yaml",
            "A\tPulumi.new.yaml",
            "D\tdocs/Pulumi.old.yaml",
            "D\tREADME.md",
        ]
        assert removed(changes) == ["v6e8"]

    def test_are_named_with_the_command_that_is_still_due(self) -> None:
        part = part_of_removed("v6e8")
        assert "**`v6e8`** is removed" in part.line
        assert "`pulumi destroy -s v6e8`" in part.details

    def test_are_told_from_renamed_ones_by_git(self) -> None:
        changes = ["R100\tPulumi.v6e1.yaml\tPulumi.small.yaml", "R090\tdocs/a.md\tdocs/b.md"]
        assert (removed(changes), renamed(changes)) == ([], {"small": "v6e1"})
        assert "is renamed to `small`" in part_of_removed("v6e1", "small").line


def planned(stack: str) -> dict[str, Any]:
    """The plan of a shipped stack as the base would have it."""
    found = plan_stack(stack, root=ROOT)
    return as_json(found.plan, list_resources(found))


class TestTheCommentOfAStack:
    def test_has_a_line_with_money_and_details_with_warnings_before_tables(self, monkeypatch: Any) -> None:
        before = planned("l4")
        monkeypatch.setattr(pr_comment, "plan_stack", lambda stack, root: plan_stack(stack, MANY, root=root))
        part = part_of("l4", before)
        assert re.fullmatch(
            r"✅ \*\*`l4`\*\*: \d+ changes\. The whole stack: \$0\.00 to \$1\.42 → .* a month .*", part.line
        )
        assert part.details.index("⚠️ new, **scaling.maxInstances**") < part.details.index("| change | before | after |")
        folds = part.details.count("<details>")
        assert folds == part.details.count("</details>")
        assert not re.search(r"^\|\s*\|", part.details, re.MULTILINE), "a table without a heading"

    def test_has_no_line_where_nothing_changes(self) -> None:
        for stack in ("l4", "g4x2"):
            assert part_of(stack, planned(stack)) == Part(stack)

    def test_fails_the_job_where_it_is_refused_or_cannot_be_read(self, monkeypatch: Any) -> None:
        def refused(stack: str, root: Path) -> Any:
            return plan_stack(stack, ["region=europe-north1"], root=root)

        monkeypatch.setattr(pr_comment, "plan_stack", refused)
        part = part_of("l4", planned("l4"))
        assert (part.failed, part.line) == (True, "⛔ **`l4`** is refused: `region`.")
        assert "🟢" not in part.details

        def unreadable(stack: str, root: Path) -> Any:
            return plan_stack(stack, ["model=none"], root=root)

        monkeypatch.setattr(pr_comment, "plan_stack", unreadable)
        part = part_of("l4", planned("l4"))
        assert (part.failed, part.line) == (True, "⛔ **`l4`** cannot be read.")
        assert "'none' is not in the catalog" in part.details

    def test_that_is_new_says_what_it_costs(self) -> None:
        part = part_of("l4", None)
        assert part.line.startswith("✅ **`l4`** is new. The whole stack: $0.00 to $")
        assert "| part | plan of `l4` |" in part.details


MANY = ("scaling.maxInstances=50",)


class TestTheComment:
    def written(self, monkeypatch: Any, folder: Path, status: str, base: Any) -> tuple[int, str, list[str]]:
        """Exit code, comment and touched stacks after changes that git tells of so."""
        said = {"diff": status, "rev-parse": "abc1234"}
        monkeypatch.setattr(pr_comment, "_git", lambda *words: said.get(words[0], ""))
        monkeypatch.setattr(pr_comment, "_base_plan", lambda _root, stack, _folder: base(stack))
        files = [folder / name for name in ("comment.md", "whole.md", "stacks.json")]
        words = [f"--{flag}={file}" for flag, file in zip(("output", "whole", "stacks"), files, strict=True)]
        code = pr_comment.main(["--base", "main", *words])
        return code, files[0].read_text("utf-8"), json.loads(files[2].read_text())

    def test_is_silent_where_nothing_is_touched_that_a_plan_depends_on(self, monkeypatch: Any, tmp_path: Path) -> None:
        assert self.written(monkeypatch, tmp_path, "M\tREADME.md\nA\tdocs/a.md", planned) == (0, "", [])

    def test_begins_with_a_line_for_each_stack_and_names_the_commit(self, monkeypatch: Any, tmp_path: Path) -> None:
        status = "M\tPulumi.l4.yaml\nD\tPulumi.old.yaml\nM\tPulumi.g4x2.yaml"
        code, comment, stacks = self.written(monkeypatch, tmp_path, status, lambda stack: planned(stack) | LONGER)
        assert (code, stacks) == (0, ["g4x2", "l4"])
        top = comment.partition("\n\n---\n\n")[0].splitlines()
        assert top[:2] == [MARKER, "## gemma4: 3 of 3 touched stacks change"]
        assert [line.split("`")[1] for line in top if line.startswith("- ")] == ["old", "g4x2", "l4"]
        assert top[-1].startswith("Planned at `abc1234`, compared with `abc1234`")

    def test_that_a_renamed_stack_is_compared_with_the_old_one(self, monkeypatch: Any, tmp_path: Path) -> None:
        asked: list[str] = []
        status = "R100\tPulumi.before.yaml\tPulumi.g4x2.yaml"
        self.written(monkeypatch, tmp_path, status, lambda stack: asked.append(stack))
        assert asked == ["before"]

    def test_fails_after_everything_is_written(self, monkeypatch: Any, tmp_path: Path) -> None:
        monkeypatch.setattr(
            pr_comment, "plan_stack", lambda stack, root: plan_stack(stack, ["region=europe-north1"], root=root)
        )
        code, comment, _ = self.written(monkeypatch, tmp_path, "M\tPulumi.l4.yaml", planned)
        assert code == pr_comment.REFUSED
        assert "1 cannot be deployed ⛔" in comment

    def test_of_stacks_that_stay_is_one_line(self) -> None:
        comment = joined([Part("a"), Part("b")], "1", "2")
        assert "## gemma4: no plan changes" in comment
        assert "- As before: `a`, `b`." in comment

    def test_counts_one_stack_in_the_singular(self) -> None:
        assert "## gemma4: 1 of 1 touched stack changes\n" in joined([Part("a", "- changed")], "1", "2")
        assert "## gemma4: 1 of 2 touched stacks changes\n" in joined([Part("a", "- changed"), Part("b")], "1", "2")


LONGER = {"notes": ["another note"]}


class TestALongComment:
    DETAILS = (
        "### `l4`\n\n"
        + "a line of the plan\n" * 20
        + "\n<details><summary>Command</summary>\n\n```sh\n"
        + "x y\n" * 9000
    )
    PART = Part("l4", "✅ **`l4`**: 3 changes.", DETAILS)

    def test_is_left_alone_while_github_takes_it(self) -> None:
        parts = [Part("a", "short"), Part("b", "a little", "longer")]
        assert shortened(parts) == parts

    @pytest.mark.parametrize("count", [2, 3, 20, 100])
    def test_is_shortened_to_what_github_takes_and_says_so(self, count: int) -> None:
        parts = shortened([self.PART] * count + [Part("s", "short", "short")])
        comment = joined(parts, "0" * 40, "1" * 40)
        assert len(comment) <= LONGEST < 65_536
        assert comment.count(self.PART.line) == count, "the lines at the top stay"
        assert parts[-1].details == "short", "what is short stays whole"
        for part in parts[:-1]:
            assert "Shortened" in part.details
            assert part.details.startswith("### `l4`")

    def test_closes_what_it_cuts_through(self) -> None:
        for part in shortened([self.PART] * 3):
            assert part.details.count("```") % 2 == 0
            assert part.details.count("<details>") == part.details.count("</details>")

    def test_cuts_no_line_in_two(self) -> None:
        lines = set(self.DETAILS.splitlines())
        for part in shortened([self.PART] * 3):
            kept = part.details.partition("\n```\n\n</details>")[0]
            assert set(kept.splitlines()) <= lines


class TestWhichStacksArePreviewed:
    def root(self, folder: Path, **config: str) -> Path:
        given = {"gemma4:model": "gemma-4-12b-it-qat-w4a16", "gemma4:accelerator": "l4", "gcp:project": "my-project"}
        values = {key: value for key, value in {**given, **config}.items() if value}
        (folder / "Pulumi.mine.yaml").write_text(yaml.safe_dump({"config": values}))
        return folder

    def test_one_that_is_deployed_has_a_project_and_can_be_deployed(self, tmp_path: Path) -> None:
        assert why_not(self.root(tmp_path), "mine", {"mine"}, {}) == ""

    def test_none_that_was_never_made(self, tmp_path: Path) -> None:
        assert "pulumi stack init" in why_not(self.root(tmp_path), "mine", {"other"}, {})

    def test_none_without_a_project_but_the_environment_may_name_it(self, tmp_path: Path) -> None:
        root = self.root(tmp_path, **{"gcp:project": ""})
        assert "gcp:project" in why_not(root, "mine", {"mine"}, {})
        assert why_not(root, "mine", {"mine"}, {"GOOGLE_PROJECT": "p"}) == ""

    def test_none_that_can_only_be_planned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        machines = {name: one.model_copy(update={"deployable": False}) for name, one in catalog().accelerators.items()}
        monkeypatch.setattr(preview_stacks, "catalog", lambda: SimpleNamespace(accelerators=machines))
        for stack in STACKS:
            assert "not deployed yet" in why_not(ROOT, stack, set(STACKS), {"GOOGLE_PROJECT": "p"})

    def test_one_whose_file_is_broken_since_its_preview_must_fail(self, tmp_path: Path) -> None:
        (tmp_path / "Pulumi.mine.yaml").write_text("config: [")
        assert why_not(tmp_path, "mine", {"mine"}, {}) == ""

    def test_a_backend_may_name_the_organisation(self) -> None:
        assert in_backend('[{"name": "l4"}, {"name": "organization/gemma4/v6e4"}]') == {"l4", "v6e4"}

    @pytest.mark.parametrize(("code", "failed"), [(0, 0), (255, 1)])
    def test_the_job_fails_with_a_preview_and_not_with_one_that_was_left_out(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        code: int,
        failed: int,
    ) -> None:
        pulumi = tmp_path / "bin" / "pulumi"
        pulumi.parent.mkdir()
        listed = json.dumps([{"name": "mine"}])
        pulumi.write_text(f"#!/bin/sh\n[ $1 = stack ] && echo '{listed}' && exit\necho previewed \"$@\"\nexit {code}\n")
        pulumi.chmod(0o755)
        monkeypatch.setenv("PATH", f"{pulumi.parent}:/usr/bin:/bin")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
        assert preview_stacks.main(["--stacks", '["mine", "never-made"]'], self.root(tmp_path)) == failed
        said = capsys.readouterr().out
        assert "previewed preview --refresh=false --non-interactive --color never --stack mine" in said
        assert "`never-made`: no `pulumi preview`" in said
        assert (tmp_path / "summary.md").read_text().strip() == said.strip().replace("~~~~\n###", "~~~~\n\n###")

    def test_a_state_that_cannot_be_read_is_said_in_pulumi_s_words(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "pulumi").write_text("#!/bin/sh\necho 'error: no access to gs://my-state' >&2\nexit 255\n")
        (tmp_path / "pulumi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        assert preview_stacks.main(["--stacks", '["mine"]'], tmp_path) == 1
        assert "no access to gs://my-state" in capsys.readouterr().out


class TestTheWorkflow:
    @pytest.fixture
    def jobs(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = yaml.safe_load((ROOT / ".github/workflows/preview.yml").read_text())["jobs"]
        return found

    def test_every_action_is_pinned_to_a_commit(self, jobs: Mapping[str, Any]) -> None:
        used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
        assert used
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", name) for name in used)

    def test_no_expression_stands_in_a_script(self, jobs: Mapping[str, Any]) -> None:
        """What a pull request can name, such as a stack file, must not become part of a command."""
        scripts = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        assert not [script for script in scripts if "${{" in script]

    def test_the_job_with_credentials_is_no_fork_s_and_waits_for_its_environment(self, jobs: Mapping[str, Any]) -> None:
        secret = [name for name, job in jobs.items() if "id-token" in job["permissions"]]
        assert secret == ["pulumi"]
        assert jobs["pulumi"]["environment"] == "gcp-preview"
        assert "head.repo.full_name == github.repository" in jobs["pulumi"]["if"]

    def test_its_scripts_and_their_arguments_exist(self, jobs: Mapping[str, Any]) -> None:
        for job in jobs.values():
            for step in job["steps"]:
                for module, arguments in re.findall(r"-m (scripts\.\w+) (.*)", step.get("run", "")):
                    source = (ROOT / f"{module.replace('.', '/')}.py").read_text()
                    for flag in re.findall(r"--\w+", arguments):
                        assert f'"{flag}"' in source, flag
