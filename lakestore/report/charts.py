"""Charts for pages and notebooks, in one style: Altair's, so change them as you like.

Rows are whatever `lake.sql` gives, as it is or as a frame of pandas, polars or Arrow, or a list of
dicts. Times without a zone are UTC, as everywhere in a lake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from lakestore.report.colours import GRID, INK, MUTED, PAPER, SERIES, STEPS
from lakestore.report.words import Step

try:
    import altair as alt
except ImportError as error:
    raise ImportError("charts need Altair: pip install 'lakestore[report]'") from error

Rows: TypeAlias = Any
"""A list of dicts, or a table of DuckDB, pandas, polars or Arrow."""

OTHERS = "others"
"""What those without a colour of their own are called together."""

WHOLE = "~s"
"""The format of whole numbers: 12k."""

PERCENT = ".1~%"
"""The format of shares: 10.5%."""

WIDTH, HEIGHT = 720, 240
_TICKS = 12
_FEWEST = 8
"""So many days, weeks or the like have room in a chart, though there be less: one is no wall."""
_STEP_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_DAY_FORMS = {"day": "%d %b", "week": "%d %b", "month": "%b %y", "year": "%Y"}
_TIMES = (0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 1_800, 7_200, 28_800, 86_400, 604_800)
_TIME_LABEL = (
    "datum.value < 60 ? datum.value + ' s' : datum.value < 3600 ? datum.value / 60 + ' min' :"
    " datum.value < 86400 ? datum.value / 3600 + ' h' : datum.value / 86400 + ' d'"
)
_ROW = 26
"""Height of one bar or week, where each has a line of its own."""


def use_svg() -> None:
    """Let notebooks show charts as SVG, which needs no network and stays when it is saved.

    `altair.renderers.enable("default")` brings back charts that answer to the mouse.
    """
    alt.renderers.enable("svg")


def bars(
    rows: Rows, value: str, *, by: str | None = None, step: Step = "day", title: str = "",
    form: str = WHOLE, order: Sequence[str] = (),
) -> alt.Chart:  # fmt: skip
    """Draw a bar for each `day`, in pieces where `by` names a column.

    Args:
        rows: With a column `day`, when the step begins.
        value: The column that is a bar's height; rows of one day are summed.
        by: What is stacked, in a colour each.
        step: What a row stands for.
        title: What is drawn.
        form: The axis' format, as of D3.
        order: Values of `by`, the first in the first colour; else those with most. Where there are
            more than colours, the last are one, `others`.
    """
    told = [
        {"day": row["day"], "value": row[value] or 0, **({"by": row[by]} if by else {})}
        for row in _listed(rows)
    ]
    encoding: dict[str, Any] = {
        "x": _day_axis(step, told),
        "x2": "day_end:T",
        "y": alt.Y("sum(value):Q", title=None, axis=_axis(form)),
    }
    if by:
        names = _coloured(told, order)
        some = {row["by"] for row in told if row["value"]}
        encoding["color"] = _colour(names, [name for name in names if name in some])
        # Vega's own number of a colour: pieces lie on each other as the legend names them.
        encoding["order"] = alt.Order("color_by_sort_index:Q")
    chart = alt.Chart(_data(told)).transform_calculate(
        day_end=f"utcOffset('{step}', toDate(datum.day), 1)"
    )
    mark = chart.mark_bar(color=SERIES[0], stroke=PAPER, strokeWidth=0.5)
    drawn: alt.Chart = _styled(mark.encode(**encoding), title)
    return drawn


def lines(
    rows: Rows, values: Mapping[str, str], *, step: Step = "day", title: str = "", form: str = WHOLE
) -> alt.Chart:
    """Draw a line for each of some columns over `day`.

    Args:
        rows: With a column `day`.
        values: The columns, with what each is called.
        step: What a row stands for.
        title: What is drawn.
        form: The axis' format, as of D3.
    """
    told = _unpivoted(rows, values)
    return _lines(told, values, step, title, _axis(form), alt.Scale(zero=True))


def durations(
    rows: Rows, values: Mapping[str, str], *, step: Step = "day", title: str = ""
) -> alt.Chart:
    """Draw a line for each of some columns of seconds over `day`, on a logarithmic scale.

    Args:
        rows: With a column `day`. What is not above 0 has no place on that scale.
        values: The columns, with what each is called.
        step: What a row stands for.
        title: What is drawn.
    """
    told = [row for row in _unpivoted(rows, values) if row["value"] > 0]
    axis = alt.Axis(values=list(_TIMES), labelExpr=_TIME_LABEL)
    return _lines(told, values, step, title, axis, alt.Scale(type="log"))


def ranking(
    rows: Rows, name: str, value: str, *, title: str = "", form: str = WHOLE
) -> alt.LayerChart:
    """Draw a bar with its number for each row, the largest on top.

    Args:
        rows: What is compared.
        name: The column that says what a bar is.
        value: The column that is a bar's length.
        title: What is drawn.
        form: The numbers' format, as of D3.
    """
    told = [{"name": row[name], "value": row[value] or 0} for row in _listed(rows)]
    base = alt.Chart(_data(told)).encode(
        y=alt.Y("name:N", sort="-x", title=None, axis=alt.Axis(labelLimit=150)),
        x=alt.X("value:Q", title=None, axis=alt.Axis(format=form, tickCount=4)),
    )
    number = alt.Text("value:Q", format=form)
    numbers = base.mark_text(align="left", dx=4, color=INK).encode(text=number)
    layers = alt.layer(base.mark_bar(color=SERIES[0]), numbers)
    drawn: alt.LayerChart = _styled(layers, title, _ROW * max(2, len(told)))
    return drawn


def cohorts(rows: Rows, *, title: str = "") -> alt.LayerChart:
    """Draw which part of the users of a first week came again so many weeks later.

    Args:
        rows: With the columns `cohort`, `weeks_later` from 1, `share` and `cohort_users`.
        title: What is drawn.
    """
    told = [
        {
            "from": f"{_utc(row['cohort']):%d %b} ({row['cohort_users']:,})",
            "weeks_later": row["weeks_later"],
            "share": row["share"],
        }
        for row in _listed(rows)
    ]
    weeks = list(dict.fromkeys(row["from"] for row in told))
    base = alt.Chart(_data(told)).encode(
        x=alt.X("weeks_later:O", title="weeks later", axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("from:O", sort=weeks, title=None),
    )
    scale = alt.Scale(type="threshold", domain=[0.001, 0.1, 0.25, 0.5], range=list(STEPS))
    field = base.mark_rect(stroke=PAPER, strokeWidth=1).encode(
        color=alt.Color("share:Q", scale=scale, legend=None)
    )
    # The darkest fields need letters of the page's ground.
    text = base.mark_text(fontSize=10).encode(
        text=alt.Text("share:Q", format=".0%"),
        color=alt.condition("datum.share >= 0.25", alt.value(PAPER), alt.value(INK)),
    )
    drawn: alt.LayerChart = _styled(alt.layer(field, text), title, _ROW * max(2, len(weeks)))
    return drawn


def _coloured(told: list[dict[str, Any]], order: Sequence[str]) -> list[str]:
    """Return what has a colour; the rest is renamed in `told`."""
    totals: Counter[str] = Counter()
    for row in told:
        totals[row["by"]] += row["value"]
    names = list(order) or [name for name, _ in totals.most_common()]
    if len(names) <= len(SERIES):
        return names
    kept = names[: len(SERIES) - 1]
    for row in told:
        row["by"] = row["by"] if row["by"] in kept else OTHERS
    return [*(name for name in kept if name != OTHERS), OTHERS]


def _unpivoted(rows: Rows, values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"day": row["day"], "by": name, "value": row[column]}
        for row in _listed(rows)
        for column, name in values.items()
        if row[column] is not None
    ]


def _lines(
    told: Rows, values: Mapping[str, str], step: Step, title: str, axis: alt.Axis, scale: alt.Scale
) -> alt.Chart:
    chart = alt.Chart(_data(told)).mark_line(
        point=alt.OverlayMarkDef(size=14 if _many(told, step) > _TICKS else 50), strokeWidth=1.8
    )
    encoded = chart.encode(
        x=_day_axis(step, told),
        y=alt.Y("value:Q", title=None, scale=scale, axis=axis),
        color=_colour(list(values.values())),
    )
    drawn: alt.Chart = _styled(encoded, title)
    return drawn


def _axis(form: str) -> alt.Axis:
    # What has no fraction has no tick between two numbers.
    if form != WHOLE:
        return alt.Axis(format=form)
    # Each number by itself: by the axis' own prefix nothing would be 0k.
    label = f"datum.value % 1 ? '' : format(datum.value, '{form}')"
    return alt.Axis(labelExpr=label, tickMinStep=1)


def _day_axis(step: Step, told: list[dict[str, Any]]) -> alt.X:
    days = {_utc(row["day"]) for row in told}
    ticks: dict[str, Any] = {"tickCount": 6}
    if days and (step != "day" or len(days) < _TICKS):
        # Vega would put them on Sundays and firsts of months, or several on a day.
        ticks = {"values": [day.timestamp() * 1000 for day in _steps(min(days), max(days), step)]}
    axis = alt.Axis(
        grid=False,
        format=_DAY_FORMS[step],
        labelOverlap="greedy",
        labelSeparation=8,
        **ticks,
    )
    scale = alt.Scale(type="utc", **_room(told, step))
    return alt.X("day:T", title=None, scale=scale, axis=axis)


def _many(told: list[dict[str, Any]], step: Step) -> int:
    """Return about how many steps there are from the first to the last."""
    days = [_utc(row["day"]) for row in told]
    return (max(days) - min(days)).days // _STEP_DAYS[step] + 1 if days else 0


def _room(told: list[dict[str, Any]], step: Step) -> dict[str, Any]:
    """Return the domain of an axis where there are few steps, which stand in its middle."""
    many = _many(told, step)
    if not 0 < many < _FEWEST:
        return {}
    days, length = [_utc(row["day"]) for row in told], timedelta(days=_STEP_DAYS[step])
    beside = length * (_FEWEST - many) / 2
    ends = (min(days) - beside, max(days) + length + beside)
    return {"domain": [end.timestamp() * 1000 for end in ends]}


def _steps(first: datetime, last: datetime, step: Step) -> list[datetime]:
    """Return when steps begin, about `_TICKS` of them, the first included."""
    if step in ("day", "week"):
        each = timedelta(days=1 if step == "day" else 7)
        many = (last - first) // each + 1
        return [first + each * place for place in range(0, many, many // _TICKS + 1)]
    months = (last.year - first.year) * 12 + last.month - first.month
    unit = 1 if step == "month" else 12
    places = range(0, months + 1, unit * (months // unit // _TICKS + 1))
    begins = (first.month - 1 + place for place in places)
    return [first.replace(year=first.year + m // 12, month=m % 12 + 1, day=1) for m in begins]


def _colour(names: Sequence[str], shown: Sequence[str] | None = None) -> alt.Color:
    """Return a colour for each name; the legend has those `shown` alone, None for all."""
    colours = [SERIES[place % len(SERIES)] for place in range(len(names))]
    scale = alt.Scale(domain=list(names), range=colours)
    legend = alt.Legend(values=list(names if shown is None else shown))
    return alt.Color("by:N", title=None, sort=list(names), scale=scale, legend=legend)


def _styled(chart: Any, title: str, height: int = HEIGHT) -> Any:
    given = {"title": title} if title else {}
    sized = chart.properties(width=WIDTH, height=height, background=PAPER, **given)
    axis = {"labelColor": MUTED, "gridColor": GRID, "domainColor": GRID, "tickColor": GRID}
    return (
        sized.configure(font="sans-serif", aria=False)
        .configure_view(stroke=None)
        .configure_axis(**axis, titleColor=MUTED, labelFontSize=11, titleFontSize=11)
        .configure_legend(orient="top", labelColor=INK, labelFontSize=11, labelLimit=200, columns=4)
        .configure_title(color=INK, anchor="start", fontSize=13)
    )


def _data(told: Iterable[Mapping[str, Any]]) -> alt.InlineData:
    # Columns have names of ours by now: Vega would take some of a user's for paths.
    return alt.InlineData(
        values=[{name: _plain(value) for name, value in row.items()} for row in told]
    )


def _listed(rows: Rows) -> list[dict[str, Any]]:
    if isinstance(rows, Sequence):
        return [dict(row) for row in rows]
    listed: list[dict[str, Any]] = pa.table(rows).to_pylist()
    return listed


def _plain(value: Any) -> Any:
    if isinstance(value, date):  # a datetime is one, too
        return _utc(value).isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _utc(moment: date) -> datetime:
    if not isinstance(moment, datetime):
        return datetime.combine(moment, time.min, UTC)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
