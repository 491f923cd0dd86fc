"""Rows as text: for people (`table`, `markdown`) or for programs (`json`, `csv`).

People's forms may shorten a cell and say so with `…`; the programs' forms never do.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from lakestore.shell.text import clip, visible, width

FORMATS = ("table", "json", "csv", "markdown")

Row = Sequence[Any]

_NARROWEST = 8
"""Columns a cell keeps, however little room there is."""
_GAP = 2


def render(columns: Sequence[str], rows: Sequence[Row], form: str, room: int) -> Iterator[str]:
    """Yield the lines of a result; `room` is the terminal's width, which only `table` minds."""
    if form == "json":
        return _json(columns, rows)
    if form == "csv":
        return _csv(columns, rows)
    if form == "markdown":
        return _markdown(columns, rows)
    return table(columns, rows, room)


def table(columns: Sequence[str], rows: Sequence[Row], room: int) -> Iterator[str]:
    """Yield a table that fits into `room` columns: numbers to the right, texts to the left.

    Rows of too many columns for that are printed one column a line.
    """
    cells = [[visible(cell_text(value)) for value in row] for row in rows]
    heads = [visible(name) for name in columns]
    widths = [max(map(width, column)) for column in zip(heads, *cells, strict=True)]
    right = [_all_are(column, _NUMBERS) for column in zip(*rows, strict=True)] or [False] * len(
        heads
    )
    whole = [_all_are(column, _NEVER_SHORTENED) for column in zip(*rows, strict=True)] or right
    if not cells:
        return _table(heads, cells, widths, right)
    if _needed(widths, whole) > room:
        return _upright(heads, cells, room)
    return _table(heads, cells, _fit(widths, whole, room), right)


def _table(
    heads: Sequence[str], cells: Sequence[Sequence[str]], widths: list[int], right: list[bool]
) -> Iterator[str]:
    yield _line(heads, widths, right)
    yield (" " * _GAP).join("─" * columns for columns in widths)
    for row in cells:
        yield _line(row, widths, right)


def _upright(heads: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> Iterator[str]:
    names = max(map(width, heads))
    for number, row in enumerate(cells, 1):
        yield f"── row {number} ".ljust(room, "─")
        for head, cell in zip(heads, row, strict=True):
            text = clip(cell, max(room - names - _GAP, _NARROWEST))
            yield (head + " " * (names - width(head) + _GAP) + text).rstrip()


def cell_text(value: object) -> str:
    """Return a value as a cell shows it; a missing one is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, list | tuple):
        return ", ".join(cell_text(item) for item in value)
    if isinstance(value, dict):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(_plain(value))


def _needed(widths: Sequence[int], whole: Sequence[bool]) -> int:
    kept = [
        columns if stays else min(columns, _NARROWEST)
        for columns, stays in zip(widths, whole, strict=True)
    ]
    return sum(kept) + _GAP * (len(kept) - 1)


def _fit(widths: Sequence[int], whole: Sequence[bool], room: int) -> list[int]:
    """Return widths that fit into `room`, where `_needed` does: the widest text gives way first."""
    fitted = [
        columns if stays else min(columns, room)
        for columns, stays in zip(widths, whole, strict=True)
    ]
    texts = [index for index, stays in enumerate(whole) if not stays]
    while sum(fitted) + _GAP * (len(fitted) - 1) > room:
        widest = max(texts, key=fitted.__getitem__, default=None)
        if widest is None:
            break
        fitted[widest] -= 1
    return fitted


_NUMBERS = (int, float, Decimal)
_NEVER_SHORTENED = (*_NUMBERS, bool, date, datetime, time)


def _all_are(values: Iterable[object], kinds: tuple[type, ...]) -> bool:
    found = {type(value) for value in values if value is not None}
    return bool(found) and found <= set(kinds)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, columns, to_right in zip(cells, widths, right, strict=True):
        text = clip(cell, columns)
        blanks = " " * (columns - width(text))
        padded.append(blanks + text if to_right else text + blanks)
    return "  ".join(padded).rstrip()


def _json(columns: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    names = _distinct(columns)
    if not rows:
        yield "[]"
        return
    for index, row in enumerate(rows):
        entry = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False)
        yield ("[" if index == 0 else " ") + text + ("]" if index == len(rows) - 1 else ",")


def _csv(columns: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    for row in (columns, *rows):
        line = io.StringIO()
        # With an empty line end the writer would not quote cells that hold one.
        csv.writer(line, lineterminator="\r\n").writerow([_csv_cell(value) for value in row])
        yield line.getvalue().removesuffix("\r\n")


def _csv_cell(value: object) -> object:
    plain = _plain(value)
    structured = isinstance(plain, list | dict | bool)
    return json.dumps(plain, ensure_ascii=False) if structured else plain


def _markdown(columns: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    right = [_all_are(column, _NUMBERS) for column in zip(*rows, strict=True)]
    yield _markdown_row(columns)
    right = right or [False] * len(columns)
    yield "| " + " | ".join("--:" if to_right else "---" for to_right in right) + " |"
    for row in rows:
        yield _markdown_row([cell_text(value) for value in row])


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(visible(cell).replace("|", "\\|") for cell in cells) + " |"


def _distinct(columns: Sequence[str]) -> list[str]:
    # SQL may name two columns alike; an object's keys may not, and a lost column is a wrong answer.
    names: list[str] = []
    for column in columns:
        name, count = column, 1
        while name in names:
            name, count = f"{column}_{count}", count + 1
        names.append(name)
    return names


def _plain(value: object) -> Any:
    """Return a value in JSON's types: times as ISO 8601, what JSON cannot say as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
