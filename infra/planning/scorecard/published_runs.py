"""Rows that describe published runs: a file of them, read and checked, every fault named by row and key.

A row says which machine served which model with which flags, and what was measured there; docs/scorecard.md lists its keys.
The rows that ship with this program are `infra/catalog/published_runs.json`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo

from infra.catalog import Device, catalog
from infra.catalog.file_reader import DATA
from infra.errors import Fault, SettingsError
from infra.planning.memory.kv_blocks import NEWEST, stored_type
from infra.planning.memory.kv_cache import find_model, tensor_parallel_fault
from infra.planning.server.implementations import IMPLEMENTATIONS
from infra.suggestions import did_you_mean

SHIPPED = DATA / "published_runs.json"
"""The rows that ship with this program."""

_MEASURED = ("memory", "speed", "first_token")
"""Kinds of rows with a machine, a model and flags."""
_LISTS = (*_MEASURED, "start", "verdicts")
_SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "quantization": {"fp8-dynamic": "fp8", "fp8_dynamic": "fp8", "int4": "w4a16", "int8": "w8a8"},
    "kv_cache_dtype": {"bf16": "bfloat16", "fp16": "float16", "int8": "int8_per_token_head"},
    "outcome": {"refused": "dies", "serves": "boots"},
}
"""Other words of reports for values that rows have."""


class _FileRow(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)
    _not_counted: str = PrivateAttr("")

    @property
    def not_counted(self) -> str:
        """Return what a row says under keys that rows do not have, in sentences; empty where there is none."""
        return self._not_counted


class PublishedFigures(_FileRow):
    """What a run was measured to have: bytes in GiB of one device, rates of all requests together."""

    tokens: int | None = Field(None, ge=0, examples=[723484])
    """The "KV cache size" that vLLM logs."""
    concurrency: float | None = Field(None, ge=0)
    kv_gib: float | None = None
    """Negative where a start died for want of it."""
    weights_gib: float | None = Field(None, gt=0)
    outcome: Literal["boots", "dies"] | None = None
    tokens_per_second: float | None = Field(None, gt=0, examples=[48.3])
    first_token_ms: float | None = Field(None, gt=0, examples=[110.0])


class PublishedRun(_FileRow):
    """A row of what memory, speed or first token was measured: machine, model and flags of one run."""

    id: str = Field(min_length=1, examples=["my-l4-1"])
    what: Literal["memory", "speed", "first_token"]
    model: str = Field(examples=["gemma-4-e2b-it"])
    hardware: str = Field(min_length=1, examples=["l4"])
    """A catalog id, or any name of a machine that the row describes."""
    backend: Device = Field(strict=False, examples=["gpu"])
    devices: int = Field(1, ge=1)
    """Devices that share the model."""
    device_memory_gib: float | None = Field(None, gt=0, examples=[21.96])
    bandwidth_gb_s: float | None = Field(None, gt=0, examples=[300.0])
    """Of one device, 10^9 bytes/s."""
    flops_tf_s: float | None = Field(None, gt=0, examples=[121.0])
    """Of one device at bf16, 10^12 operations/s."""
    vllm: str | None = None
    max_model_len: int | None = Field(None, ge=1, examples=[8192])
    max_num_seqs: int | None = Field(None, ge=1)
    max_num_batched_tokens: int | None = Field(None, ge=1)
    gpu_memory_utilization: float | None = Field(None, gt=0, le=1, examples=[0.9])
    kv_cache_dtype: str | None = None
    quantization: str | None = None
    block_size: int | None = Field(None, ge=1)
    cpu_offload_gib: float | None = Field(None, ge=0)
    enforce_eager: bool | None = None
    async_scheduling: bool | None = None
    text_only: bool | None = None
    speculation: Literal["none", "ngram", "mtp"] | None = None
    speculative_tokens: int | None = Field(None, ge=1)
    weights_gib_given: float | None = Field(None, gt=0)
    """Logged size of the weights on one device: the checkpoint is not in the catalog, so its size is not predicted."""
    running: int | None = Field(None, ge=1, examples=[8])
    """Requests that ran at once."""
    prompt_tokens: int | None = Field(None, ge=1, examples=[1024])
    output_tokens: int | None = Field(None, ge=1, examples=[128])
    prompts: Literal["new", "cached"] | None = Field(None, examples=["new"])
    """Whether the rate pays for the prompts."""
    published: PublishedFigures = Field(examples=[{"tokens": 723484}])
    end_to_end: bool | None = None
    """False: only the tokens that the given KV bytes hold are compared, since the run's flags are not all known."""
    target: bool | None = None
    note: str | None = None
    source: str | None = None


