"""`lakestore report` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakestore import Lake
from lakestore.catalog import price_table
from lakestore.cli import main
from lakestore.report import read_prices
from lakestore.shell.options import Moment
from tests.support.odd_lakes import MARKUP, fill_oddly
from tests.support.pages import read_page


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A lake with two sessions, of 2023-11-15 and 16."""
    folder = str(tmp_path / "lake")
    with Lake.open(folder) as lake:
        fill_oddly(lake)
    return folder


def run(*arguments: str | Path) -> Result:
    """Run the command as the shell would."""
    return CliRunner().invoke(main, ["report", *(str(argument) for argument in arguments)])


def test_it_writes_a_page(url: str, tmp_path: Path) -> None:
    """The page tells what was asked for, and the command where it is and how large."""
    page, prices = tmp_path / "page.html", tmp_path / "prices.toml"
    prices.write_text('["<script*"]\nprompt = 1000\noutput = 0\n', "utf-8")
    asked: list[str | Path] = ["--title", "Autumn & more", "--prices", prices, "--app", MARKUP]
    told = run(url, "-o", page, *asked, "--since", "2023-11-15T12:00:01", "--until", "2023-11-15")
    assert told.exit_code == 0, told.output
    assert told.output.startswith(f"wrote {page}, ")
    text = read_page(page.read_text("utf-8")).text
    for said in ("Autumn & more", MARKUP, "2023-11-15 12:00 UTC", "2023-11-15 23:59 UTC"):
        assert said in text
    assert text[text.index("events") + 1] == "2"
    assert text[text.index("cost") + 1] == "2.40", "two answers to 1,200 tokens"


def test_nothing_to_tell_is_a_page_too(url: str, tmp_path: Path) -> None:
    """Where nothing is within what was asked for, the page says so, and all is well."""
    page = tmp_path / "page.html"
    assert run(url, "-o", page, "--since", "2024-01-01").exit_code == 0
    assert "No event of this lake" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "ends", "moment"),
    [
        ("2023-11-15", False, datetime(2023, 11, 15, tzinfo=UTC)),
        ("2023-11-15", True, datetime(2023, 11, 16, tzinfo=UTC)),
        ("2023-11-15T12:30", True, datetime(2023, 11, 15, 12, 30, tzinfo=UTC)),
        ("2023-11-15T12:30+01:00", False, datetime(2023, 11, 15, 11, 30, tzinfo=UTC)),
    ],
)
def test_times_are_days_or_moments(text: str, ends: bool, moment: datetime) -> None:
    """A day counts from its beginning to its end; a time without a zone is UTC."""
    assert Moment(ends=ends).convert(text, None, None) == moment


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.toml", '["<script*"]\nprompt = 1000\noutput = 0\n'),
        ("p.toml", '[[price]]\nmodel = "<script*"\nprompt = 1000\noutput = 0\n'),
        ("p.json", json.dumps({"<script*": {"prompt": 1000, "output": 0}})),
        ("p.json", json.dumps([{"model": "<script*", "prompt": 1000, "output": 0}])),
    ],
)
def test_prices_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    """TOML and JSON, by name or as rows, are prices as `set_prices` takes them."""
    prices = tmp_path / name
    prices.write_text(text, "utf-8")
    (price,) = price_table(read_prices(prices)).to_pylist()
    assert (price["name"], price["is_prefix"], price["prompt"]) == ("<script", True, 0.001)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--app", "nobody"], "there is no app 'nobody' in this lake"),
        (["--since", "2023-11-16", "--until", "2023-11-15"], "until must be after since"),
        (["--since", "yesterday"], "a time is written as"),
        (["--until", "9999-12-31"], "a time is written as"),
        (["--since", "2024-01-01", "-o", "no/folder/page.html"], "cannot write no/folder/page"),
    ],
)
def test_what_makes_no_sense_is_refused(url: str, options: list[str], says: str) -> None:
    """One line says what is wrong, and nothing is written."""
    told = run(url, *options)
    assert told.exit_code in (1, 2)
    assert says in told.stderr
    assert not Path("report.html").exists()


def test_without_the_extra_it_says_what_to_install(url: str, tmp_path: Path) -> None:
    """Where what draws is missing, one line says how to get it."""
    code = "import sys; sys.modules['altair'] = None; from lakestore.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "report", url], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 1
    told = "Error: charts need Altair: pip install 'lakestore[report]'\n"
    assert done.stderr.decode() == told
    assert list(tmp_path.glob("*.html")) == []


def test_a_dot_in_a_name_needs_quotes(url: str, tmp_path: Path) -> None:
    """In TOML `[m.1]` is a table in a table: the line says how the name is written."""
    prices = tmp_path / "prices.toml"
    prices.write_text("[gpt-5.1]\nprompt = 0.1\noutput = 0.4\n", "utf-8")
    told = run(url, "-o", tmp_path / "page.html", "--prices", prices)
    assert 'a name with a dot is quoted in TOML, as ["gpt-5.1"]' in told.stderr


@pytest.mark.parametrize("text", ["{", '{"m": {"prompt": 1}}', "[1]", '{"m": 3}', "\udc80"])
def test_prices_that_cannot_be_read_are_refused(url: str, tmp_path: Path, text: str) -> None:
    """A file that is no price table is refused in one line."""
    prices = tmp_path / "prices.json"
    prices.write_bytes(text.encode("utf-8", "surrogateescape"))
    told = run(url, "-o", tmp_path / "page.html", "--prices", prices)
    assert told.exit_code == 1
    assert told.stderr.startswith("Error: ")
    assert len(told.stderr.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()
