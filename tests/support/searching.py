"""What searches are tried with: events of one text, small indexes, and an embedder of words."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence

from google.adk.events import Event
from google.genai import types

from lakestore.search.index import Index, Ranking
from lakestore.tables import memory
from lakestore.tables.memory import MemoryRow
from lakestore.tables.words import searchable_words
from tests.support.memories import row_of

SIZE = 64


def said(name: str, text: str, *, author: str = "user", at: float = 0.0) -> Event:
    """Return an event of that id with that text."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=name, author=author, content=content, timestamp=at)


def rows_of_texts(*texts: str, session_id: str = "s", first: int = 1) -> list[MemoryRow]:
    """Return rows with these texts, whose ids are `e1` and so on."""
    return [
        row_of(said(f"e{number}", text), number, session_id)
        for number, text in enumerate(texts, first)
    ]


def index_of(ranking: Ranking, rows: Sequence[MemoryRow]) -> Index:
    """Return an index of these rows."""
    index = ranking.index()
    index.add(memory.to_table(rows))
    return index


def found(ranking: Ranking, index: Index, query: str, limit: int = 10) -> list[str]:
    """Return the ids of what is found."""
    return [hit.key[1] for hit in ranking.rank([index], query, limit)]


def hashed(texts: Iterable[str]) -> list[list[float]]:
    """Return vectors by the hashes of words: texts that share words are near to each other."""
    vectors = []
    for text in texts:
        vector = [0.0] * SIZE
        for word in searchable_words(text):
            vector[zlib.crc32(word.encode()) % SIZE] += 1
        length = math.sqrt(sum(number * number for number in vector)) or 1.0
        vectors.append([number / length for number in vector])
    return vectors