class PublishedStart(_FileRow):
    """A row of what a start took, stage by stage, seconds."""

    id: str | None = None
    what: str
    """The run in prose, e.g. `L4 g6.2xlarge E2B bf16 0.28.0`."""
    model: str | None = None
    backend: Device | None = Field(None, strict=False)
    devices: int = Field(1, ge=1)
    image_pull_s: float | None = Field(None, ge=0)
    imports_s: float | None = Field(None, ge=0)
    weights_hf_s: float | None = Field(None, ge=0)
    model_load_s: float | None = Field(None, ge=0)
    gcs_restore_s: float | None = Field(None, ge=0)
    gib: float | None = Field(None, gt=0)
    """What was copied in `gcs_restore_s`."""
    engine_init_s: float | None = Field(None, ge=0)
    compile_s: float | None = Field(None, ge=0)
    ready_s: float | None = Field(None, ge=0)
    total_s: float | None = Field(None, ge=0)
    note: str | None = None
    source: str | None = None


class PublishedVerdict(_FileRow):
    """A row that says in prose whether a configuration served."""

    id: str | None = None
    config: str
    published: str
    planner: str | None = None
    row: str | None = None
    note: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class UnreadRow:
    """A row that cannot be read, among others that can."""

    what: str
    """The list that it stands in."""
    faults: tuple[Fault, ...]

    @property
    def why(self) -> str:
        """Return all that is wrong with it, in sentences."""
        return "; ".join(f"{fault.key} {fault.fact.rstrip('.')}" for fault in self.faults)


FileRow = PublishedRun | PublishedStart | PublishedVerdict | UnreadRow
_FORMS: Mapping[str, type[PublishedRun] | type[PublishedStart] | type[PublishedVerdict]] = {
    **dict.fromkeys(_MEASURED, PublishedRun),
    "start": PublishedStart,
    "verdicts": PublishedVerdict,
}


def read_runs(path: Path) -> list[tuple[str, FileRow]]:
    """Return id and row of every published run in a file, in its order, an id that comes again with its number.

    Raises SettingsError with all that is wrong where no row can be read; a wrong row among others is an `UnreadRow`.
    """
    return list(_checked(_rows_of(_parsed(path), str(path))))


def _parsed(path: Path) -> Any:
    """Return what a file holds: one JSON value, or the list of those that stand one a line."""
    try:
        text = path.read_text("utf-8")
        try:
            return json.loads(text)
        except ValueError:
            lines = [line for line in text.splitlines() if line.strip()]
            if len(lines) < 2 or not all(line.lstrip().startswith("{") for line in lines):
                raise
            return [_line(number, line) for number, line in enumerate(lines, start=1)]
    except FileNotFoundError:
        fact = "there is no such file."
    except OSError as error:
        fact = f"cannot be read: {(error.strerror or str(error)).lower()}."
    except ValueError as error:  # a path that no file can have is one too
        fact = f"cannot be read as JSON: {error}."
    except RecursionError:
        fact = "cannot be read as JSON: it is nested too deeply."
    raise SettingsError.of(
        str(path),
        fact,
        fix="docs/scorecard.md says what a file of rows may hold; infra/catalog/published_runs.json is one.",
    )


def _line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"row {number}: {error}") from None


