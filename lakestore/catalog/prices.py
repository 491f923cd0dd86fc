"""Prices of models' tokens as the user gives them: a mapping, rows, or a table of any library.

Owns what a price table may look like. No price is known here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from lakestore.checks import check_time
from lakestore.errors import InputError

KINDS = ("prompt", "output", "cached", "thought", "tool_use")
"""Kinds of tokens that have a price."""

_DEFAULTS = {"cached": "prompt", "thought": "output", "tool_use": "prompt"}
_COLUMNS = ("model", "since", *KINDS)

SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("is_prefix", pa.bool_()),
        pa.field("since", pa.timestamp("us", tz="UTC")),
        *(pa.field(kind, pa.float64()) for kind in KINDS),
    ]
)
"""One row a price: of the models of this name, or whose names begin so, from `since` on; money
for one token of each kind."""

_EVER = datetime.min.replace(tzinfo=UTC)


@runtime_checkable
class Tabular(Protocol):
    """A table of pandas, polars, Arrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Prices: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Tabular
"""What a price table may be."""


def price_table(prices: Prices, per: float = 1_000_000) -> pa.Table:
    """Return prices in `SCHEMA`.

    Args:
        prices: Of each model, by its name as `model_version` has it, the price of `prompt` and
            `output` tokens, and where they differ from these of `cached`, `thought` and
            `tool_use`. `{"model": {"prompt": 0.3, "output": 2.5}}`, or rows, or a table, with a
            column `model`. A name that ends with `*` is for all models that begin so; the longest
            counts. With `since`, a date or datetime, or such in ISO 8601, it holds from then on.
        per: How many tokens the prices are for.

    Raises:
        InputError: it is none of these, a price is missing or no amount, or one is there twice.
    """
    if not _is_amount(per) or per <= 0:
        raise InputError("per is how many tokens the prices are for, such as 1_000_000")
    rows = [_priced(row, float(per)) for row in _rows(prices)]
    names = [(row["name"], row["is_prefix"], row["since"]) for row in rows]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"a model has two prices for one time. model={twice[0][0]!r}")
    return pa.Table.from_pylist(rows, SCHEMA)


def _rows(prices: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(prices, Mapping):
        for model, given in prices.items():
            for row in [given] if isinstance(given, Mapping) else _each(given):
                yield {"model": model, **row}
    elif isinstance(prices, Tabular):
        yield from pa.table(prices).to_pylist()
    else:
        yield from _each(prices)


def _each(rows: object) -> Iterable[Mapping[str, Any]]:
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise InputError(
            'prices are {"model": {"prompt": 0.3, "output": 2.5}}, rows or a table of that.'
            f" type={type(rows).__name__}"
        )
    listed = list(rows)
    if not all(isinstance(row, Mapping) for row in listed):
        raise InputError("each row of prices is a mapping with the key model")
    return listed


def _priced(row: Mapping[str, Any], per: float) -> dict[str, Any]:
    model = row.get("model")
    if not isinstance(model, str) or not model:
        raise InputError("each price names its model, as model_version has it")
    if "*" in model[:-1]:
        raise InputError(f"a name has a star at its end alone, for all that begin so. {model=}")
    _check_kinds(model, row)
    made: dict[str, Any] = {"name": model.removesuffix("*"), "is_prefix": model.endswith("*")}
    made["since"] = _since(model, row.get("since"))
    for kind in KINDS:
        made[kind] = _amount(model, kind, row.get(kind), made.get(_DEFAULTS.get(kind, "")), per)
    return made


def _check_kinds(model: str, row: Mapping[str, Any]) -> None:
    unknown = [name for name in row if name not in _COLUMNS]
    if not unknown:
        return
    whole, inner = model, row
    # [a.1] in TOML is a table 1 in a table a.
    while name := next((name for name in inner if isinstance(inner[name], Mapping)), None):
        whole, inner = f"{whole}.{name}", inner[name]
    if inner is not row:
        hint = f'a name with a dot is quoted in TOML, as ["{whole}"]'
        raise InputError(f"prices of a model hold a table: {hint}. {model=}")
    raise InputError(f"prices have no such kind. {model=} {unknown=} kinds={list(KINDS)}")


def _amount(model: str, kind: str, given: object, default: float | None, per: float) -> float:
    if given is None or (isinstance(given, float) and math.isnan(given)):
        if default is None:
            raise InputError(f"a price is missing. {model=} {kind=}")
        return default
    if not _is_amount(given):
        raise InputError(f"a price is an amount of money, 0 or more. {model=} {kind=}")
    return float(given) / per  # type: ignore[arg-type]  # looked at by _is_amount


def _is_amount(given: object) -> bool:
    return (
        isinstance(given, int | float | Decimal)
        and not isinstance(given, bool)
        and math.isfinite(given)
        and given >= 0
    )


def _since(model: str, given: object) -> datetime:
    if given is None or given != given:  # pandas' NaT equals nothing
        return _EVER
    moment = _read(given) if isinstance(given, str) else given
    if isinstance(moment, date) and not isinstance(moment, datetime):
        return datetime.combine(moment, time.min, UTC)
    if not isinstance(moment, datetime):
        raise InputError(
            "since is a date, as 2026-03-01, or a datetime with a zone, as 2026-03-01T12:00:00Z."
            f" {model=} type={type(given).__name__}"
        )
    check_time(f"since of {model!r}", moment)
    return moment.astimezone(UTC)


def _read(text: str) -> date | None:
    """Return the date or datetime that a text in ISO 8601 stands for; None for any other."""
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(text.strip())
        except ValueError:
            continue
    return None
