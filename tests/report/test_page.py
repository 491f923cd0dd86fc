"""What a report's page says, and that it needs and runs nothing."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.adk.events.event import Event

from lakestore import Lake, LakeSessionService
from lakestore.demo.histories import history, write_history
from lakestore.errors import InputError
from lakestore.report import Selection, report_page
from lakestore.report.answers import Answers
from lakestore.report.sections import figures
from lakestore.report.words import NOTHING
from lakestore.storage import MemoryStore
from tests.support.measured import measured, put
from tests.support.odd_lakes import MARKUP, NOON, QUOTED, fill_oddly
from tests.support.pages import Page, read_page

END = datetime(2026, 3, 30, 12, tzinfo=UTC)
PRICES = {"scripted-*": {"prompt": 1.0, "output": 3.0}}
PARTS = [
    "Activity",
    "Tokens and models",
    "How long turns take",
    "Tools",
    "Errors",
    "Returning users",
    "Largest sessions",
]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """The report of a small history, with prices."""
    with Lake(MemoryStore()) as lake:
        write_history(lake, history(sessions=25, seed=3, days=30, until=END))
        yield read_page(report_page(lake, title="Spring", prices=PRICES))


@pytest.fixture
def lake() -> Iterator[Lake]:
    """An empty lake."""
    with Lake(MemoryStore()) as lake:
        yield lake


def pictures(page: Page) -> list[str]:
    """The SVG of each picture of a page, in both widths."""
    head = "data:image/svg+xml;base64,"
    found = [url for url in page.refers if url.startswith(head)]
    return [base64.b64decode(url.removeprefix(head)).decode() for url in found]


def test_it_has_all_parts(page: Page) -> None:
    """Overview, activity, tokens, durations, tools, errors, returning users, largest sessions."""
    links = [text for text in page.text if text in PARTS]
    assert links[: len(PARTS)] == PARTS
    assert page.refers[: len(PARTS)] == [f"#{key}" for key in page.ids]
    assert page.headings == PARTS
    for figure in ("sessions", "users", "events", "turns", "tokens", "cost"):
        assert figure in page.text
    assert "Spring" in page.text
    assert len(pictures(page)) == 2 * 8


def test_it_needs_nothing(page: Page) -> None:
    """All it refers to is a part of itself, or a picture that it brings; nothing in it runs."""
    assert {url for url in page.refers if not url.startswith(("#", "data:image/"))} == set()
    assert page.handlers == []
    assert "script" not in page.tags
    assert all("href" not in svg and "<script" not in svg for svg in pictures(page))


def test_times_have_a_zone(page: Page) -> None:
    """Whatever time of day is told, it is told to be UTC."""
    times = [text for text in page.text if ":" in text and "2026-" in text]
    assert times
    assert [text for text in times if "UTC" not in text] == []


def test_names_are_shown_and_never_obeyed(lake: Lake) -> None:
    """Ids, names and messages that are markup stand there as they are, in tables and pictures."""
    fill_oddly(lake)
    page = read_page(report_page(lake, title=MARKUP))
    assert "script" not in page.tags
    assert page.tags.count("img") == len(pictures(page)) / 2
    assert page.handlers == []
    assert "cost" not in page.text, "there are no prices"
    shown = [text for text in page.text if text in (MARKUP, QUOTED)]
    assert len(shown) >= 10
    assert all("<script" not in svg and "<b " not in svg for svg in pictures(page))


def test_an_empty_lake_says_so(lake: Lake) -> None:
    """A lake without events has no pictures, but a word for whoever opens the page."""
    LakeSessionService(lake).sync.create_session(app_name="shop", user_id="ana")
    page = read_page(report_page(lake))
    assert any(text.startswith("This lake has no events yet") for text in page.text)
    assert pictures(page) == []


def test_a_selection_without_events_says_so(lake: Lake) -> None:
    """What was asked for stands on the page, also when nothing is within it."""
    fill_oddly(lake)
    since = datetime.fromtimestamp(NOON, UTC) + timedelta(days=400)
    page = read_page(report_page(lake, Selection(MARKUP, since)))
    assert any(text.startswith("No event of this lake is within") for text in page.text)
    assert MARKUP in page.text
    assert f"{since:%Y-%m-%d %H:%M} UTC" in page.text


def test_parts_without_rows_say_so(lake: Lake) -> None:
    """A lake in which nobody called a tool, answered or failed has a sentence for each of these."""
    service = LakeSessionService(lake).sync
    session = service.create_session(app_name="shop", user_id="ana")
    service.append_event(session, Event(author="user", invocation_id="i", timestamp=NOON))
    text = read_page(report_page(lake)).text
    for sentence in ("No model answered.", "No tool was called.", "Nothing went wrong."):
        assert sentence in text


def test_prices_that_fit_no_model(page: Page) -> None:
    """Answers whose cost is not known are counted beside the cost."""
    (note,) = (text for text in page.text if text.endswith("of unknown cost"))
    with Lake(MemoryStore()) as lake:
        fill_oddly(lake)
        lake.set_prices({"other": {"prompt": 1, "output": 1}})
        answers = Answers(lake, Selection())
        *_, cost = figures(answers.overview(), priced=True)
        answers.close()
    assert note != cost.note
    assert (cost.value, cost.note) == (NOTHING, "without 4 answers of unknown cost")


def test_prices_and_models_that_do_not_meet_are_named(lake: Lake) -> None:
    """The page says which models have no price, and which prices are of no model."""
    write_history(lake, history(sessions=3, seed=3, days=3, until=END))
    price = {"prompt": 1, "output": 1}
    prices = {"scripted-smal-*": price, "scripted-small-1": price}
    page = read_page(report_page(lake, prices=prices))
    (note,) = (text for text in page.text if text.startswith("Tokens are those"))
    assert "No price was given for scripted-small-2." in note
    assert "No model here is called, as in the prices, scripted-smal-*." in note


def test_what_was_measured_is_told(lake: Lake) -> None:
    """How fast models and tools are stands there where telemetry knows, and nowhere else."""
    write_history(lake, history(sessions=3, seed=3, days=3, until=END))
    title, head = "Models, how fast, as far as measured", "tool itself, half of them"
    before = read_page(report_page(lake)).text
    assert title not in before
    assert head not in before
    place = "app_name, user_id, session_id, version, invocation_id"
    names = [*place.split(", "), "event_id", "duration_us", "first_token_us"]
    asked = f"select {place}, event_id, 2500000, 500000 from llm_calls order by version limit 1"
    (answer,) = lake.sql(asked).fetchall()
    used = f"select {place}, call_id from tool_calls order by version limit 1"
    (call,) = lake.sql(used).fetchall()
    of_tool = dict(zip([*place.split(", "), "call_id"], call, strict=True))
    put(
        lake,
        measured(**dict(zip(names, answer, strict=True))),
        measured(kind="tool", duration_us=7_300_000, **of_tool),
    )
    text = read_page(report_page(lake)).text
    assert {"0.5 s", "2.5 s"} <= set(text[text.index(title) :][:12])
    assert "7.3 s" in text[text.index(head) :]


def test_a_page_tells_no_path(tmp_path: Path) -> None:
    """Of a folder only the name is told: pages are sent to people elsewhere."""
    with Lake.open(str(tmp_path / "garden")) as lake:
        fill_oddly(lake)
        html = report_page(lake)
    assert "garden" in html
    assert str(tmp_path) not in html


@pytest.mark.parametrize(
    ("since", "until"),
    [(END, END), (END, END - timedelta(days=1)), (END.replace(tzinfo=None), None)],
)
def test_times_that_make_no_sense_are_refused(since: datetime, until: datetime | None) -> None:
    """`until` comes after `since`, and both have a zone."""
    with pytest.raises(InputError, match="since"):
        Selection(since=since, until=until)


@pytest.mark.parametrize("missing", ["altair", "jinja2"])
def test_what_is_missing_is_named(missing: str) -> None:
    """Without the extra, the import says how to install it; `import lakestore` needs none of it."""
    code = f"import sys; sys.modules[{missing!r}] = None\nimport lakestore\nimport lakestore.report"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'lakestore[report]'" in done.stderr.splitlines()[-1]
