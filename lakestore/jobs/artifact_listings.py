"""Going through an app's artifacts by two listings side by side, of logs and of payloads.

Owns what belongs to which artifact, and how its commits are read. Memory is a piece's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.artifact_loading import decode_commit, key_of, owner
from lakestore.history.artifact_view import ArtifactView, UnpackedError
from lakestore.history.environment import Environment
from lakestore.jobs.listings import OBJECTS_AT_ONCE
from lakestore.log.keys import (
    ARTIFACT_LOGS,
    ARTIFACT_OBJECTS,
    commit_key,
    is_log_folder,
    parse_artifact,
    parse_log_name,
)
from lakestore.storage import ObjectStore, StoredObject, UnreadableError
from lakestore.tables.artifacts import ArtifactRow, Commit

_PARTS = 6
"""Of a key of an artifact so many name it."""
_COMMITS_AT_ONCE = 256


@dataclass(slots=True)
class ListedArtifact:
    """What is listed of one artifact."""

    log: str
    """The prefix of its log."""
    commits: dict[int, StoredObject] = field(default_factory=dict)
    """By version, ascending."""
    payloads: list[StoredObject] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The newest version that is listed, 0 for none."""
        return max(self.commits, default=0)

    @property
    def objects(self) -> int:
        """How many objects these are."""
        return len(self.commits) + len(self.payloads)


def list_artifacts(
    store: ObjectStore, below: str, strays: list[str] | None = None
) -> Iterator[ListedArtifact]:
    """Yield what is listed of all artifacts of an app, or of one user.

    Args:
        store: Where they are.
        below: What keys have after the roots of logs and of payloads, as `app=a/`.
        strays: Is given the keys of what is no artifact's.

    Raises:
        UnreadableError: a folder is closed to us; what is in others was yielded.
        StorageError: the store failed.
    """
    closed: list[UnreadableError] = []
    strays = [] if strays is None else strays
    streams = [
        _stream(store, f"{root}{below}", strays, closed)
        for root in (ARTIFACT_LOGS, ARTIFACT_OBJECTS)
    ]
    for folder, listed in groupby(merge(*streams, key=lambda it: it[0]), key=lambda it: it[0]):
        found = ListedArtifact(f"{ARTIFACT_LOGS}{folder}")
        is_ours = is_log_folder(found.log)
        for _, one in listed:
            parsed = parse_log_name(one.key.removeprefix(found.log))
            if is_ours and parsed is not None and not parsed[1]:
                found.commits[parsed[0]] = one
            elif is_ours and one.key.startswith(ARTIFACT_OBJECTS) and _is_payload(one.key):
                found.payloads.append(one)
            else:
                strays.append(one.key)
        if found.objects:
            yield found
    if closed:
        raise closed[0]


def _stream(
    store: ObjectStore, prefix: str, strays: list[str], closed: list[UnreadableError]
) -> Iterator[tuple[str, StoredObject]]:
    """Yield what is listed, each after what names its artifact, ascending.

    What is above all artifacts would be out of order, and one listing must not end the other.
    """
    try:
        for one in store.list(prefix):
            parts = one.key.split("/")
            if len(parts) > _PARTS:
                yield "/".join(parts[2:_PARTS]) + "/", one
            else:
                strays.append(one.key)
    except UnreadableError as error:
        closed.append(error)


def _is_payload(key: str) -> bool:
    return len(key.split("/")) == _PARTS + 2


def pieces_of(listed: Iterator[ListedArtifact]) -> Iterator[list[ListedArtifact]]:
    """Yield artifacts in pieces of about as many objects as are held at once.

    Raises:
        UnreadableError, StorageError: as `listed`; with the former all pieces were yielded.
    """
    piece: list[ListedArtifact] = []
    closed: UnreadableError | None = None
    count = 0
    try:
        for one in listed:
            piece.append(one)
            count += one.objects
            if count >= OBJECTS_AT_ONCE:
                yield piece
                piece, count = [], 0
    except UnreadableError as error:
        closed = error
    if piece:
        yield piece
    if closed is not None:
        raise closed


def read_commits(
    environment: Environment, wanted: Sequence[tuple[str, int]]
) -> Iterator[tuple[tuple[str, int], Commit | FormatError | UnreadableError | None]]:
    """Yield some commits, by log and version; None for one that is not there, or why it is not.

    Raises:
        StorageError: the store failed.
    """

    def read(one: tuple[str, int]) -> Commit | FormatError | UnreadableError | None:
        try:
            log, version = one
            return decode_commit(log, version, environment.store.get(commit_key(log, version)))
        except NotFoundError:
            return None
        except (FormatError, UnreadableError) as error:
            return error

    for first in range(0, len(wanted), _COMMITS_AT_ONCE):
        some = wanted[first : first + _COMMITS_AT_ONCE]
        found = environment.pool.map(read, some, near=environment.store.near)
        yield from zip(some, found, strict=True)


def view_of(
    listed: ListedArtifact, row: ArtifactRow | None, commit: Commit | None, seen: float
) -> ArtifactView | None:
    """Return an artifact as its row and its newest commit tell; None where nothing names it.

    None, too, where the commit builds on more than the row has.

    Args:
        listed: What is listed of it.
        row: What is packed of it.
        commit: The newest, if it is above the row.
        seen: When the listing began.
    """
    key = owner(commit) if commit else parse_artifact(listed.log)
    key = key or (key_of(row) if row and row.filename else None)
    if key is None:
        return None
    view = ArtifactView(key, seen)
    if row is not None:
        view = view.on_packed(row)
    try:
        return view if commit is None else view.on_commit(commit)
    except UnpackedError:
        return None


def packed_version(row: ArtifactRow | None) -> int:
    """Return up to which version an artifact is packed, 0 where nothing is."""
    return row.version if row else 0
