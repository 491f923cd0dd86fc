"""How answers are printed: for people in columns, for programs without losing anything."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakestore.shell.tables import FORMATS, render
from lakestore.shell.text import byte_size, clip, shown_url, visible, width, wrap

COLUMNS = ["day", "n", "text"]
ROWS = [
    (date(2026, 1, 31), 5, "hello\nthere"),
    (date(2026, 2, 1), 1200, None),
]


def printed(form: str, columns: list[str], rows: list[tuple[object, ...]], room: int = 100) -> str:
    """What `render` prints."""
    return "\n".join(render(columns, rows, form, room))


def test_a_table_lines_up() -> None:
    """Numbers stand to the right, texts to the left; a missing value is blank, a row one line."""
    assert printed("table", COLUMNS, [*ROWS]) == (
        "day            n  text\n"
        "──────────  ────  ───────────\n"
        "2026-01-31     5  hello there\n"
        "2026-02-01  1200"
    )


def test_wide_letters_line_up() -> None:
    """A letter that takes two columns counts as two."""
    lines = printed("table", ["a", "b"], [("漢字", "x"), ("abcd", "y")]).splitlines()
    assert [width(line) for line in lines] == [7, 7, 7, 7]


def test_a_table_fits_the_terminal() -> None:
    """The widest cells are shortened, and say so; short columns keep their text."""
    text = printed("table", COLUMNS, [(date(2026, 1, 31), 5, "word " * 50)], room=40)
    assert max(map(width, text.splitlines())) == 40
    assert text.endswith("…")
    assert "2026-01-31" in text


def test_a_row_of_many_columns_is_printed_upright() -> None:
    """What can't fit side by side is printed one column a line, a row after the other."""
    columns = [f"column_{number:02}" for number in range(12)]
    rows: list[tuple[object, ...]] = [tuple(range(12)), tuple("x" * 99 for _ in columns)]
    lines = printed("table", columns, rows, room=60).splitlines()
    assert lines[0] == "── row 1 ".ljust(60, "─")
    assert lines[1] == "column_00  0"
    assert lines[13] == "── row 2 ".ljust(60, "─")
    assert lines[14] == "column_00  " + "x" * 48 + "…"
    assert len(lines) == 26


def test_times_and_numbers_are_never_shortened() -> None:
    """Of a time or a number half is worth nothing, so texts give way to them."""
    row = (datetime(2026, 1, 31, tzinfo=UTC), 123_456_789, "word " * 20)
    assert printed("table", COLUMNS, [row], room=45).splitlines()[-1] == (
        "2026-01-31 00:00:00Z  123456789  word word w…"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_no_rows_are_an_answer(form: str) -> None:
    """Without rows the names of the columns are still printed, and JSON is an empty list."""
    text = printed(form, COLUMNS, [])
    assert json.loads(text) == [] if form == "json" else all(name in text for name in COLUMNS)


def test_json_loses_nothing() -> None:
    """Every value comes back: big integers, times with their zone, lists, columns of one name."""
    row = (2**70, datetime(2026, 1, 31, tzinfo=UTC), ["a", None], Decimal("1.5"), True, b"\x01", 2)
    columns = ["big", "at", "names", "ratio", "ok", "raw", "big"]
    assert json.loads(printed("json", columns, [row, row]))[1] == {
        "big": 2**70,
        "at": "2026-01-31T00:00:00+00:00",
        "names": ["a", None],
        "ratio": 1.5,
        "ok": True,
        "raw": "01",
        "big_1": 2,
    }


def test_json_is_valid_where_numbers_are_not() -> None:
    """NaN and infinity, which JSON has not, are null."""
    assert (
        printed("json", ["x", "y"], [(float("nan"), float("-inf"))]) == '[{"x": null, "y": null}]'
    )


def test_csv_reads_back() -> None:
    """Commas, quotes and line ends within a cell survive a CSV reader."""
    rows: list[tuple[object, ...]] = [('say "hi", twice\r\nor not', ["x"], False)]
    text = printed("csv", ["a", "b", "c"], rows)
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["a", "b", "c"],
        ['say "hi", twice\r\nor not', '["x"]', "false"],
    ]


def test_markdown_keeps_its_columns() -> None:
    """A bar in a cell is escaped, a line end becomes a blank."""
    assert printed("markdown", ["a", "n"], [("x|y\nz", 1)]) == (
        "| a | n |\n| --- | --: |\n| x\\|y z | 1 |"
    )


@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\x9b", "\u202e", "\ud800"])
def test_what_could_command_a_terminal_is_made_harmless(letter: str) -> None:
    """Escapes, turned writing and what cannot be written at all are replaced."""
    assert visible(f"a{letter}b") == "a�b"


def test_wrapping_keeps_every_letter() -> None:
    """Text is broken at blanks, long words anywhere, empty lines stay."""
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("ab\n\ncd", 8) == ["ab", "", "cd"]
    assert wrap("x " + "y" * 20, 8) == ["x", "y" * 8, "y" * 8, "y" * 4]
    assert wrap("", 8) == [""]


def test_clipping_counts_columns() -> None:
    """A shortened text is at most as wide as it may be, with its mark."""
    assert clip("abc", 3) == "abc"
    assert clip("abcd", 3) == "ab…"
    assert clip("漢字漢字", 4) == "漢…"


def test_sizes_are_short() -> None:
    """Three digits or so, and the unit."""
    sizes = [byte_size(n) for n in (0, 999, 1_000, 1_500_000, 25_000_000_000)]
    assert sizes == ["0 B", "999 B", "1.0 kB", "1.5 MB", "25.0 GB"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("./a lake?#", "./a lake?#"),
        ("file:///a/b", "file:///a/b"),
        ("s3://key:secret@bucket/x?secret=abc&region=eu", "s3://bucket/x?secret=…&region=…"),
        ("s3://bucket/x?AKIAIOSFODNN7", "s3://bucket/x?…"),
    ],
)
def test_urls_are_shown_without_secrets(url: str, shown: str) -> None:
    """User names, passwords and the values of options are left out; folders are shown as typed."""
    assert shown_url(url) == shown
