"""The page: what was asked and found, in one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from lakestore.lake import Lake
from lakestore.report import words
from lakestore.report.answers import Answers
from lakestore.report.colours import DARK, GRID, INK, MUTED, PAPER, SERIES
from lakestore.report.pictures import NARROW, WIDE
from lakestore.report.sections import figures, sections
from lakestore.report.selection import Selection
from lakestore.shell.text import shown_url, visible

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
except ImportError as error:
    raise ImportError("a report needs Jinja2: pip install 'lakestore[report]'") from error

_COLOURS = {"paper": PAPER, "ink": INK, "muted": MUTED, "grid": GRID, "link": SERIES[0]}


def report_page(
    lake: Lake,
    selection: Selection | None = None,
    *,
    title: str | None = None,
    prices: Any = None,
) -> str:
    """Return what happened in a lake as one page of HTML, which needs no network and no script.

    Args:
        lake: The lake.
        selection: Which part of it; None for all.
        title: The page's heading.
        prices: What models cost, as `Lake.set_prices` takes it; the lake keeps to it afterwards.

    Raises:
        ImportError: `lakestore[report]` is not installed.
        InputError: the prices make no sense.
        StorageError: the store failed.
    """
    chosen = selection or Selection()
    if prices is not None:
        lake.set_prices(prices)
    given = lake.tried(lambda: _given(lake, chosen))
    return _render(
        title=visible(title or "What the agents did"),
        place=visible(_place(lake.url)),
        chosen=_told(chosen),
        made=words.moment(datetime.fromtimestamp(lake.clock.wall(), UTC)),
        **given,
    )


def _given(lake: Lake, chosen: Selection) -> Mapping[str, Any]:
    with closing(Answers(lake, chosen)) as answers:
        has = answers.overview()
        priced = answers.has_prices()
        return {
            "figures": figures(has, priced),
            "sections": list(sections(answers, priced)) if has["events"] else [],
            "first": words.moment(has["first"]),
            "last": words.moment(has["last"]),
        }


def _place(url: str) -> str:
    """Return where a lake is for people elsewhere: of a folder its name alone."""
    is_bucket = "://" in url and not url.startswith("file://")
    return shown_url(url) if is_bucket else url.rstrip("/").rpartition("/")[2] or url


def _told(selection: Selection) -> Mapping[str, str]:
    told = {}
    if selection.app_name is not None:
        told["app"] = visible(selection.app_name)
    if selection.since is not None:
        told["since"] = words.moment(selection.since)
    if selection.until is not None:
        # People name the last minute that counts, not the first that does not.
        told["until"] = words.moment(selection.until - timedelta(microseconds=1))
    return told


def _render(**names: Any) -> str:
    environment = Environment(
        loader=PackageLoader("lakestore.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    light = dict(_COLOURS)
    dark = {name: DARK[colour] for name, colour in light.items()}
    page = environment.get_template("page.html")
    return page.render(light=light, dark=dark, wide=WIDE, narrow=NARROW, **names)
