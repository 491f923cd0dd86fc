"""A snippet is the part of a text that shows why it was found."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.search.analysis import Analyzer
from lakestore.search.snippets import snippet
from tests.support.scripts import texts

ENGLISH = Analyzer()
FILLER = "one two three four five six seven eight nine ten " * 20


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        (FILLER + "he was running late " + FILLER, "run", "running"),
        (FILLER + "tea " + FILLER + "green tea " + FILLER, "green tea", "green tea"),
        (FILLER + "cafe\u0301 " + FILLER, "CAFÉ", "café"),
        ("話" * 300 + "東京でJavaを学ぶ" + "話" * 300, "学ぶ", "学ぶ"),
        ("話" * 300 + "猫" + "話" * 300, "猫", "猫"),
    ],
)
def test_it_shows_what_was_found(text: str, query: str, shown: str) -> None:
    """The part with the most words of the query is shown, whatever script it is in."""
    part = snippet(text, query, ENGLISH, 60)
    assert shown in part
    assert part.startswith("…")
    assert part.endswith("…")
    assert len(part) <= 62


def test_a_short_text_is_shown_whole() -> None:
    """What fits is shown as one line; without a word of the query the beginning is."""
    assert snippet("a\n b\t c ", "x", ENGLISH) == "a b c"
    assert snippet(FILLER, "zebra", ENGLISH, 20) == "one two three four…"


@given(text=texts(40) | st.text(max_size=200), query=texts(3), width=st.integers(1, 60))
def test_it_is_a_part_of_the_text(text: str, query: str, width: int) -> None:
    """Nothing is shown that is not in the text, and no more than asked for."""
    part = snippet(text, query, ENGLISH, width)
    line = " ".join(unicodedata.normalize("NFC", text).split())
    assert part.removeprefix("…").removesuffix("…") in line
    assert len(part) <= width + 2
