"""Search over events and memories as SQL shows them. Owns which indexes are kept, and how fresh.

What is found, and in what order, is `lakestore.search`'s; what there is is the catalog's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, Literal, get_args

import pyarrow as pa

from lakestore.catalog import Catalog, Relation
from lakestore.checks import check_choice, check_number, check_text
from lakestore.history.cache import ByteCache
from lakestore.log.ids import check_id
from lakestore.retrieval.rankings import RankingName, ranking_of
from lakestore.retrieval.sources import SOURCES, Source
from lakestore.search.analysis import Analyzer
from lakestore.search.embedding import Embedder, embed
from lakestore.search.filters import Filter, filter_of
from lakestore.search.index import Hit, Index, Ranking
from lakestore.search.snippets import snippet
from lakestore.tables.words import searchable_words

Over = Literal["events", "memory"]

_BATCH_ROWS = 8_192
_EMBEDDED_AT_ONCE = 1_024


@dataclass(frozen=True, slots=True)
class Question:
    """What `lake.search` is asked, checked."""

    query: str = field(repr=False)
    app_name: str = field(repr=False)
    user_id: str | None = field(repr=False)
    """None for all users of the app."""
    source: Source
    ranking: RankingName
    embedder: Embedder | None
    language: str | None
    limit: int
    where: Filter


def question_of(
    query: object,
    app_name: str,
    user_id: str | None,
    over: object,
    ranking: Any,
    embedder: Embedder | None,
    language: str | None,
    limit: object,
    since: datetime | float | None,
    until: datetime | float | None,
    session_ids: Iterable[str] | None,
    authors: Iterable[str] | None,
    metadata: Mapping[str, object] | None,
) -> Question:
    """Return these arguments of `lake.search` as a question.

    Raises:
        InputError: one of them makes no sense.
    """
    ranking_of(ranking, embedder, language)
    return Question(
        check_text("query", query),
        check_id("app_name", app_name),
        None if user_id is None else check_id("user_id", user_id),
        SOURCES[check_choice("over", over, get_args(Over)), bool(metadata)],
        ranking,
        embedder,
        language,
        check_number("limit", limit, least=1),
        filter_of(since, until, session_ids, authors, metadata),
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """An index, and what it was made of."""

    ranking: Ranking
    index: Index
    revision: int
    """What the catalog showed then; see `Catalog.revision`."""
    nbytes: int
    """About how many bytes of memory it takes."""
    embedder: Embedder | None
    """Held, so that no other one has its identity."""


class Searches:
    """Answers questions from indexes that it keeps. Safe to use from many threads."""

    def __init__(self, cache_bytes: int) -> None:
        """Keep indexes of so many bytes, and a single larger one."""
        self._cache: ByteCache[tuple[object, ...], Kept] = ByteCache(cache_bytes, keeps_larger=True)
        self._lock = Lock()

    def answer(self, catalog: Catalog, asked: Question) -> Relation:
        """Return what is found in a catalog that was just refreshed, the best first."""
        with self._lock:  # of two who ask for the same index the second one waits for it
            kept = [self._kept(catalog, asked, part) for part in asked.source.parts(asked.user_id)]
        indexes = [one.index for one in kept]
        hits = kept[0].ranking.rank(indexes, asked.query, asked.limit, asked.where)
        return catalog.relation(_table(asked, hits))

    def _kept(self, catalog: Catalog, asked: Question, part: str) -> Kept:
        """Return the index of one part of what is searched, as the catalog is now."""
        user = asked.user_id if "$user" in part else None
        how = (asked.ranking, asked.language, id(asked.embedder))
        key = (asked.source, part, asked.app_name, user, *how)
        revision, known = catalog.revision, self._cache.get(key)
        if known is not None and known.revision == revision:
            return known
        params: dict[str, Any] = {"app": asked.app_name}
        if user is not None:
            params["user"] = user
        rows = asked.source.rows(part)
        if known is None:
            ranking = ranking_of(asked.ranking, asked.embedder, asked.language)()
            index = ranking.index()
        else:
            ranking, index = known.ranking, known.index
            with index.lock:
                held = {index.rows.keys[number] for number in index.rows.numbers()}
            names = catalog.sql(f"SELECT session_id, id FROM ({rows})", params).fetchall()
            index.remove(held.difference(names))
            rows = f"FROM ({rows}) WHERE id IN (SELECT unnest($new::VARCHAR[]))"
            params = {**params, "new": [name for _, name in set(names).difference(held)]}
        for batch in catalog.sql(rows, params).to_arrow_reader(_BATCH_ROWS):
            index.add(_completed(batch, asked))
        made = Kept(ranking, index, revision, index.nbytes, asked.embedder)
        self._cache.put(key, made)
        return made


def _completed(batch: pa.RecordBatch, asked: Question) -> pa.Table:
    """Return rows with the words and vectors that their ranking asks for."""
    table = asked.source.typed(pa.Table.from_batches([batch]))
    texts = [text or "" for text in table["text"].to_pylist()]
    if asked.ranking == "overlap" and asked.source.lacks_words:
        table = _with(table, "words", [sorted(searchable_words(text)) for text in texts])
    if asked.ranking == "hybrid" and asked.source.lacks_words and asked.embedder is not None:
        vectors = [one for some in _portions(texts) for one in embed(asked.embedder, some)]
        table = _with(table, "embedding", vectors)
    return table


def _with(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


def _portions(texts: list[str]) -> Iterator[list[str]]:
    for first in range(0, len(texts), _EMBEDDED_AT_ONCE):
        yield texts[first : first + _EMBEDDED_AT_ONCE]


def _table(asked: Question, hits: list[Hit]) -> pa.Table:
    analyzer, rows = Analyzer(asked.language), []
    for hit in hits:
        text = hit.values["text"] or ""
        found = {"score": hit.score, "snippet": snippet(text, asked.query, analyzer)}
        known = {**hit.values, "session_id": hit.key[0]}
        rows.append(known | found | asked.source.named(json.loads(hit.key[1])))
    schema = asked.source.answer
    columns = [
        pa.array([row[name] for row in rows], schema.field(name).type) for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)
