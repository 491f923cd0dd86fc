"""Terms of texts for `bm25`: words of any script, their stems, and pieces of unspaced writing.

Owns what counts as a term, the same for texts and queries. Stems and lists of stop words are
PyStemmer's and bm25s'.
"""

from __future__ import annotations

import re
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import Stemmer

from lakestore.checks import check_choice
from lakestore.tables.words import folded

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its progress bar, which misses widgets in some notebooks
    import bm25s.stopwords

# Han, kana, Hangul (whose particles stick to words), Thai, Lao, Tibetan, Burmese and Khmer.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf"
    "\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f"
    "\U00020000-\U000323af]+)"
)
_VOCABULARY = 200_000
"""How many words' terms are remembered."""

_STOP_WORDS = {
    "english": bm25s.stopwords.STOPWORDS_EN_PLUS,
    "danish": bm25s.stopwords.STOPWORDS_DANISH,
    "dutch": bm25s.stopwords.STOPWORDS_DUTCH,
    "french": bm25s.stopwords.STOPWORDS_FRENCH,
    "german": bm25s.stopwords.STOPWORDS_GERMAN,
    "italian": bm25s.stopwords.STOPWORDS_ITALIAN,
    "norwegian": bm25s.stopwords.STOPWORDS_NORWEGIAN,
    "portuguese": bm25s.stopwords.STOPWORDS_PORTUGUESE,
    "russian": bm25s.stopwords.STOPWORDS_RUSSIAN,
    "spanish": bm25s.stopwords.STOPWORDS_SPANISH,
    "swedish": bm25s.stopwords.STOPWORDS_SWEDISH,
    "turkish": bm25s.stopwords.STOPWORDS_TURKISH,
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What a word, or a text, is found by."""

    all: tuple[str, ...]
    """As often as they come, in their order."""
    telling: tuple[str, ...]
    """What a query looks for: without stop words, and without single letters of a run."""


class Analyzer:
    """Takes texts apart, in one language; safe to be used by several threads.

    Every word of a text is a term, as its stem; stop words too, so that a query of nothing else
    finds them. Scripts without blanks give pairs of letters, and letters.
    """

    def __init__(self, language: str | None = "english") -> None:
        """Make one.

        Args:
            language: Whose endings are taken off, and whose stop words are passed over: a name
                that Snowball knows, such as "german". None: neither is done.

        Raises:
            InputError: the language is not known.
        """
        if language is not None:
            check_choice("language", language, Stemmer.algorithms())
        self._stemmer = None if language is None else Stemmer.Stemmer(language, 0)
        self._lock = threading.Lock()
        words = _STOP_WORDS.get(language or "", ())
        self._stop_words = frozenset(part for word in words for part in _words(folded(word)))
        self._of_word = lru_cache(_VOCABULARY)(self._take_apart)

    def terms(self, text: str) -> Terms:
        """Return the terms of a text."""
        found = [self._of_word(word) for word in _words(folded(text))]
        return Terms(
            tuple(term for word in found for term in word.all),
            tuple(term for word in found for term in word.telling),
        )

    def query(self, query: str) -> list[str]:
        """Return the terms to look for, each once: the telling ones, all if there are none."""
        found = self.terms(query)
        return sorted(set(found.telling or found.all))

    def places(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Yield the terms of a text, which is composed (NFC), with where each begins and ends."""
        for word in _word().finditer(text):
            begin = word.start()
            for number, run in enumerate(_UNSPACED.split(word[0])):
                if number % 2:
                    for offset, letter in enumerate(run):
                        yield letter, begin + offset, begin + offset + 1
                        yield run[offset : offset + 2], begin + offset, begin + offset + 2
                else:
                    for term in self._of_word(run.lower()).all if run else ():
                        yield term, begin, begin + len(run)
                begin += len(run)

    def _take_apart(self, word: str) -> Terms:
        if word in self._stop_words:
            return Terms((word,), ())
        terms: list[str] = []
        telling: list[str] = []
        for number, run in enumerate(_UNSPACED.split(word)):
            if number % 2:
                pairs = ["".join(pair) for pair in pairwise(run)]
                telling += pairs or [run]
                terms += [*pairs, *run]
            elif run:
                telling.append(self._stem(run))
                terms.append(telling[-1])
        return Terms(tuple(terms), tuple(telling))

    def _stem(self, word: str) -> str:
        if self._stemmer is None:
            return word
        with self._lock:  # a stemmer keeps the word that it works on
            stem: str = self._stemmer.stemWord(word)
        return stem


def _words(text: str) -> list[str]:
    # No mark is plain ASCII, and to look for them takes several times as long.
    found: list[str] = (_PLAIN_WORD if text.isascii() else _word()).findall(text)
    return found


_PLAIN_WORD = re.compile(r"\w+", re.ASCII)


@cache
def _word() -> re.Pattern[str]:
    r"""Return what a word is: letters, digits and `_`, with the marks that belong to them.

    `\w` leaves marks out, of which vowels are made in Thai and in the scripts of India.
    """
    marks = [
        letter
        for letter in map(chr, range(0x300, 0x1F000))
        if unicodedata.category(letter).startswith("M")
    ]
    return re.compile(f"[\\w{''.join(marks)}]+")