def _rows_of(found: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the list that each row belongs to, and the row as it stands in the file."""
    if isinstance(found, dict) and "published" in found:  # a single row
        found = [found]
    if isinstance(found, list):
        yield from ((_list_of(row), row) for row in found)
        return
    if not isinstance(found, dict):
        fix = f"Write an object with the lists {', '.join(_LISTS)}, or one list of rows."
        raise SettingsError.of(path, f"holds {_shown(found)}, not rows.", fix=fix)
    for name, rows in found.items():
        if name == "about":
            continue
        if name not in _LISTS:
            hint = did_you_mean(name, _LISTS) or f"Known: about, {', '.join(_LISTS)}."
            raise SettingsError.of(name, f"is not a list of rows that {path} may hold.", fix=hint)
        if not isinstance(rows, list):
            raise SettingsError.of(name, f"is {_shown(rows)} instead of a list of rows.", fix="Write rows in brackets.")
        yield from ((name, row) for row in rows)


def _list_of(row: Any) -> str:
    """Return the list that a row of a bare list would stand in."""
    if not isinstance(row, dict) or row.get("what") in _MEASURED:
        return str(row["what"]) if isinstance(row, dict) else "memory"
    if "config" in row:
        return "verdicts"
    figures = {key for key in PublishedStart.model_fields if key.endswith("_s")}
    return "start" if figures & row.keys() else "memory"


def _checked(rows: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, FileRow]]:
    found: list[tuple[str, FileRow]] = []
    ids: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for kind, row in rows:
        numbers[kind] += 1
        written = row.get("id") if isinstance(row, dict) else None
        name = written if isinstance(written, str) and written else f"{kind}-{numbers[kind]}"
        ids[name] += 1
        found.append((name if ids[name] == 1 else f"{name} ({ids[name]})", _read_row(name, kind, row)))
    unread = [row for _, row in found if isinstance(row, UnreadRow)]
    if unread and len(unread) == len(found):
        raise SettingsError([fault for row in unread for fault in row.faults])
    return iter(found)


def _read_row(name: str, kind: str, row: Any) -> FileRow:
    """Return a row as its list has them."""
    if not isinstance(row, dict):
        return UnreadRow(
            kind, (Fault(name, f"is {_shown(row)}, not a row.", fix="Write an object with id, what, model, …"),)
        )
    form = _FORMS[kind]
    said = _plain({"what": kind, **row} if form is PublishedRun else row)
    try:
        read = form.model_validate(said)
    except ValidationError as error:
        faults = list(_faults(name, form, error))
        unknown = [detail["loc"] for detail in error.errors() if detail["type"] == "extra_forbidden"]
        if len(unknown) < len(faults):
            return UnreadRow(kind, tuple(faults))
        read = form.model_validate(_without(said, unknown))
        read._not_counted = "; ".join(f"{fault.key} {fault.fact.rstrip('.')}: {fault.fix}" for fault in faults)
    faults = list(_wanting(name, kind, read))
    return UnreadRow(kind, tuple(faults)) if faults else read


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without keys that are null, whole numbers as such, and the words of `_SPELLINGS` as rows have them."""
    plain: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            plain[key] = _plain(value)
        elif value is not None:
            whole = isinstance(value, float) and value.is_integer()
            plain[key] = (
                int(value) if whole else _SPELLINGS.get(key, {}).get(value, value) if isinstance(value, str) else value
            )
    return plain


def _without(row: Mapping[str, Any], paths: list[tuple[int | str, ...]]) -> dict[str, Any]:
    """Return a row without the keys at `paths`."""
    return {
        key: _without(value, [path[1:] for path in paths if path[0] == key]) if isinstance(value, dict) else value
        for key, value in row.items()
        if (key,) not in paths
    }


def _faults(name: str, form: type[BaseModel], error: ValidationError) -> Iterator[Fault]:
    """Yield what is wrong with the keys of one row."""
    for detail in error.errors(include_url=False, include_context=False):
        *group, key = [str(part) for part in detail["loc"]]
        where = ".".join([name, *group, key])
        known = (PublishedFigures if group == ["published"] else form).model_fields
        if detail["type"] == "extra_forbidden":
            hint = did_you_mean(key, known) or f"Known: {', '.join(known)}."
            yield Fault(where, "is not a key of such a row.", "What it says would not be counted.", hint)
        elif detail["type"] == "missing":
            yield Fault(where, "is missing.", "Without it nothing can be predicted for this row.", _example(known, key))
        else:
            fact = f"is {_shown(detail['input'])}: {detail['msg'][:1].lower()}{detail['msg'][1:]}."
            fix = _example(known, key) or f"Leave {key} out, or mend it as the message says."
            yield Fault(where, fact, "The row cannot be read.", fix)


def _wanting(name: str, kind: str, row: FileRow) -> Iterator[Fault]:
    """Yield what a row leaves out that its prediction needs, and words that the catalog does not know."""
    if not isinstance(row, PublishedRun):
        if isinstance(row, PublishedStart) and row.model is not None:
            yield from _unknown_model(name, row.model)
        return
    unknown = list(_unknown_model(name, row.model))
    yield from unknown
    if row.what != kind:
        yield Fault(f"{name}.what", f"is {row.what}, but the row stands in the list {kind}.", fix="Move the row.")
    if not unknown:
        architecture = catalog().architectures[find_model(row.model).architecture]
        if fault := tensor_parallel_fault(architecture, row.devices):
            yield Fault(f"{name}.devices", fault.fact, fault.consequence, fault.fix)
    yield from _unknown_words(name, row)
    known = catalog().accelerators.get(row.hardware)
    needed: dict[str, Any] = {"published": row.published.model_dump(exclude_none=True) or None}
    if known is None or known.device is not row.backend:
        needed["device_memory_gib"] = row.device_memory_gib
        if kind != "memory":
            needed |= {"bandwidth_gb_s": row.bandwidth_gb_s, "flops_tf_s": row.flops_tf_s}
    if kind == "memory":
        needed |= {"max_model_len": row.max_model_len, "gpu_memory_utilization": row.gpu_memory_utilization}
    if kind == "speed":
        needed |= {key: getattr(row, key) for key in ("running", "prompt_tokens", "output_tokens", "prompts")}
        needed["published.tokens_per_second"] = row.published.tokens_per_second
    if kind == "first_token":
        needed |= {"prompt_tokens": row.prompt_tokens, "published.first_token_ms": row.published.first_token_ms}
    for key, value in needed.items():
        if value is None:
            lost = f"A row of {kind} on {row.hardware} cannot be predicted without it."
            group, _, inner = key.rpartition(".")
            fields = (PublishedFigures if group else PublishedRun).model_fields
            yield Fault(f"{name}.{key}", "is missing.", lost, _example(fields, inner))


def _unknown_words(name: str, row: PublishedRun) -> Iterator[Fault]:
    """Yield values of flags that no version of vLLM has, or that nothing is known of."""
    quantizations = ("none", "fp8", *catalog().weight_formats)
    if row.quantization not in (None, *quantizations):
        fact = f"is {row.quantization!r}, of which nothing is known."
        yield Fault(f"{name}.quantization", fact, fix=f"Use one of {', '.join(dict.fromkeys(quantizations))}.")
    if row.vllm is not None and not re.match(r"v?\d+\.\d+", row.vllm):
        yield Fault(f"{name}.vllm", f"is {row.vllm!r}, not a version.", fix="Write it like 0.32.0.")
    try:
        stored_type(row.kv_cache_dtype or "auto", IMPLEMENTATIONS[row.backend], NEWEST)
    except SettingsError as error:
        for fault in error.faults:
            yield Fault(f"{name}.kv_cache_dtype", fault.fact, fix=fault.fix)


def _unknown_model(name: str, model: str) -> Iterator[Fault]:
    try:
        find_model(model)
    except SettingsError as error:
        for fault in error.faults:
            fix = f"{fault.fix} A fine-tune or a repack is named by its architecture, with weights_gib_given."
            yield Fault(f"{name}.model", fault.fact, fix=fix)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _example(fields: Mapping[str, FieldInfo], key: str) -> str:
    """Return a sentence with a value that a key may have; empty where none is known."""
    examples = fields[key].examples if key in fields else None
    return f'Write for example "{key}": {json.dumps(examples[0])}.' if examples else ""
