"""Tables for people: a terminal of any width shows every cell whole, and elsewhere no line is broken."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.measure import Measurement
from rich.segment import Segment, Segments
from rich.table import Table as RichTable
from rich.text import Text

from cpuwheels.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, JustifyMethod

    Cell = str | Text

_GAP = 2
"""Columns between two cells, and between two that stand below a row."""
_INDENT = 2
_PROSE = 28
"""Columns that sentences have at least, to be read in a column of their own."""
_HEADING = 10
"""Columns from which a heading may be broken that is longer than what stands below it."""
_UNLIMITED = 1 << 16


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: Its heading; a cell that stands below its row has it in front.
        right: Whether cells end at the right.
        prose: Whether cells hold sentences, addresses or paths. Only those may take several lines.
        alike: Whether it is one of several that are to be compared: all of them stand in the row, or none does.
    """

    name: str
    right: bool = False
    prose: bool = False
    alike: bool = False


@dataclass
class Table:
    """Rows of cells, and how they are printed.

    Where there is no room for all columns, those that hold prose stand below each row, and then as many of the last
    ones as it takes; the first column never does. A word that is longer than a line, such as an address, is left
    whole: the terminal breaks it, and it can be copied.

    Attributes:
        columns: The columns.
        title: Above it.
        caption: Lines below it.
        rows: A cell for each column; a string is shown letter by letter.
    """

    columns: Sequence[Column]
    title: str = ""
    caption: Sequence[str] = ()
    rows: list[tuple[Text, ...]] = field(default_factory=list)

    def add_row(self, *cells: Cell) -> None:
        """Add a row."""
        self.rows.append(tuple(_text(cell) for cell in cells))

    def print(self, console: Console) -> None:
        """Print the table: as wide as the terminal at most, and as wide as it is elsewhere."""
        width = console.width if console.is_terminal else _UNLIMITED
        if self.title:
            print_wrapped(console, _text(self.title), style="italic")
        widths = self._widths(width)
        if len(widths) == len(self.columns):
            self._print_rows(console, widths, self.rows)
        else:
            self._print_below(console, widths, width)
        for line in self.caption:
            print_wrapped(console, _text(line), style="dim italic")

    def _widths(self, width: int) -> dict[int, int]:
        """Return the columns that stand in the rows, and how wide each is."""
        longest = {number: self._longest(number) for number in range(len(self.columns))}
        prose = {number for number, column in enumerate(self.columns) if column.prose and number}
        fixed = {number: wide for number, wide in longest.items() if number not in prose}
        least = {number: min(longest[number], max(_PROSE, self._longest_word(number))) for number in prose}
        spare = width - _total(fixed | least)
        if spare >= 0:
            by_need = sorted(prose, key=lambda number: longest[number] - least[number])
            for place, number in enumerate(by_need):
                more = min(longest[number] - least[number], spare // (len(prose) - place))
                least[number] += more
                spare -= more
            return dict(sorted((fixed | least).items()))
        while len(fixed) > 1 and _total(fixed) > width:
            last = max(fixed)
            gone = {number for number in fixed if number == last or self._is_alike(number, last)}
            fixed = {number: wide for number, wide in fixed.items() if number not in gone}
        return fixed

    def _is_alike(self, number: int, other: int) -> bool:
        return self.columns[number].alike and self.columns[other].alike

    def _longest(self, number: int) -> int:
        cells = max((cell_len(row[number].plain) for row in self.rows), default=0)
        return max(cells, min(cell_len(self.columns[number].name), max(cells, _HEADING)))

    def _longest_word(self, number: int) -> int:
        words = [word for row in self.rows for word in row[number].plain.split()] + [self.columns[number].name]
        return max(map(cell_len, words))

    def _print_rows(self, console: Console, widths: dict[int, int], rows: Iterable[tuple[Text, ...]]) -> None:
        """Print the headings, if there are any, and rows with the columns that stand in them."""
        columns = {number: self.columns[number] for number in widths}
        headed = any(column.name for column in columns.values())
        table = RichTable(
            box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, show_header=headed, highlight=False
        )
        for number, column in columns.items():
            side: JustifyMethod = "right" if column.right else "left"
            table.add_column(column.name, width=widths[number], justify=side, overflow="fold")
        for row in rows:
            table.add_row(*(row[number] for number in widths))
        table.width = Measurement.get(console, console.options.update(width=_UNLIMITED), table).maximum
        for line in console.render_lines(table, console.options.update(width=table.width), pad=False):
            console.print(Segments([*_without_end(line), Segment.line()]), end="", soft_wrap=True)

    def _print_below(self, console: Console, widths: dict[int, int], width: int) -> None:
        self._print_rows(console, widths, ())
        for row in self.rows:
            line = Text()
            for number, wide in widths.items():
                pad = Text(" " * (wide - cell_len(row[number].plain)))
                line.append_text(pad + row[number] if self.columns[number].right else row[number] + pad)
                line.append(" " * _GAP)
            line.rstrip()
            console.print(line, soft_wrap=True, highlight=False)
            below = [number for number in range(len(self.columns)) if number not in widths and row[number]]
            for line in self._lines(row, below, width - _INDENT):
                print_wrapped(console, line, indent=_INDENT, hanging=_INDENT)

    def _lines(self, row: tuple[Text, ...], below: Sequence[int], width: int) -> Iterable[Text]:
        """Return the lines below a row: short cells next to each other, prose on lines of its own."""
        line = Text()
        for number in below:
            column = self.columns[number]
            item = Text.assemble((f"{column.name}: ", "dim") if column.name else "", row[number])
            joined = cell_len(line.plain) + _GAP + cell_len(item.plain)
            if line and not column.prose and joined <= width:
                line = Text.assemble(line, " " * _GAP, item)
                continue
            if line:
                yield line
            line = item
            if column.prose:
                yield item
                line = Text()
        if line:
            yield line


def print_wrapped(console: Console, text: Text, *, indent: int = 0, hanging: int = 0, style: str = "") -> None:
    """Print a text, broken between words where it is longer than the terminal is wide; words stay whole.

    Args:
        console: Where to print; lines are broken on a terminal alone.
        text: The text.
        indent: Spaces in front of each line.
        hanging: More of them, from the second line on.
        style: Of the whole text.
    """
    text = text.copy()
    text.stylize(style)
    if not console.is_terminal:
        console.print(Text(" " * indent).append_text(text), soft_wrap=True, highlight=False)
        return
    lines = [
        Text(" " * (indent + (hanging if number else 0))).append_text(line)
        for number, line in enumerate(_wrapped(text, console.width - indent, hanging))
    ]
    console.print(Text("\n").join(lines), soft_wrap=True, highlight=False)


def _wrapped(text: Text, width: int, hanging: int) -> Iterable[Text]:
    """Divide a text between words into lines; rich would divide, or cut, words that are longer than a line."""
    room, used, offsets = width, 0, []
    for word in re.finditer(r"\S+\s*", text.plain):
        if used and used + cell_len(word[0].rstrip()) > room:
            offsets.append(word.start())
            room, used = width - hanging, 0
        used += cell_len(word[0])
    for line in text.divide(offsets):
        line.rstrip()
        yield line


def _without_end(line: Sequence[Segment]) -> list[Segment]:
    """Return a line without the spaces at its end."""
    kept = list(line)
    while kept and not kept[-1].text.rstrip():
        kept.pop()
    return [*kept[:-1], kept[-1]._replace(text=kept[-1].text.rstrip())] if kept else []


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _text(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return cell
    return Text(printable(" ".join(cell.split())))
