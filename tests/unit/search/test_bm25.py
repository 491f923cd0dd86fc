"""`bm25` scores as the textbook says, in every script, and finds every word by itself."""

from __future__ import annotations

import bm25s
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakestore.errors import InputError
from lakestore.search.analysis import Analyzer
from lakestore.search.bm25 import K1, B, Bm25
from lakestore.search.filters import filter_of
from tests.support.scripts import texts
from tests.support.searching import found, index_of, rows_of_texts

WORDS = st.lists(st.sampled_from(["tea", "cup", "green", "kettle", "pot"]), min_size=1, max_size=8)


@given(documents=st.lists(WORDS, min_size=1, max_size=8), query=WORDS)
def test_scores_are_those_of_the_formula(documents: list[list[str]], query: list[str]) -> None:
    """Scores equal those of the library bm25s with the same parameters and Lucene's weights.

    The library leaves out the constant factor that all scores have in common.
    """
    ranking = Bm25(language=None)
    index = index_of(ranking, rows_of_texts(*(" ".join(words) for words in documents)))
    ours = {hit.key[1]: hit.score for hit in ranking.rank([index], " ".join(query))}

    library = bm25s.BM25(method="lucene", k1=K1, b=B)
    library.index(documents, show_progress=False)
    known = [word for word in sorted(set(query)) if any(word in one for one in documents)]
    theirs = library.get_scores(known) if known else np.zeros(len(documents))
    assert ours == pytest.approx(
        {f"e{n}": (K1 + 1) * score for n, score in enumerate(theirs, 1) if score > 0}, rel=1e-5
    )


def test_what_a_filter_leaves_out_still_tells_what_is_rare() -> None:
    """A filter changes which memories count, not their scores."""
    ranking = Bm25()
    index = index_of(
        ranking,
        [*rows_of_texts("green tea", "tea"), *rows_of_texts("tea", session_id="t", first=3)],
    )
    whole = {hit.key: hit.score for hit in ranking.rank([index], "green tea")}
    part = ranking.rank([index], "green tea", 10, filter_of(session_ids=["s"]))
    assert {hit.key: hit.score for hit in part} == {
        key: score for key, score in whole.items() if key[0] == "s"
    }


# R097
@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("東京でJavaを学ぶ", ["Java", "学ぶ", "東京", "京で", "学", "京"]),
        ("부산에 살아요", ["부산", "부산에", "살아요"]),
        ("สวัสดีครับคุณสมชาย", ["สวัสดี", "คุณ", "สมชาย"]),
        ("مرحبا بك في القاهرة", ["مرحبا", "القاهرة"]),
        ("मैं हिन्दी सीखता हूँ", ["हिन्दी", "सीखता"]),
        ("ਮੈਨੂੰ ਪੰਜਾਬੀ ਆਉਂਦੀ ਹੈ", ["ਪੰਜਾਬੀ"]),
        ("Die Straße am Café", ["straße", "STRAßE", "cafe\u0301", "CAFÉ"]),
        ("running shoes", ["running", "run", "shoes", "shoe", "RUNS"]),
        ("Какие книги", ["Какие", "книги"]),
        ("le loyer", ["loyer"]),
        ("snake_case in x²", ["snake_case", "x²"]),
    ],
)
def test_every_script_is_found(text: str, queries: list[str]) -> None:
    """A word is found in every script; a part of a word that blanks end is none."""
    ranking = Bm25()
    index = index_of(ranking, rows_of_texts(text, "something else", "별다른 것", "他の話"))

    assert [found(ranking, index, query) for query in queries] == [["e1"]] * len(queries)
    assert found(ranking, index, "ava") == []


@given(text=texts(10), language=st.sampled_from([None, "english", "german", "russian", "arabic"]))
@example("the who", "english")
@example("Какие", "russian")
def test_every_word_finds_its_text(text: str, language: str | None) -> None:
    """Whatever the language, each word of a text finds it: stems and stop words hide none."""
    ranking = Bm25(language)
    index = index_of(ranking, rows_of_texts(text, "x"))
    # As words of ours are: with their marks.
    words = [term for term in text.split() if any(map(str.isalnum, term))]

    assert all("e1" in found(ranking, index, word) for word in words)


def test_stop_words_do_not_choose() -> None:
    """Words that say little count for nothing, unless there is nothing else to go by."""
    ranking = Bm25("english")
    index = index_of(ranking, rows_of_texts("what did the", "a refund for the lamp", "lamp"))

    assert found(ranking, index, "what did the refund do") == ["e2"]
    assert found(ranking, index, "the") == ["e1", "e2"]
    assert "e1" not in found(ranking, index, "don't the refund lamp")


def test_endings_are_those_of_the_language() -> None:
    """Stems follow the language, and without one only exact words are found."""
    rows = rows_of_texts("chevaux", "running", "Häuser")
    by_language = {language: Bm25(language) for language in ("french", "english", "german", None)}

    def finds(query: str) -> list[str | None]:
        return [
            language
            for language, ranking in by_language.items()
            if found(ranking, index_of(ranking, rows), query)
        ]

    assert (finds("cheval"), finds("runs"), finds("Haus")) == (["french"], ["english"], ["german"])
    assert finds("running") == list(by_language)


@pytest.mark.parametrize("language", ["klingon", "", "EN", 7])
def test_an_unknown_language_is_refused(language: str) -> None:
    """A language that nobody knows the endings of is an InputError that names those known."""
    with pytest.raises(InputError, match=r'language.*"english"'):
        Bm25(language)


def test_every_language_of_snowball_is_known() -> None:
    """Each has a stemmer, most of the larger ones a list of stop words."""
    assert Analyzer("tamil").query("the") == ["the"]
    assert Analyzer("french").query("je ne suis pas un cheval") == ["cheval"]
