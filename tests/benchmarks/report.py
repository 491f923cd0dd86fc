"""The table of figures in Markdown: `python -m tests.benchmarks.report figures.json`.

Owns how figures look; they come from `measuring`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.measuring import OURS, PEERS, Figures, Row

_HEAD = ("workload", OURS, *PEERS, "target", "")
_VERDICTS = {True: "met", False: "missed", None: ""}


def to_markdown(figures: Figures) -> str:
    """Return the table, and below it what a reader needs to know about it."""
    rows = [_HEAD, *map(_cells, figures.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    about = [f"- {name}: {value}" for name, value in figures.facts.items()]
    notes = [f"- {note}" for note in figures.notes]
    return "\n".join(
        [
            *lines,
            "",
            "Medians over rounds in which the services took turns, in one process; x: how many"
            " times as long as lakestore a peer took (the median over rounds).",
            "",
            *notes,
            *about,
            f"- size: {figures.scale}",
            *(f"\n{table}" for table in figures.tables),
        ]
    )


def _cells(row: Row) -> Sequence[str]:
    peers = [_peer(row, name) for name in PEERS]
    return (row.workload, _time(row.medians[OURS]), *peers, _target(row), _VERDICTS[row.met])


def _peer(row: Row, name: str) -> str:
    if name not in row.medians:
        return ""
    return f"{_time(row.medians[name])} ({row.ratios[name]:.1f}x)"


def _target(row: Row) -> str:
    if row.limit is not None:
        return f"< {_time(row.limit)}"
    wanted = [f"{row.targets[name]:g}x" for name in PEERS if name in row.targets]
    return "≥ " + ", ".join(dict.fromkeys(wanted)) if wanted else "recorded"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "| " + " | ".join(padded) + " |"


def main(path: str) -> None:
    """Print the table of the figures in a file that `--bench-json` wrote."""
    figures = Figures.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    print(to_markdown(figures))


if __name__ == "__main__":
    main(sys.argv[1])
