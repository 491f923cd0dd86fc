"""Rows of `memory`: what is refused, and what their text is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakestore.errors import FormatError
from lakestore.tables import memory
from lakestore.tables.memory import place_of
from lakestore.tables.thin import content_text
from tests.support.memories import stamp
from tests.support.searching import rows_of_texts


def test_a_kind_that_nobody_knows_is_refused() -> None:
    """A newer version may forget in other ways: taking such a row for an add would undo it."""
    rows = [replace(row, kind="hide") for row in rows_of_texts("tea")]  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="hide"):
        memory.decode(memory.encode(rows))


def test_thoughts_are_text_only_when_asked_for() -> None:
    """What the model thought to itself is not searched by default."""
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True},
        {"text": "Hello"},
        {"functionCall": {}},
    ]
    assert content_text(parts) == "Hello"
    assert content_text(parts, thoughts=True) == "hm\nHello"
    assert content_text(parts[:1]) is None


def test_places_compare_as_texts() -> None:
    """What was added later stands later, within an entry too."""
    places = [place_of(stamp(1), 2), place_of(stamp(1), 10), place_of(stamp(2), 0)]
    assert places == sorted(places)


def test_a_row_shows_nothing_of_people() -> None:
    """Ids and content are not in the repr, which ends up in logs."""
    row = replace(rows_of_texts("a secret")[0], user_id="ana", session_id="ana's", author="ana")
    assert not {"ana", "secret", "e1"} & set(repr(row).replace("'", " ").split())
