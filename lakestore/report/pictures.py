"""Charts as pictures in a page: SVG in the page's own width, light and dark, for wide and narrow.

A picture in an `img` can neither run a script nor reach the network, whatever ids are drawn in it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from io import StringIO
from typing import Any

from lakestore.report.colours import DARK

WIDE, NARROW = 560, 340
"""Widths in which each chart is drawn, in pixels; letters are as large in both."""

_LEGEND_COLUMN = 170
"""What an entry of a legend takes, in pixels."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that is drawn."""

    title: str
    """What it shows."""
    alt: str
    """The same for those who cannot see it."""
    wide: str
    """A data URL of it for a desk."""
    narrow: str
    """A data URL of it for a hand."""


def picture(chart: Any, title: str, alt: str) -> Picture:
    """Draw a chart of `lakestore.report.charts`.

    Raises:
        ImportError: what draws is not installed.
    """
    wide, narrow = (_url(_svg(chart, width)) for width in (WIDE, NARROW))
    return Picture(title, alt, wide, narrow)


def _svg(chart: Any, width: int) -> str:
    drawn = StringIO()
    fitted = chart.properties(
        width=width, background="transparent", autosize={"type": "fit-x", "contains": "padding"}
    )
    fitted = fitted.copy()
    fitted.config.legend.columns = width // _LEGEND_COLUMN
    try:
        fitted.save(drawn, format="svg")
    except (ImportError, ValueError) as error:
        if "vl-convert" not in str(error):
            raise
        raise ImportError("pictures need vl-convert: pip install 'lakestore[report]'") from error
    return re.sub(r"(?<=>)", f"<style>{_style()}</style>", drawn.getvalue(), count=1)


def _style() -> str:
    dark = "".join(
        f'[fill="{light}"]{{fill:{other}}}[stroke="{light}"]{{stroke:{other}}}'
        for light, other in DARK.items()
    )
    return f"@media (prefers-color-scheme:dark){{{dark}}}"


def _url(svg: str) -> str:
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
