"""Tables at every width: a figure is never cut or left out, and what is left out is named."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from infra.planning.report.tables import Column, FittedTable, labelled

ROWS = (("l4", "gemma-4-12b-it-qat-w4a16", "us-east4", "≈ 105,531", "1.42"), ("v6e4-31b", "[b]x", "", "≈ 9", "10.80"))
COLUMNS = (
    Column("stack"),
    Column("model", spare=1),
    Column("where", spare=2),
    Column("KV\ntokens", figures=True),
    Column("$/hour", figures=True),
)


def shown(part: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=True)
    console.print(part)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [26, 36, 45, 60, 80, 110])
def test_no_figure_is_cut_or_left_out_at_any_width(width: int) -> None:
    lines = shown(FittedTable(COLUMNS, ROWS), width)
    assert all(any(row[index] in line for line in lines) for row in ROWS for index in (0, 3, 4))
    assert "…" not in "".join(lines)
    assert max(map(len, lines)) <= width


def test_columns_go_by_their_rank_and_are_named() -> None:
    wide, middle, narrow = (shown(FittedTable(COLUMNS, ROWS), width) for width in (80, 58, 40))
    assert "us-east4" in "".join(wide)
    assert ("us-east4" in "".join(middle), middle[-1]) == (False, "Not shown at this width: where.")
    assert "gemma-4-12b-it-qat-w4a16" in "".join(middle)
    assert "gemma-4-12b-it-qat-w4a16" not in "".join(narrow)
    assert narrow[-1] == "Not shown at this width: model, where."


def test_a_table_that_can_spare_nothing_becomes_a_card_a_row_with_all_of_it() -> None:
    kept = [Column(column.name, column.figures) for column in COLUMNS]
    lines = shown(FittedTable(kept, ROWS), 40)
    assert lines[0] == "l4"
    assert "KV tokens ≈ 105,531" in "".join(lines)
    assert all(cell in "".join(lines) for row in ROWS for cell in row)


def test_words_of_a_file_are_no_markup() -> None:
    assert any("[b]x" in line for line in shown(FittedTable(COLUMNS, ROWS), 80))
    assert shown(labelled([("a", "[b]x")], 3), 80) == ["a    [b]x"]


def test_text_folds_beside_its_name() -> None:
    assert shown(labelled([("next", "one two three")], 6), 16) == ["next    one two", "        three"]


def test_a_row_of_several_lines_begins_with_its_name() -> None:
    columns = [Column("name"), Column("meaning", folds=True)]
    lines = shown(FittedTable(columns, [("first", "word " * 12), ("second", "word")]), 40)
    assert [line.split()[0] for line in lines] == ["name", "first", "word", "second"]


@pytest.mark.parametrize("width", [76, 80, 100])
def test_several_columns_that_fold_keep_every_word_within_the_width(width: int) -> None:
    words = [f"word{number}" for number in range(12)]
    rows = [("a subject of the first column", " ".join(words), "16384 (command line)"), ("x", "y", " ".join(words))]
    lines = shown(FittedTable([Column(name, folds=True) for name in ("change", "l4", "now")], rows), width)
    assert max(map(len, lines)) <= width
    assert all("\n".join(lines).count(word) >= 2 for word in words)
    assert "(command" in "\n".join(lines)
    assert "line)" in "\n".join(lines)
