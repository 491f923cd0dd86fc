"""Putting memories in place of others, in one manifest: readers see the old ones or the new ones.

Owns which rows stay, which are put aside and which come. What forgets and erases have ended stays
ended, whichever is brought back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import groupby

from lakestore.errors import ConflictError
from lakestore.history.archive import MEMORY, PREVIOUS, Archive, Kind, Place
from lakestore.history.erased import origin_digest
from lakestore.jobs.run_files import Runs, RunWriter
from lakestore.log.manifests import Manifest
from lakestore.tables import memory
from lakestore.tables.erased import ErasedRow
from lakestore.tables.memory import MemoryRow

SHOWN_MOST = 20
"""How many memories a comparison names."""


@dataclass(frozen=True, slots=True)
class Swap:
    """What is to be in place of what."""

    base: Manifest
    """The newest manifest before the new rows were made; its runs may be gone since."""
    user_id: str | None
    """Whose memory; None for all users'."""
    rows: Callable[[], Iterator[MemoryRow]]
    """Returns the new rows, ascending by place; it may be called again."""
    replaces: Callable[[MemoryRow], bool]
    """Whether an add of the scope that was there is replaced."""
    marker: MemoryRow | None
    """What stands for the swap among what was put aside, if anything does."""
    puts_aside: bool
    """Whether what is replaced is put aside; else it goes for good."""
    erased: Mapping[str, ErasedRow]
    """What was erased by then, by digest."""
    was_there: Callable[[MemoryRow], bool] = lambda _: True
    """Whether a row was packed by then; what was packed since was remembered since."""
    check_rows: Callable[[], None] = lambda: None
    """Raises `ConflictError` where not all of `rows` is there any more."""

    def is_of(self, row: MemoryRow) -> bool:
        """Tell whether a row is of the scope: of the user, or of any."""
        return self.user_id is None or row.user_id == self.user_id

    def is_erased_since(self, user_id: str, erased: Mapping[str, ErasedRow]) -> bool:
        """Tell whether a user is among `erased` since: no clock tells, for two may disagree."""
        digest = origin_digest(self.base.app_name, user_id, "")
        return erased.get(digest) != self.erased.get(digest)

    def check(self, newest: Manifest, erased: Mapping[str, ErasedRow]) -> None:
        """Refuse where another swap, or the erasure of its only user, has come between.

        Raises:
            ConflictError: one was published since `base`, or what was drafted was deleted.
        """
        self.check_rows()
        if self.user_id is not None and self.is_erased_since(self.user_id, erased):
            raise ConflictError(f"the user was erased meanwhile. app_name={newest.app_name!r}")
        if newest.table(PREVIOUS.name) != self.base.table(PREVIOUS.name):
            raise ConflictError(
                "another rebuild or restore of this app's memories was published meanwhile: run"
                f" this again. app_name={newest.app_name!r}"
            )


@dataclass(slots=True)
class Met:
    """What is at one place."""

    packed: MemoryRow | None = None
    """What is packed by now."""
    new: MemoryRow | None = None


@dataclass(slots=True)
class Comparison:
    """How the new memories differ from those that they are in place of."""

    before: int = 0
    """How many are replaced."""
    after: int = 0
    """How many come."""
    changed: int = 0
    """How many of both have one id and one session, and say something else."""
    appeared: int = 0
    """How many come that were not there."""
    vanished: int = 0
    """How many go that do not come again."""
    appeared_first: list[str] = field(default_factory=list, repr=False)
    """What those that appeared say, of the first of them."""
    vanished_first: list[str] = field(default_factory=list, repr=False)
    """What those that vanished say, of the first of them."""

    def note(self, old: MemoryRow | None, new: MemoryRow | None) -> None:
        """Count what goes from a place, and what comes there."""
        self.before += old is not None
        self.after += new is not None
        if old is not None and new is not None:
            self.changed += old.text != new.text
        elif new is not None:
            self.appeared += 1
            _name(self.appeared_first, new)
        elif old is not None:
            self.vanished += 1
            _name(self.vanished_first, old)


