"""What to read of a log so that its rows are whole, decided from a listing alone. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakestore.log.commits import LogFiles
from lakestore.log.keys import commit_key, rollup_key


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object to read."""

    log: str
    """The prefix of its log."""
    version: int
    above: int
    """Rows up to this version are known."""
    is_rollup: bool

    @property
    def key(self) -> str:
        """Where it is."""
        return (rollup_key if self.is_rollup else commit_key)(self.log, self.version)

    @property
    def weight(self) -> int:
        """About how many commits it is worth of memory."""
        return self.version if self.is_rollup else 1


@dataclass(frozen=True, slots=True)
class Tail:
    """What a listing shows of a log above the version up to which its rows are known."""

    wanted: list[Wanted]
    """Objects to read, in the order of the log."""
    gap: int | None
    """The version that is missing below others, None when none is."""


def tail_of(log: str, files: LogFiles, known: int) -> Tail | None:
    """Return what is above version `known`, None when there is nothing.

    A rollup is read wherever one lies above what is known, also where the commits up to it are
    still listed: a commit below a rollup may be one that landed late, under a version that was
    swept, and counts for nobody.
    """
    if not files.commits or files.commits[-1] <= known:
        return None
    wanted, base = [], known
    rollup = files.newest_rollup
    if rollup is not None and rollup > known:
        wanted.append(Wanted(log, rollup, known, is_rollup=True))
        base = rollup
    commits, cut = files.above(base)
    wanted += [Wanted(log, version, version - 1, is_rollup=False) for version in commits]
    return Tail(wanted, base + len(commits) + 1 if cut else None)


def in_chunks(wanted: Sequence[Wanted], weight: int) -> Iterator[list[Wanted]]:
    """Yield `wanted` in its order, in pieces of about `weight`, so that memory is bounded."""
    chunk: list[Wanted] = []
    held = 0
    for one in wanted:
        if chunk and held + one.weight > weight:
            yield chunk
            chunk, held = [], 0
        chunk.append(one)
        held += one.weight
    if chunk:
        yield chunk
