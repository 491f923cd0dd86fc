"""What the objects of one log fold to. Owns what a listing means; asks no store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import Packed
from lakestore.history.rollup import Rollup
from lakestore.history.view import SessionView
from lakestore.log.commits import LogFiles
from lakestore.log.keys import SessionKey, commit_key, is_stamp, rollup_key
from lakestore.tables import events
from lakestore.tables.events import EventRow


@dataclass(frozen=True, slots=True)
class Plan:
    """What a load needs of a log."""

    log: str
    packed: Packed | None
    """What jobs have packed of it; nothing at or below that is taken from the log."""
    rollup: int | None
    commits: list[int]
    gap: bool
    """Whether objects stand above the last commit that follows without one."""
    has_more_below: bool
    """Whether what the rollup was made of, or an older one, is still there."""

    @property
    def keys(self) -> list[str]:
        """The objects to read, in the order of the log."""
        rollup = [] if self.rollup is None else [rollup_key(self.log, self.rollup)]
        return rollup + [commit_key(self.log, version) for version in self.commits]

    @property
    def newest(self) -> int:
        """The last version there is, 0 when there is none."""
        if self.commits:
            return self.commits[-1]
        return self.rollup or (self.packed.row.version if self.packed else 0)


def plan_of(log: str, files: LogFiles, packed: Packed | None) -> Plan:
    """Return what a load needs of a log, of which `files` are listed."""
    base = packed.row.version if packed else 0
    newest = files.newest_rollup
    rollup = newest if newest is not None and newest > base else None
    commits, gap = files.above(rollup or base)
    below = next((version for version in files.commits if version > base), None)
    more = below == base + 1 or len(files.rollups) > 1
    return Plan(log, packed, rollup, commits, gap, more)


class DamagedRollupError(FormatError):
    """A rollup that cannot be read, though its log may be."""

    def __init__(self, text: str, version: int) -> None:
        super().__init__(text)
        self.version = version


def fold(plan: Plan, bodies: Iterator[bytes], seen: float) -> SessionView | FormatError | None:
    """Return the view that a plan's objects fold to, None when there is nothing.

    Raises:
        NotFoundError: a rollup leaves out what is packed by a newer manifest than the plan's.
    """
    view: SessionView | None = None
    try:
        if plan.packed is not None and plan.packed.row.session_id:
            view = SessionView(plan.packed.key, seen).on_packed(plan.packed)
        if plan.rollup is not None:
            rollup = decode_rollup(plan.log, plan.rollup, next(bodies))
            if not rollup.follows(view.packed_version if view else 0):
                raise NotFoundError(f"a rollup leaves out what was packed. log={plan.log!r}")
            view = (view or SessionView(_owner(rollup.checkpoint), seen)).on_rollup(rollup)
        commits = [
            decode_commit(plan.log, version, body)
            for version, body in zip(plan.commits, bodies, strict=True)
        ]
        if commits:
            view = (view or SessionView(_owner(commits[0][0]), seen)).follow_all(commits)
    except FormatError as error:
        return error
    return view


def decode_rollup(log: str, version: int, body: bytes) -> Rollup:
    """Return a rollup, sure that it belongs where it was read.

    Raises:
        DamagedRollupError: its bytes are damaged, or name another session or version.
    """
    try:
        rollup = Rollup(body)
        _check_place(log, version, rollup.checkpoint)
    except FormatError as error:
        raise DamagedRollupError(f"{error}. key={rollup_key(log, version)!r}", version) from error
    return rollup


def decode_commit(log: str, version: int, body: bytes) -> list[EventRow]:
    """Return the rows of a commit, sure that they belong where they were read.

    Raises:
        FormatError: the bytes are damaged, or name another session or version than their key.
    """
    try:
        rows = events.decode(body)
        _check_commit(log, version, rows)
    except FormatError as error:
        raise FormatError(f"{error}. key={commit_key(log, version)!r}") from error
    return rows


def _check_commit(log: str, version: int, rows: Sequence[EventRow]) -> None:
    first = rows[0]
    for ordinal, row in enumerate(rows):
        _check_place(log, version, row)
        if row.ordinal != ordinal or (row.kind, row.token) != (first.kind, first.token):
            raise FormatError("the rows are not those of one commit")
    if first.kind == "checkpoint" or (first.kind != "event" and len(rows) > 1):
        raise FormatError("a commit of this kind has one row, and none is a checkpoint")
    if first.stamp is not None and not is_stamp(first.stamp):
        raise FormatError("a stamp is damaged")


def _owner(row: EventRow) -> SessionKey:
    return SessionKey(row.app_name, row.user_id, row.session_id)


def _check_place(log: str, version: int, row: EventRow) -> None:
    if _owner(row).log != log or row.version != version:
        raise FormatError("the rows name another session or version than their key")
