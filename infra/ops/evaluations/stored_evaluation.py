"""The form of a stored evaluation, key by key, and how a file of it is written, read and found again.

A file holds what each question got, and nothing that can be computed from it. Keys are camelCase and only ever added, unless
`schema` changes; moments are RFC 3339 in UTC, null means unknown.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field, ValidationError

from infra.benchmark.stored_run import Target, write_at_once
from infra.errors import SettingsError
from infra.ops.plan_inputs import project_root
from infra.serving.evaluation.evaluation_record import AskedItem, RecordData

SCHEMA = 1
FOLDER = "evaluations"
LAST = "last"
"""What --against takes in place of a file: the last whole run of the same server."""
_AGAINST = "--against"


class EvaluationVersions(RecordData):
    """What ran."""

    gemma4: str = Field(description="version of this program")
    vllm: str = Field(description="version that the server says; empty where it says none")
    plan: str | None = Field(description="hash of the planned specification; null without a stack")


class EvaluatedPlan(RecordData):
    """What the stack's files planned when it was asked."""

    model: str = Field(description="checkpoint on Hugging Face or in a bucket")
    accelerator: str = Field(description="catalog id")
    flags: list[str] = Field(description="arguments of `vllm serve`")


class StoredEvaluation(RecordData):
    """An evaluation as its file holds it."""

    schema_: int = Field(alias="schema", default=SCHEMA, description="1")
    id: str = Field(description="moment of the start and the target's name; the file's name without .json")
    started_at: str
    ended_at: str
    complete: bool = Field(description="false where it was interrupted")
    task_set: str = Field(description="date of the set of questions; runs of different sets are not compared")
    architecture: str = Field(description="whose floor the server is held to; empty: the default one")
    target: Target
    versions: EvaluationVersions
    plan: EvaluatedPlan | None = Field(description="null where only a URL was given")
    max_model_len: int | None = Field(description="most tokens of a request, as the server says")
    concurrency: int = Field(description="requests at once")
    items: list[AskedItem] = Field(description="in the order of the set, those that were not asked included")


def evaluation_folder() -> Path:
    """Return where runs are stored: beside the stack files, or here where the current folder does not belong to any."""
    root, here = project_root(), Path.cwd()
    return (root if here.is_relative_to(root) else here) / FOLDER


def store_evaluation(run: StoredEvaluation, file: Path) -> None:
    """Write a run at once."""
    write_at_once(run.model_dump_json(by_alias=True, indent=1) + "\n", file)


def load_evaluation(file: Path, key: str) -> StoredEvaluation:
    """Return the run that a file holds. `key` is the option that named it. Raises SettingsError where it is not one."""
    fix = f"Name a file that gemma4 evaluate wrote, in {FOLDER}/ as a rule."
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError.of(key, f"{file} cannot be read: {reason}.", "There is nothing to compare.", fix) from None
    try:
        return StoredEvaluation.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        fact = f"{file} is not a stored evaluation: {where}: {first['msg']}."
        raise SettingsError.of(key, fact, "There is nothing to compare.", fix) from None


def earlier_evaluation(against: str, target: str, task_set: str) -> tuple[Path, StoredEvaluation]:
    """Return the run to compare with, and its file: a file's, or with `last` the last whole one of the same target.

    `target` is the name that `target_name` makes. Raises SettingsError where there is none, or one of another set.
    """
    if against != LAST:
        file = Path(against)
        found = load_evaluation(file, _AGAINST)
        if found.task_set != task_set:
            fact = f"{file} holds answers to the questions of {found.task_set}, and these are those of {task_set}."
            fix = "Evaluate the earlier server with this version, or compare two runs of one set."
            raise SettingsError.of(_AGAINST, fact, "Other questions say nothing about a difference.", fix)
        return file, found
    for file in sorted(evaluation_folder().glob(f"*-{target}.json"), reverse=True):
        found = load_evaluation(file, _AGAINST)
        if found.complete and found.task_set == task_set and target_name(found.target) == target:
            return file, found
    fact = f"{evaluation_folder()} holds no whole run of {target} with the questions of {task_set}."
    fix = "Run it once without --against, or name a file."
    raise SettingsError.of(_AGAINST, fact, "There is nothing to compare with.", fix)


def target_name(target: Target) -> str:
    """Return what a target is called in the names of files: the stack and the slice, or the URL without its scheme."""
    name = target.stack or re.sub(r"^https?://", "", target.url)
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(filter(None, (name, target.member)))).strip("-")
