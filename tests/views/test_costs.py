"""Money: what the user says a token costs, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from io import StringIO
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakestore import Lake
from lakestore.errors import InputError
from lakestore.storage import MemoryStore
from tests.support.lake_builder import a_log

PRICES = {"small-*": {"prompt": 1.0, "output": 4.0}, "large": {"prompt": 10, "output": 40}}


@pytest.fixture
def store() -> MemoryStore:
    """The lake's store."""
    return MemoryStore()


@pytest.fixture
def lake(store: MemoryStore) -> Iterator[Lake]:
    """A lake on it."""
    with Lake(store) as opened:
        yield opened


def used(
    prompt: int | None, output: int | None, total: int | None = None, **more: int
) -> dict[str, Any]:
    """Return usage metadata."""
    return {
        "usageMetadata": {
            "promptTokenCount": prompt,
            "candidatesTokenCount": output,
            "totalTokenCount": total,
            **more,
        }
    }


def costs(lake: Lake) -> list[float | None]:
    """Return what each answer cost, in order, in millionths of a unit of money."""
    found = lake.sql("select cost * 1000000 from costs order by version").fetchall()
    return [None if cost is None else round(cost, 6) for (cost,) in found]


def test_tokens_times_prices(store: MemoryStore, lake: Lake) -> None:
    """Prices are for a million tokens; cached ones are part of the prompt and have their own."""
    log = a_log(store).create()
    log.say("a", model_version="small-1", **used(100, 10, 110))
    log.say("b", model_version="large", **used(100, 10, 110, cachedContentTokenCount=60))
    lake.set_prices(PRICES)
    assert costs(lake) == [140.0, 1400.0]
    lake.set_prices({**PRICES, "large": {"prompt": 10, "output": 40, "cached": 1}})
    assert costs(lake) == [140.0, 400.0 + 60.0 + 400.0]
    lake.set_prices({"large": {"prompt": 10, "output": 40}}, per=1_000)
    assert costs(lake) == [None, 1_400_000.0]


def test_thoughts_are_paid_once(store: MemoryStore, lake: Lake) -> None:
    """Beside the output or within it: the total says where a model counts its thoughts."""
    log = a_log(store).create()
    log.say("beside", model_version="large", **used(100, 10, 160, thoughtsTokenCount=50))
    log.say("within", model_version="large", **used(100, 60, 160, thoughtsTokenCount=50))
    log.say("no total", model_version="large", **used(100, 10, thoughtsTokenCount=50))
    log.say("tools too", model_version="large", **used(100, 10, 190, thoughtsTokenCount=50))
    lake.set_prices({"large": {"prompt": 10, "output": 40, "thought": 20, "tool_use": 1}})
    assert costs(lake) == [2400.0, 3400.0, 2400.0, 2430.0]


def test_what_is_not_known_costs_null(store: MemoryStore, lake: Lake) -> None:
    """Without a price, a model or counts there is no cost, and sums say what is known."""
    log = a_log(store).create()
    log.say("a", model_version="small-1", **used(100, 10, 110))
    log.say("b", model_version="other", **used(100, 10, 110))
    log.say("c", **used(100, 10, 110))
    log.say("d", model_version="small-1")
    assert costs(lake) == [None] * 4
    lake.set_prices(PRICES)
    assert costs(lake) == [140.0, None, None, None]
    query = "select model, count(*) from costs where cost is null group by model order by model"
    assert lake.sql(query).fetchall() == [("other", 1), ("small-1", 1), (None, 1)]


def test_the_most_exact_name_counts(store: MemoryStore, lake: Lake) -> None:
    """A full name before the longest beginning, that before shorter ones."""
    log = a_log(store).create()
    for model in ("m", "m-1", "m-1-x", "m*"):
        log.say(model, model_version=model, **used(1, 0, 1))
    prices = {"*": 1, "m-*": 2, "m-1-*": 3, "m-1": 4}
    lake.set_prices({name: {"prompt": price, "output": 0} for name, price in prices.items()})
    assert costs(lake) == [1.0, 4.0, 3.0, 1.0]


def test_prices_change(store: MemoryStore, lake: Lake) -> None:
    """Each answer is paid at the price of its day; before the first price there is none."""
    log = a_log(store).create()
    for day in ("2025-12-31 23:59:59", "2026-01-01 00:00:00", "2026-03-02 00:00:00"):
        at = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
        log.say(day, at=at, model_version="m", **used(1, 0, 1))
    log.say("no time", at=None, model_version="m", **used(1, 0, 1))
    first = {"since": date(2026, 1, 1), "prompt": 2, "output": 0}
    later = {"since": datetime(2026, 3, 1, tzinfo=UTC), "prompt": Decimal("1.5"), "output": 0}
    lake.set_prices({"m": [first, later]})
    assert costs(lake) == [None, 2.0, 1.5, None]
    lake.set_prices({"m": [{"prompt": 5, "output": 0}, later]})
    assert costs(lake) == [5.0, 5.0, 1.5, 5.0]