class Pairing:
    """A swap beside the newest manifest of an app."""

    def __init__(self, archive: Archive, newest: Manifest, swap: Swap) -> None:
        self._archive = archive
        self._newest = newest
        self._swap = swap
        self.comparison = Comparison()
        """How what comes differs from what goes, as far as it was told."""

    def put(self, writer: RunWriter) -> dict[str, Runs]:
        """Put runs; return those of memory, and of what is put aside."""
        return {
            MEMORY.name: writer.anew(MEMORY, self._newest, self.kept()),
            PREVIOUS.name: writer.anew(PREVIOUS, self._newest, self.aside()),
        }

    def kept(self) -> Iterator[MemoryRow]:
        """Yield what is remembered then, ascending by place; then `comparison` tells of it."""
        self.comparison, forgotten = Comparison(), self._forgotten()
        for met in self._met():
            new, is_replaced = self._coming(met, forgotten), self._is_replaced(met)
            stays = None if is_replaced else met.packed
            if stays is not None and self._swap.puts_aside:
                new = None  # by hand, or from since then: it stays as it is
            self.comparison.note(met.packed if is_replaced else None, new)
            if new is not None and stays is not None:
                yield memory.merge(stays, new)
            elif new is not None:
                yield new
            elif stays is not None:
                yield stays

    def aside(self) -> Iterator[MemoryRow]:
        """Yield what can be brought back then, ascending by place."""
        swap = self._swap
        has_others = swap.user_id is not None
        known = self._rows(PREVIOUS, self._newest) if has_others else ()
        others = (row for row in known if not swap.is_of(row))
        marker = [] if swap.marker is None else [swap.marker]
        met = self._met() if swap.puts_aside else ()
        aside = (one.packed for one in met if one.packed and self._is_replaced(one))
        yield from merge(marker, aside, others, key=PREVIOUS.place)

    def _forgotten(self) -> set[Place]:
        rows = self._rows(MEMORY, self._newest)
        return {MEMORY.place(row) for row in rows if row.kind == "forget"}

    def _coming(self, met: Met, forgotten: set[Place]) -> MemoryRow | None:
        """Return the new row in the place among equals of what it replaces, if it still counts."""
        if met.new is None:
            return None
        new = replace(met.new, place=met.packed.first_place) if met.packed else met.new
        if (new.user_id or "", new.ending or "") in forgotten:
            return None
        return None if self._has_erased(new) else new

    def _has_erased(self, new: MemoryRow) -> bool:
        if self._archive.has_erased(self._newest, new):
            return True
        if all(session_id for session_id, _ in new.origins):
            return False
        erased = self._archive.erased(self._newest)
        return self._swap.is_erased_since(new.source_user_id or "", erased)

    def _is_replaced(self, met: Met) -> bool:
        """Tell whether what is packed was there already when the new rows were made, and goes."""
        packed = met.packed
        return (
            packed is not None
            and packed.kind == "add"
            and self._swap.is_of(packed)
            and self._swap.was_there(packed)
            and (self._swap.replaces(packed) or self._is_made_anew(met, packed))
        )

    def _is_made_anew(self, met: Met, packed: MemoryRow) -> bool:
        """Tell whether a rebuild has made what it would have left, as by its time."""
        return self._swap.puts_aside and met.new is not None and not packed.is_by_hand

    def _met(self) -> Iterator[Met]:
        """Yield what is at each place."""
        streams = [
            _tagged("packed", self._rows(MEMORY, self._newest)),
            _tagged("new", self._swap.rows()),
        ]
        for _, same in groupby(merge(*streams, key=_place), key=_place):
            met = Met()
            for _, tag, row in same:
                setattr(met, tag, row)
            yield met

    def _rows(self, kind: Kind[MemoryRow], manifest: Manifest) -> Iterator[MemoryRow]:
        files = manifest.table(kind.name).runs
        return self._archive.rows_in(kind, self._newest.app_name, files)


class Seen:
    """Which rows were packed at one time: eight bytes for each, not the runs, which sweeps take."""

    def __init__(self, rows: Iterable[MemoryRow]) -> None:
        self._marks = array("q", sorted(map(_mark, rows)))

    def has(self, row: MemoryRow) -> bool:
        """Tell whether a row was among them, as it is."""
        mark = _mark(row)
        at = bisect_left(self._marks, mark)
        return at < len(self._marks) and self._marks[at] == mark


def _mark(row: MemoryRow) -> int:
    return hash((row.user_id, row.key, row.stamp))


def _name(said: list[str], row: MemoryRow) -> None:
    if len(said) < SHOWN_MOST:
        said.append(row.text or "")


def _tagged(tag: str, rows: Iterable[MemoryRow]) -> Iterator[tuple[Place, str, MemoryRow]]:
    return ((MEMORY.place(row), tag, row) for row in rows)


def _place(one: tuple[Place, str, MemoryRow]) -> Place:
    return one[0]
