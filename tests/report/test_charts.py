"""Charts take rows as they come, and draw what is in them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import altair as alt
import pytest

from lakestore import Lake
from lakestore.report import charts, words
from lakestore.report.pictures import picture
from lakestore.storage import MemoryStore

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
QUERY = """
select make_timestamptz(2026, 3, n, 0, 0, 0) as day, 'm-' || n % 2 as model,
  (n * 1000)::decimal(18, 2) as tokens, n * 0.5 as p50
from range(1, 9) as days(n)"""

KINDS: dict[str, Callable[[Any], Any]] = {
    "DuckDB": lambda answer: answer,
    "pandas": lambda answer: answer.df(),
    "polars": lambda answer: answer.pl(),
    "Arrow": lambda answer: answer.to_arrow_table(),
    "dicts": lambda answer: answer.to_arrow_table().to_pylist(),
}


def values(chart: alt.Chart | alt.LayerChart) -> list[dict[str, Any]]:
    """The rows that a chart draws."""
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def drawn_svg(chart: Any) -> str:
    """The picture of a chart, as it stands in a page."""
    url = picture(chart, "title", "words").wide
    return base64.b64decode(url.partition(",")[2]).decode()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_any_library(kind: str) -> None:
    """The answer of `lake.sql` is drawn the same as it is, as a frame, as a table, as dicts."""
    with Lake(MemoryStore()) as lake:
        rows = KINDS[kind](lake.sql(QUERY))
        drawn = values(charts.bars(rows, "tokens", by="model"))
    assert drawn[0] == {
        "day": "2026-03-01T00:00:00+00:00",
        "value": 1000.0,
        "by": "m-1",
    }
    assert len(drawn) == 8


@pytest.mark.parametrize("day", [date(2026, 3, 1), MIDNIGHT, MIDNIGHT.replace(tzinfo=None)])
def test_times_without_a_zone_are_utc(day: date) -> None:
    """A date, and a time without a zone, is drawn as the same in UTC, wherever the machine is."""
    (row,) = values(charts.bars([{"day": day, "n": 1}], "n"))
    assert row["day"] == "2026-03-01T00:00:00+00:00"


def test_lines_leave_out_what_is_not_known() -> None:
    """A row without a value has no point; on a logarithmic scale neither has a zero."""
    days = [{"day": date(2026, 3, n), "p50": value} for n, value in ((1, 2.0), (2, None), (3, 0.0))]
    assert [row["value"] for row in values(charts.lines(days, {"p50": "half"}))] == [2.0, 0.0]
    assert [row["value"] for row in values(charts.durations(days, {"p50": "half"}))] == [2.0]


@pytest.mark.parametrize("name", ["a.b", "a[0]", "a:Q", "it's", 'say "x"', "back\\slash"])
def test_odd_column_names(name: str) -> None:
    """A column's name is a name, whatever it holds, and its values are drawn."""
    chart = charts.ranking([{name: "the bar", "n": 3}], name, "n")
    assert values(chart) == [{"name": "the bar", "value": 3}]


def test_pictures_have_a_dark_side() -> None:
    """Each colour that a chart draws with has one for the dark, in the picture itself."""
    rows = [{"day": date(2026, 3, 1), "model": f"m{n}", "tokens": n} for n in range(8)]
    drawn = picture(charts.bars(rows, "tokens", by="model"), "Tokens", "")
    svg = base64.b64decode(drawn.wide.split(",", 1)[1]).decode()
    style, rest = re.findall(r"<style>.*?</style>|.+", svg[svg.index("<style>") :], re.DOTALL)[:2]
    used = set(re.findall(r'(?:fill|stroke)="(#\w+)"', rest))
    assert used
    assert {colour for colour in used if f'"{colour}"' not in style} == set()
    assert "prefers-color-scheme:dark" in style


@pytest.mark.parametrize("many", [1, 3, 30])
def test_few_days_are_no_wall(many: int) -> None:
    """A bar takes an eighth of a chart at most, and the points of short lines can be seen."""
    rows = [{"day": MIDNIGHT + timedelta(days=n), "n": 1} for n in range(many)]
    bars = charts.bars(rows, "n").to_dict()["encoding"]["x"]["scale"]
    first, last = bars.get("domain", (0, 8 * 86_400_000))
    assert last - first == 8 * 86_400_000
    point = charts.lines(rows, {"n": "n"}).to_dict()["mark"]["point"]["size"]
    assert (point >= 40) == (many <= 12)


def test_a_legend_has_what_is_drawn() -> None:
    """What is 0 on all days keeps its colour, so that two charts agree, but is in no legend."""
    rows = [{"day": MIDNIGHT, "model": name, "cost": cost} for name, cost in (("a", 0), ("b", 2))]
    colour = charts.bars(rows, "cost", by="model", order=["a", "b"]).to_dict()["encoding"]["color"]
    assert colour["legend"]["values"] == ["b"]
    assert colour["scale"]["domain"] == ["a", "b"]


def test_nothing_is_zero() -> None:
    """An axis of thousands begins with 0, not with 0k."""
    chart = charts.bars([{"day": MIDNIGHT, "n": 20_000}], "n")
    svg = re.sub(r"<[^>]*>", "\n", drawn_svg(chart)).split()
    assert "0" in svg
    assert "20k" in svg
    assert "0k" not in svg


def test_whole_numbers_have_no_fractions() -> None:
    """Two failed calls of two tools are not drawn as 500m and 1.5."""
    rows = [{"day": MIDNIGHT, "by": name, "n": 1} for name in "ab"]
    svg = re.sub(r"<[^>]*>", "\n", drawn_svg(charts.bars(rows, "n", by="by"))).split()
    assert {"0", "1", "2"} <= set(svg)
    assert not {"500m", "1.5"} & set(svg)


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [(0.105, 1, "10.5%"), (0.0625, 1, "6.3%"), (0.125, 0, "13%"), (1, 1, "100%"), (0, 1, "0%")],
)
def test_charts_and_tables_round_alike(share: float, digits: int, text: str) -> None:
    """A share reads the same in a chart and in the table below it."""
    form = charts.PERCENT if digits else ".0%"
    chart = charts.ranking([{"tool": "t", "rate": share}], "tool", "rate", form=form)
    assert words.percent(share, digits) == text
    assert text in re.sub(r"<[^>]*>", "\n", drawn_svg(chart)).split()
