"""Files of published runs that `gemma4 scorecard` cannot read, and rows that say too little or something unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.messages.case import Case

_ROW: dict[str, Any] = {
    "id": "mine",
    "what": "memory",
    "model": "gemma-4-e2b-it",
    "hardware": "l4",
    "backend": "gpu",
    "max_model_len": 8192,
    "gpu_memory_utilization": 0.9,
    "published": {"tokens": 723484},
}


def _file(title: str, names: tuple[str, ...], text: str, *, meant: str = "", typed: str = "") -> Case:
    typed = typed or "scorecard rows.json"
    return Case(typed, 2, names, meant=meant, title=title, file=text, place="rows.json")


def _row(title: str, name: str, *, meant: str = "", left_out: str = "", **changes: Any) -> Case:
    row = {key: value for key, value in {**_ROW, **changes}.items() if key != left_out}
    return _file(title, (name,), json.dumps([row], indent=1) + "\n", meant=meant)


ROWS: Mapping[str, tuple[Case, ...]] = {
    "Files of published runs": (
        Case("scorecard nothing.json", 2, ("nothing.json",)),
        Case("scorecard README.md", 2, ("README.md",)),
        Case("scorecard docs", 2, ("docs",)),
        Case("scorecard --json --markdown", 2, ("--markdown",)),
        Case("status l4 --json --as-row", 2, ("--as-row",)),
        Case("status l4 --as-row", 1, ("Pulumi CLI",), env={"PATH": "/nowhere"}),
        _file("a number for rows", ("rows.json",), "7\n"),
        _file("a bracket left open among rows", ("rows.json",), '[{"id": "mine"}\n'),
        _file("a row of lines that is cut", ("rows.json",), f'{json.dumps(_ROW)}\n{{"id": "your\n'),
        _file("a list that rows do not have", ("memmory",), '{"memmory": []}\n', meant="memory"),
        _file("text for a list of rows", ("speed",), '{"speed": "fast"}\n'),
        _file("a word for a row", ("memory-1",), '{"memory": ["fast"]}\n'),
        _row("a row without an id", "memory-1.id", left_out="id"),
        _row("a model that the catalog lacks", "mine.model", model="gemma-4-e2b"),
        _row("a machine without its memory", "mine.device_memory_gib", hardware="my-card"),
        _row("a number in quotes in a row", "mine.max_model_len", max_model_len="8192"),
        _row("devices that cannot share a model", "mine.devices", devices=3),
        _row("a backend that vLLM has not", "mine.backend", backend="cuda"),
        _row("a row without what was measured", "mine.published", left_out="published"),
        _file(
            "a row of speed that lacks what a rate needs",
            ("mine.running", "mine.prompt_tokens", "mine.output_tokens", "mine.prompts"),
            json.dumps([{**_ROW, "what": "speed", "published": {"tokens_per_second": 27.0}}], indent=1) + "\n",
        ),
        _file(
            "a row among those of another kind",
            ("mine.what",),
            json.dumps({"memory": [{**_ROW, "what": "speed"}]}, indent=1) + "\n",
        ),
    ),
}
