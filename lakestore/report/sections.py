"""What stands in a report: answers as figures, pictures and tables, in order. Owns the words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lakestore.report import charts, words
from lakestore.report.answers import Answers, Row, Rows
from lakestore.report.pictures import Picture, picture
from lakestore.shell.text import clip, plural, visible

_LONGEST = 120
"""Letters of an id or a message that are shown."""
_NAMES = 12
"""So many names of prices and models are told."""
_TOO_EARLY = "All users came within one week; who comes again is to be seen."
_PERCENTILES = {"p50": "half of them", "p90": "90 %", "p99": "99 %"}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the overview."""

    name: str
    value: str
    note: str = ""
    """What it needs to be understood."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    show: Callable[[Row], str]
    """What stands in it."""
    kind: Literal["number", "time", "text"] = "number"
    """What it is: numbers stand to the right, and only texts are broken into lines."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as they are shown."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    folded: bool = False
    """Whether it is closed until someone asks: the numbers of a picture."""
    beside: bool = False
    """Whether it is narrow enough to stand beside a picture."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page under one heading."""

    key: str
    """What links lead to."""
    title: str
    parts: Sequence[Picture | Table]
    note: str = ""
    """How to read it."""
    empty: str = ""
    """What it says when it has no parts."""


def figures(has: Row, priced: bool) -> list[Figure]:
    """Return the overview, of what `Answers.overview` has."""
    half = f"half take {words.seconds(has['p50'])} or less"
    told = [
        Figure("sessions", words.count(has["sessions"])),
        Figure("users", words.count(has["users"]), f"of {plural(has['apps'], 'app')}"),
        Figure("events", words.count(has["events"])),
        Figure("turns", words.count(has["turns"]), half),
        Figure("model answers", words.count(has["calls"])),
        Figure("tokens", words.short_count(has["tokens"])),
        Figure("tool calls", words.count(has["tool_calls"]), _failed(has)),
    ]
    if priced:
        unpriced = has["unpriced"]
        note = f"without {plural(unpriced, 'answer')} of unknown cost" if unpriced else ""
        told.append(Figure("cost", words.money(has["cost"]), note))
    return told


def sections(answers: Answers, priced: bool) -> Iterator[Section]:
    """Yield the parts of a report that has something to show."""
    yield _activity(answers)
    yield _models(answers, priced)
    yield _durations(answers)
    yield _tools(answers)
    yield _errors(answers)
    yield _returning(answers)
    yield _largest(answers)


def _failed(has: Row) -> str:
    calls = has["tool_calls"]
    return f"{words.percent(has['tool_failures'] / calls)} failed" if calls else ""


def _activity(answers: Answers) -> Section:
    rows, step = answers.activity(), answers.step
    parts: list[Picture | Table] = []
    if rows:
        turns = charts.bars(rows, "turns", step=step)
        visits = charts.lines(rows, {"users": "users", "sessions": "sessions"}, step=step)
        shown = (_day(step), _count("turns"), _count("users"), _count("sessions"))
        parts = [
            _drawn(turns, f"Turns by {step}", rows, "turns"),
            _drawn(visits, f"Users and sessions by {step}", rows, "sessions"),
            _table(f"Activity by {step}", rows, shown, folded=True),
        ]
    return Section("activity", "Activity", parts, empty="No event says when it happened.")


def _models(answers: Answers, priced: bool) -> Section:
    models = answers.models()
    parts: list[Picture | Table] = []
    if models:
        rows, step = answers.tokens(), answers.step
        order = _in_order(rows, "model")
        parts = list(_by_model(rows, order, step, "tokens", "~s", "Tokens"))
        if priced:
            parts += _by_model(rows, order, step, "cost", ",.3~r", "Cost")
        parts.append(_table("Models, by tokens", models, _model_columns(priced)))
        shown = (_day(step), _text("model"), _count("tokens"), *_money(priced))
        parts.append(_table(f"Tokens by {step} and model", rows, shown, folded=True))
    note = (
        "Tokens are those that models reported. Cached ones are part of the prompt."
        + (" Money is in the currency of the prices that were given." * priced)
        + (_prices(answers) if priced else "")
    )
    return Section("models", "Tokens and models", parts, note, "No model answered.")


