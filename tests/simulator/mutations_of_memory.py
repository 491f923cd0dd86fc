"""Rules of memory, removed one at a time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from lakestore.history.archive import MEMORY, Archive
from lakestore.history.memories import Memories
from lakestore.jobs.new_rows import NewRows
from lakestore.jobs.swapping import Pairing
from lakestore.search.rows import Rows
from lakestore.tables.memory import MemoryRow
from tests.simulator.mutating import ageless, set_, without


@without("a forget wins", "over every add of its id, whenever it comes")
def _wins(stack: ExitStack) -> None:
    original = Rows._forget

    def forget(self: Rows, name: str, *args: Any) -> None:
        original(self, name, *args)
        self._forgotten.clear()

    set_(stack, Rows, "_forget", forget)


@without("forgets are packed", "and stay, as an add of their id may land at any time")
def _packed(stack: ExitStack) -> None:
    original = NewRows._unended

    def unended(self: NewRows, kind: Any, rows: Any) -> Any:
        left = original(self, kind, rows)
        return {place: row for place, row in left.items() if getattr(row, "kind", "") != "forget"}

    set_(stack, NewRows, "_unended", unended)


@without("memories have keys", "of two adds of one id in a session one counts")
def _keys(stack: ExitStack) -> None:
    set_(stack, Rows, "at", lambda *_args: None)


@without("time limit of searches", "what was listed too long ago is listed again")
def _age(stack: ExitStack) -> None:
    ageless(stack, Memories, "indexes")


@without("memory is erased by time", "all that was remembered of a user goes, of a session or none")
def _whole(stack: ExitStack) -> None:
    def origins(self: MemoryRow) -> Any:
        return ((self.session_id, self.version),) if self.session_id else ()

    set_(stack, MemoryRow, "origins", property(origins))


@without("erased memories are not read", "whenever an entry of them lands")
def _erased(stack: ExitStack) -> None:
    original = Archive.has_erased

    def has_erased(self: Archive, manifest: Any, row: Any) -> bool:
        return not isinstance(row, MemoryRow) and original(self, manifest, row)

    set_(stack, Archive, "has_erased", has_erased)


@without("stamps later than what was erased", "whoever begins anew is not taken for the erased one")
def _anew(stack: ExitStack) -> None:
    set_(stack, Memories, "_note_erased", lambda *_args: None)


@without("entries that are packed", "are read from runs alone, by whoever knows their names")
def _names(stack: ExitStack) -> None:
    original = Memories._packed

    def packed(self: Memories, *args: Any) -> Any:
        return replace(original(self, *args), packed=frozenset())

    set_(stack, Memories, "_packed", packed)


@without("forgets outlive swaps", "they are no part of what is replaced, or brought back")
def _outlive(stack: ExitStack) -> None:
    original = Pairing.kept

    def kept(self: Pairing) -> Any:
        return (row for row in original(self) if row.kind == "add")

    set_(stack, Pairing, "kept", kept)


@without("swaps keep what came since", "what was packed meanwhile is no part of what they replace")
def _since(stack: ExitStack) -> None:
    original = Pairing.__init__

    def init(self: Pairing, archive: Any, newest: Any, swap: Any) -> None:
        tables = {**newest.tables, MEMORY.name: swap.base.table(MEMORY.name)}
        original(self, archive, replace(newest, tables=tables), swap)

    set_(stack, Pairing, "__init__", init)
