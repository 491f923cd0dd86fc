"""Words are what ADK's InMemoryMemoryService takes for words."""

from __future__ import annotations

from google.adk.memory import in_memory_memory_service as adk
from hypothesis import example, given
from hypothesis import strategies as st

from lakestore.tables.words import folded, query_words, searchable_words
from tests.support.scripts import texts


@given(text=texts(12) | st.text())
@example("私はPythonを使う")
@example("İstanbul'da ΣΑΣ")
@example("\u0130\u0307")
def test_words_are_those_of_adk(text: str) -> None:
    """What is looked for, and what a text is found by, is the same as in ADK 2.13."""
    assert query_words(text) == adk._extract_words_lower(text)
    assert searchable_words(text) == adk._extract_searchable_words(text)


def test_a_latin_word_among_others_is_a_word() -> None:
    """A Latin word inside of Japanese is found, a part of it is not."""
    assert searchable_words("東京でJavaを学ぶ") == {"東京でjavaを学ぶ", "東京で", "java", "を学ぶ"}


@given(text=texts())
def test_folding_again_changes_nothing_of_words(text: str) -> None:
    """The words of a folded text are looked for as they are."""
    assert all(folded(word) == word for word in query_words(folded(text)))
