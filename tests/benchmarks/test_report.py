"""The table of figures, of made-up ones."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.measuring import DATABASE, OURS, SQLITE, Figures
from tests.benchmarks.report import to_markdown


@pytest.fixture
def figures() -> Figures:
    """Return what a run may have measured."""
    found = Figures("full", {"python": "3.11"}, notes=["one append: 1 ms"])
    times = {OURS: [0.001, 0.002, 0.001], SQLITE: [0.003, 0.003, 0.003], DATABASE: [0.02, 0.02, 2]}
    found.add("append", times, targets={SQLITE: 2.0, DATABASE: 25.0})
    found.add("import", {OURS: [0.2]}, limit=0.3)
    found.add("list", {OURS: [1.5], SQLITE: [1.5]})
    return found


def test_table(figures: Figures) -> None:
    """A row shows medians, the ratio to ours, the target, and whether it was met."""
    lines = to_markdown(figures).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:5]]
    assert cells == [
        ["append", "1 ms", "3 ms (3.0x)", "20 ms (20.0x)", "≥ 2x, 25x", "missed"],
        ["import", "200 ms", "", "", "< 300 ms", "met"],
        ["list", "1.50 s", "1.50 s (1.0x)", "", "recorded", ""],
    ]
    assert "- one append: 1 ms" in lines
    assert "- python: 3.11" in lines


def test_file(figures: Figures) -> None:
    """The file with the figures holds all that the table needs."""
    text = json.dumps(figures.to_json())
    assert to_markdown(Figures.from_json(json.loads(text))) == to_markdown(figures)
