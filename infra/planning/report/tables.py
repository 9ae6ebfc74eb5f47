"""Tables that lose no figure: where one is too wide, columns that it can spare go first, then each row becomes a few lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

Cell = str | Text


@dataclass(frozen=True)
class Column:
    """A column, and what may happen to it where the table is too wide."""

    name: str
    """Its head; a line break within makes a head of two lines."""
    figures: bool = False
    """Numbers: set to the right."""
    spare: int = 0
    """Columns are left out by this number, the largest first; 0 stays."""
    folds: bool = False
    """Text that folds within its column, which takes the width that the others leave."""


@dataclass(frozen=True)
class FittedTable:
    """Rows of cells under `columns`. Columns that are not shown are named below the table."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        least = [self._least(console, index) for index in range(len(self.columns))]
        kept = list(range(len(self.columns)))
        while not (gap := _gap(options.max_width - sum(least[index] for index in kept), len(kept) - 1)):
            spare = [index for index in kept if self.columns[index].spare]
            if not spare:
                yield from self._cards(options.max_width)
                return
            kept.remove(max(spare, key=lambda index: self.columns[index].spare))
        yield self._table(kept, self._widths(console, kept, least, options.max_width - gap * (len(kept) - 1)), gap)
        if left_out := [_plain(column.name) for index, column in enumerate(self.columns) if index not in kept]:
            yield Text(f"Not shown at this width: {', '.join(left_out)}.", style="dim")

    def _least(self, console: Console, index: int) -> int:
        column = self.columns[index]
        heads = column.name.split("\n")
        if column.folds:
            return max(_LEAST_FOLDED, *map(len, heads))
        return max(console.measure(cell).maximum for cell in [*(row[index] for row in self.rows), *heads])

    def _widths(self, console: Console, kept: Sequence[int], least: Sequence[int], room: int) -> list[int]:
        """Return the width of each column: its own, or for those that fold an equal share of what the others leave."""
        widths = list(least)
        folding = [index for index in kept if self.columns[index].folds]
        whole = {
            index: console.measure(Text("\n".join(str(row[index]) for row in self.rows))).maximum for index in folding
        }
        room -= sum(least[index] for index in kept if index not in folding)
        for left, index in zip(range(len(folding), 0, -1), sorted(folding, key=whole.__getitem__), strict=True):
            widths[index] = max(least[index], min(whole[index], room // left))
            room -= widths[index]
        return widths

    def _table(self, kept: Sequence[int], widths: Sequence[int], gap: int) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
        folds = any(self.columns[index].folds for index in kept)
        for index in kept:
            column = self.columns[index]
            table.add_column(
                Text(column.name),
                justify="right" if column.figures else "left",
                vertical="top" if folds else "bottom",  # a row begins with its name, a head ends above its figures
                width=widths[index],
                overflow="fold",
                no_wrap=not column.folds,
            )
        for row in self.rows:
            table.add_row(*(_cell(row[index]) for index in kept))
        return table

    def _cards(self, width: int) -> Iterator[RenderableType]:
        for first, *rest in self.rows:
            yield Text(str(first), style="bold")
            lines: list[str] = []
            for column, cell in zip(self.columns[1:], rest, strict=True):
                part = f"{_plain(column.name)} {cell}"
                if not str(cell):
                    continue
                if lines and len(lines[-1]) + 3 + len(part) <= width - 2:
                    lines[-1] += f" · {part}"
                else:
                    lines.append(part)
            if lines:
                yield Text("\n".join(f"  {line}" for line in lines))


_LEAST_FOLDED = 24


def _gap(room: int, gaps: int) -> int:
    """Return how many blanks stand between two columns: two, one where there is no room for more, 0 where for none."""
    return 0 if room < gaps else 1 if room < 2 * gaps else 2


def labelled(rows: Iterable[tuple[Cell, RenderableType]], width: int) -> Table:
    """Return names of `width` columns, each before a text that folds beside it."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(min_width=width)
    grid.add_column(overflow="fold")
    for name, said in rows:
        grid.add_row(_cell(name), _cell(said) if isinstance(said, str) else said)
    return grid


def _cell(cell: Cell) -> Text:
    """Return a cell whose words are never read as rich's markup."""
    return Text(cell) if isinstance(cell, str) else cell


def _plain(head: str) -> str:
    return head.replace("\n", " ")