def _prices(answers: Answers) -> str:
    """Return which models have no price, and which prices are of no model."""
    told = ""
    for what, names in (
        ("No price was given for", answers.models_without_price()),
        ("No model here is called, as in the prices,", answers.prices_without_model()),
    ):
        shown = [clip(visible(name), _LONGEST) for name in names[:_NAMES]]
        more = [f"{len(names) - _NAMES:,} more"] if len(names) > _NAMES else []
        told += f" {what} {', '.join([*shown, *more])}." if names else ""
    return told


def _by_model(
    rows: Rows, order: list[str], step: Any, value: str, form: str, what: str
) -> Iterator[Picture]:
    if any(row[value] for row in rows):
        chart = charts.bars(rows, value, by="model", step=step, form=form, order=order)
        yield _drawn(chart, f"{what} by {step} and model", rows, value)


def _model_columns(priced: bool) -> tuple[Column, ...]:
    return (
        _text("model"),
        _count("calls", "answers"),
        _short("prompt"),
        _short("cached"),
        Column("from cache", lambda row: words.percent(row["hit_rate"])),
        _short("output"),
        _short("thought", "thoughts"),
        _short("tokens", "all tokens"),
        *_money(priced),
    )


def _durations(answers: Answers) -> Section:
    rows, apps = answers.durations(), answers.durations_of_apps()
    parts: list[Picture | Table] = []
    if rows:
        chart = charts.durations(rows, _PERCENTILES, step=answers.step)
        title = f"Turns that took no longer than this, by {answers.step}"
        times = tuple(_seconds(key, f"{key[1:]} %") for key in _PERCENTILES)
        shown = (_text("app_name", "app"), _count("turns"), *times, _seconds("longest"))
        parts = [
            _drawn(chart, title, rows, "p90", words.seconds),
            _table("Turns of each app", apps, shown, beside=True),
            _table(title, rows, (_day(answers.step), _count("turns"), *times), folded=True),
        ]
    speeds = answers.speeds()
    if speeds:
        parts.append(_table("Models, how fast, as far as measured", speeds, _SPEED_COLUMNS))
    note = (
        "From the first to the last event of a turn, on a logarithmic scale. Turns with a call that"
        " waits for people are left out."
    )
    return Section("durations", "How long turns take", parts, note, "No turn says when it was.")


def _tools(answers: Answers) -> Section:
    tools, failures, step = answers.tools(), answers.failures(), answers.step
    parts: list[Picture | Table] = []
    failing = [row for row in tools if row["failures"]]
    if failing:
        failing = sorted(failing, key=lambda row: -row["failure_rate"])[:12]
        rates = charts.ranking(failing, "tool", "failure_rate", form=charts.PERCENT)
        title = "Calls that fail, by tool"
        parts.append(_drawn(rates, title, failing, "failure_rate", words.percent))
    if failures:
        order = _in_order(failures, "tool")
        chart = charts.bars(failures, "failures", by="tool", step=step, order=order)
        parts.append(_drawn(chart, f"Failed calls by {step} and tool", failures, "failures"))
    if tools:
        took = (_seconds("took", "tool itself, half of them"),)
        shown = _TOOL_COLUMNS + took * any(row["took"] is not None for row in tools)
        parts.append(_table(_top("Tools, by calls", tools), tools, shown))
    if failures:
        by_step = (_day(step), _text("tool"), _count("failures"))
        parts.append(_table(f"Failed calls by {step} and tool", failures, by_step, folded=True))
    note = "The gap is the time from a call to the answer that settled it."
    return Section("tools", "Tools", parts, note, "No tool was called.")


def _errors(answers: Answers) -> Section:
    rows = answers.errors()
    title = _top("Errors, by how often they came", rows)
    parts = [_table(title, rows, _ERROR_COLUMNS)] if rows else []
    note = "Of models and runs, and what tools say of themselves."
    return Section("errors", "Errors", parts, note, "Nothing went wrong.")


