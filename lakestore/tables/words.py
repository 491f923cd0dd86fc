"""The words of a text, by the rule of ADK's InMemoryMemoryService, so that searches agree.

Owns the rule, which a stored byte follows from: the column `words` of `memory`. What is found by
words is the business of `lakestore.search`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import groupby

_WORD = re.compile(r"\w+")


def folded(text: str) -> str:
    """Return `text` as it is compared: composed (NFC), in lower case."""
    return unicodedata.normalize("NFC", text).lower()


def query_words(query: str) -> set[str]:
    """Return what is looked for: runs of letters, digits and `_`, in lower case."""
    if query.isascii():
        return set(_WORD.findall(query.lower()))
    found = _WORD.findall(unicodedata.normalize("NFC", query))
    # Not the other way round: the lower case of one letter may be several characters, and not
    # all of them letters.
    return {word.lower() for word in found}


def searchable_words(text: str) -> set[str]:
    """Return what a text is found by: its `query_words`, and the runs of mixed ones.

    A word that mixes Latin letters with others is found by each run as well, since Chinese and
    Japanese put no blanks around a Latin word. A part of a run is no word.
    """
    words = query_words(text)
    if text.isascii():
        return words
    mixed = [word for word in words if not word.isascii()]
    words.update("".join(run) for word in mixed for _, run in groupby(word, _is_latin))
    return words


@lru_cache(maxsize=16_384)
def _is_latin(letter: str) -> bool:
    if letter.isascii():
        return letter.isalnum() or letter == "_"
    return unicodedata.name(letter, "").startswith("LATIN")
