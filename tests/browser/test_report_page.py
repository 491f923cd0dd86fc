"""A report in a real browser: wide and narrow, light and dark, for ears and for hands."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from lakestore import Lake
from lakestore.demo.histories import history, write_history
from lakestore.report import report_page
from lakestore.storage import MemoryStore
from tests.support.browsers import chromium
from tests.support.odd_lakes import fill_oddly

pytestmark = pytest.mark.browser

END = datetime(2026, 3, 30, 12, tzinfo=UTC)
PRICES = {"scripted-*": {"prompt": 1.0, "output": 3.0}}
DESK, HAND = 1280, 390
TITLE = "What the agents did"

Scheme = Literal["light", "dark"]
Show = Callable[..., Page]


def _usual(lake: Lake) -> None:
    write_history(lake, history(sessions=15, seed=3, days=21, until=END))


FILLS: dict[str, Callable[[Lake], None]] = {
    "usual": _usual,
    "odd": fill_oddly,
    "empty": lambda lake: None,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of a usual, an odd and an empty lake."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: folder / f"{name}.html" for name in FILLS}
    for name, page in found.items():
        with Lake(MemoryStore()) as lake:
            FILLS[name](lake)
            page.write_text(report_page(lake, prices=PRICES), "utf-8")
    return found


@pytest.fixture
def show(browser: Browser, pages: dict[str, Path]) -> Iterator[Show]:
    """Opens a page; afterwards nothing may have been asked of a network, or gone wrong in it."""
    asked: list[str] = []
    wrong: list[str] = []
    contexts = []

    def open_page(name: str, width: int, scheme: Scheme = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.goto(pages[name].as_uri(), wait_until="load")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert wrong == []


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("width", [DESK, HAND])
def test_nothing_lies_beside_the_page(show: Show, name: str, width: int) -> None:
    """The page is as wide as the window: only a table scrolls sideways, within itself."""
    page = show(name, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, HAND])
def test_it_is_accessible(show: Show, name: str, scheme: Scheme, width: int) -> None:
    """axe-core has nothing to say, with all tables open."""
    page = show(name, width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [DESK, HAND])
def test_pictures_are_drawn_for_the_width(show: Show, width: int) -> None:
    """Each picture is there, and its letters are shown at nine tenths of their size or more."""
    page = show("usual", width)
    sizes = page.evaluate(
        "[...document.images].map(image => [image.naturalWidth, image.clientWidth])"
    )
    assert len(sizes) == 8
    assert [size for size in sizes if not size[0] or size[1] < 0.9 * size[0]] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_are_as_dark_as_the_page(show: Show, scheme: Scheme) -> None:
    """In the dark the letters of a picture are bright, on the dark page; else dark on bright."""
    page = show("usual", DESK, scheme)
    photograph = page.locator("img").first.screenshot()
    encoded = base64.b64encode(photograph).decode()
    least, most, ground = page.evaluate(_DOTS, f"data:image/png;base64,{encoded}")
    if scheme == "dark":
        assert ground < 40
        assert most > 150
    else:
        assert ground > 240
        assert least < 100


def test_ids_that_are_markup_do_nothing(show: Show) -> None:
    """A script in an id is shown, and did not run."""
    page = show("odd", DESK)
    assert page.title() == TITLE
    assert page.locator("script, td img, b[onclick]").count() == 0
    assert page.get_by_text("<script>").count() > 5


# How bright dots of a photograph are, 0 to 255: the darkest, the brightest, one of the ground.
_DOTS = """async url => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = image.width; canvas.height = image.height;
  const drawing = canvas.getContext('2d');
  drawing.drawImage(image, 0, 0);
  const dots = drawing.getImageData(0, 0, canvas.width, canvas.height).data;
  let least = 255, most = 0;
  for (let at = 0; at < dots.length; at += 4) {
    least = Math.min(least, dots[at]); most = Math.max(most, dots[at]);
  }
  return [least, most, dots[0]];
}"""