_ROWS = [
    {"model": "small-*", "prompt": 1.0, "output": 4.0, "cached": None},
    {"model": "large", "prompt": 10.0, "output": 40.0, "cached": 2.5},
]


@pytest.mark.parametrize(
    "table",
    [_ROWS, pd.DataFrame(_ROWS), pl.DataFrame(_ROWS), pa.Table.from_pylist(_ROWS)],
    ids=["rows", "pandas", "polars", "arrow"],
)
def test_a_table_of_any_library(store: MemoryStore, lake: Lake, table: Any) -> None:
    """Prices may be rows or a frame; empty cells count as not given."""
    log = a_log(store).create().say("a", model_version="small-9", **used(10, 1, 11))
    log.say("b", model_version="large", **used(10, 1, 11, cachedContentTokenCount=4))
    lake.set_prices(table)
    assert costs(lake) == [14.0, 60.0 + 10.0 + 40.0]


@pytest.mark.parametrize(
    "prices",
    [
        "free",
        5,
        None,
        {"m": 5},
        {"m": {"prompt": 1}},
        {"m": {"prompt": 1, "output": -1}},
        {"m": {"prompt": 1, "output": "2"}},
        {"m": {"prompt": 1, "output": True}},
        {"m": {"prompt": 1, "output": float("inf")}},
        {"m": {"prompt": 1, "output": 2, "input": 3}},
        {"": {"prompt": 1, "output": 2}},
        [{"prompt": 1, "output": 2}],
        [{"model": "m", "prompt": 1, "output": 2}] * 2,
        {"a*b": {"prompt": 1, "output": 2}},
        {"**": {"prompt": 1, "output": 2}},
        {"m": {"prompt": 1, "output": 2, "since": "2026-01-01T12:00:00"}},
        {"m": {"prompt": 1, "output": 2, "since": datetime(2026, 1, 1)}},  # noqa: DTZ001
    ],
)
def test_what_is_no_price_is_refused(store: MemoryStore, lake: Lake, prices: Any) -> None:
    """A wrong table is one error, and the prices from before stay."""
    a_log(store).create().say("a", model_version="small-1", **used(100, 10, 110))
    lake.set_prices(PRICES)
    with pytest.raises(InputError):
        lake.set_prices(prices)
    assert costs(lake) == [140.0]


@pytest.mark.parametrize(
    "prices",
    [
        {"m": {"since": "2026-01-01", "prompt": 1, "output": 0}},
        [{"model": "m", "since": "2026-01-01T01:00:00+01:00", "prompt": 1, "output": 0}],
        pd.read_csv(StringIO("model,since,prompt,output\nm,2026-01-01,1,0\nother,,1,0\n")),
    ],
    ids=["dict", "rows", "csv"],
)
def test_since_may_be_text(store: MemoryStore, lake: Lake, prices: Any) -> None:
    """JSON and CSV know no dates: ISO 8601 stands for them."""
    log = a_log(store).create()
    for day in ("2025-12-31 23:59:59", "2026-01-01 00:00:00"):
        at = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
        log.say(day, at=at, model_version="m", **used(1, 0, 1))
    lake.set_prices(prices)
    assert costs(lake) == [None, 1.0]


@pytest.mark.parametrize(
    ("prices", "says"),
    [
        ({"gpt-5": {"1": {"prompt": 1, "output": 2}}}, r"""quoted in TOML, as \["gpt-5\.1"\]"""),
        ({"m-1": {"5": {"1-x": {"prompt": 1}}}}, r"""as \["m-1\.5\.1-x"\]"""),
        ({"m": {"promt": 1, "output": 2}}, r"no such kind\. model='m' unknown=\['promt'\]"),
        ({"m": {"prompt": 1, "output": 2, "since": "May"}}, "since is a date.* model='m'"),
        ({"m": {"prompt": 1, "output": 2, "since": "2026-05-01T00:00"}}, "since of 'm' needs a"),
    ],
)
def test_a_refusal_names_the_model(lake: Lake, prices: Any, says: str) -> None:
    """Of many prices one is wrong: which one is said, and how it is written."""
    with pytest.raises(InputError, match=says):
        lake.set_prices(prices)


@pytest.mark.parametrize("per", [0, -1, float("nan"), True, "million"])
def test_per_is_a_number_of_tokens(lake: Lake, per: Any) -> None:
    """A price for no tokens is none."""
    with pytest.raises(InputError):
        lake.set_prices(PRICES, per=per)


def test_connections_show_the_same_prices(store: MemoryStore, lake: Lake) -> None:
    """Prices reach connections that are open, those to come, and lakes that only read."""
    a_log(store).create().say("a", model_version="small-1", **used(100, 10, 110))
    early = lake.connect()
    lake.set_prices(PRICES)
    late = lake.connect()
    query = "select round(cost * 1000000) from costs"
    assert early.sql(query).fetchall() == late.sql(query).fetchall() == [(140.0,)]
    assert lake.scan("costs", ["cost"]).read_all().num_rows == 1
    with Lake(store, read_only=True) as reader:
        assert costs(reader) == [None]
        reader.set_prices(PRICES)
        assert costs(reader) == [140.0]