def _returning(answers: Answers) -> Section:
    rows = answers.cohorts()
    parts: list[Picture | Table] = []
    if rows:
        title = "Users who came again, by the week in which they first came"
        shown = _drawn(charts.cohorts(rows), title, rows, "share", words.percent)
        table = _table(title, rows, _COHORT_COLUMNS, folded=True)
        parts = [shown, table]
    note = (
        "A line is the users who first came in the week that begins on that Monday, how many in"
        " brackets; a field is which part of them came so many weeks later."
    )
    return Section("returning", "Returning users", parts, note, _TOO_EARLY)


def _largest(answers: Answers) -> Section:
    rows = answers.largest_sessions()
    parts = [_table("Sessions with the most events", rows, _SESSION_COLUMNS)]
    return Section("sessions", "Largest sessions", parts)


def _drawn(
    chart: Any, title: str, rows: Rows, value: str, show: Callable[[Any], str] = words.count
) -> Picture:
    """Draw a chart, and say what a glance at it would."""
    values = [row[value] for row in rows if row[value] is not None]
    alt = f"Chart: {title}."
    if values:
        alt += f" The highest value is {show(max(values))}. A table with the numbers follows."
    return picture(chart, title, alt)


def _table(caption: str, rows: Rows, columns: Iterable[Column], **how: bool) -> Table:
    listed = tuple(columns)
    shown = [[column.show(row) for column in listed] for row in rows]
    return Table(caption, listed, shown, **how)


def _top(caption: str, rows: Rows) -> str:
    of = rows[0]["all"] if rows else 0
    return f"{caption}: the first {len(rows)} of {of:,}" if of > len(rows) else caption


def _in_order(rows: Rows, key: str) -> list[str]:
    places = {row[key]: row["place"] for row in rows}
    return sorted(places, key=lambda name: places[name])


def _text(key: str, name: str = "") -> Column:
    def show(row: Row) -> str:
        return words.NOTHING if row[key] is None else clip(visible(str(row[key])), _LONGEST)

    return Column(name or key, show, kind="text")


def _count(key: str, name: str = "") -> Column:
    return Column(name or key, lambda row: words.count(row[key]))


def _short(key: str, name: str = "") -> Column:
    return Column(name or key, lambda row: words.short_count(row[key]))


def _seconds(key: str, name: str = "") -> Column:
    return Column(name or key, lambda row: words.seconds(row[key]))


def _moment(key: str, name: str) -> Column:
    return Column(name, lambda row: words.moment(row[key]), "time")


def _day(step: str) -> Column:
    name = "day" if step == "day" else f"{step} from"
    return Column(name, lambda row: words.day(row["day"]), "time")


def _money(priced: bool) -> tuple[Column, ...]:
    return (Column("cost", lambda row: words.money(row["cost"])),) if priced else ()


_TOOL_COLUMNS = (
    _text("tool"),
    _count("calls"),
    _count("failures"),
    Column("failed", lambda row: words.percent(row["failure_rate"])),
    _count("pending"),
    _seconds("p50", "gap, half of them"),
    _seconds("p95", "gap, 95 %"),
)
_SPEED_COLUMNS = (
    _text("model"),
    _count("answers"),
    _seconds("first", "first piece, half of them"),
    _seconds("p50", "whole answer, half of them"),
    _seconds("p95", "95 %"),
)
_ERROR_COLUMNS = (
    _count("times"),
    _text("source"),
    _text("of"),
    _text("code"),
    _text("message"),
    _moment("last", "last"),
)
_COHORT_COLUMNS = (
    Column("first week", lambda row: words.day(row["cohort"]), "time"),
    _count("cohort_users", "users"),
    _count("weeks_later", "weeks later"),
    _count("users", "came again"),
    Column("share", lambda row: words.percent(row["share"], 0)),
)
_SESSION_COLUMNS = (
    _text("session_id", "session"),
    _text("app_name", "app"),
    _text("user_id", "user"),
    _count("events"),
    _short("tokens"),
    _moment("first", "first event"),
    _moment("last", "last event"),
)
