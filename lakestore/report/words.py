"""Numbers and times as people read them. No HTML, no SQL."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal, TypeAlias

Step: TypeAlias = Literal["day", "week", "month", "year"]
"""What a bar or a point of a chart over time stands for."""

NOTHING = "\N{EN DASH}"
"""What stands where nothing is known."""


def count(value: float | None) -> str:
    """Return a number with its thousands apart."""
    return NOTHING if value is None else f"{value:,.0f}"


def short_count(value: float | None) -> str:
    """Return a number in at most five letters, as 12.3 M."""
    if value is None:
        return NOTHING
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and unit != "k"):
            scaled = value / size
            return f"{scaled:.1f} {unit}" if scaled < 100 else f"{scaled:,.0f} {unit}"
    return f"{value:,.0f}"


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share as percent, rounded as charts round it: halves up, no zeros at the end."""
    if value is None:
        return NOTHING
    rounded = Decimal(value * 100).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    text = f"{rounded:f}"
    return (text.rstrip("0").rstrip(".") if digits else text) + "%"


def money(value: float | None) -> str:
    """Return an amount; small ones with as many digits as tell something."""
    if value is None:
        return NOTHING
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.2g}"


def seconds(value: float | None) -> str:
    """Return a time in the unit that fits it."""
    if value is None:
        return NOTHING
    if value < 60:
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    if value < 3_600:
        return f"{value / 60:.1f} min"
    return f"{value / 3_600:.1f} h" if value < 172_800 else f"{value / 86_400:.1f} days"


def moment(value: datetime | None) -> str:
    """Return a time to the minute, in UTC."""
    return NOTHING if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def day(value: datetime | None) -> str:
    """Return a day, in UTC."""
    return NOTHING if value is None else f"{value.astimezone(UTC):%Y-%m-%d}"
