"""Manifests: the numbered, exclusively created lists of what jobs have packed for one app.

Owns their bytes, how the newest is found, and when one that was created counts as published. What
the files they name hold is decided above.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from lakestore.clock import Clock
from lakestore.errors import ConflictError, FormatError, NotFoundError, StorageError
from lakestore.log.commits import put_commit
from lakestore.log.keys import (
    app_manifests,
    manifest_key,
    manifest_name,
    pack_key,
    parse_manifest_name,
    run_key,
)
from lakestore.log.marker import Limits
from lakestore.storage import Metrics, ObjectStore

MANIFEST_VERSION = 1
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Group:
    """One row group of a run: where it is, and where its rows begin in the order of the run."""

    first: tuple[str | None, str]
    """The sort key of its first row."""
    start: int
    """Bytes before it in the object."""
    length: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One pack or run."""

    id: str
    """Names it within its table."""
    size: int
    """Bytes."""
    footer: int
    """How many of them, at the end, are the Parquet footer."""
    rows: int
    digest: str
    """SHA-256 of the object, in hexadecimal."""
    dead: int = 0
    """Of a pack: rows that no run refers to any more; of a run: rows of deleted sessions."""
    groups: tuple[Group, ...] = ()
    """Of a run: its row groups, ascending; none when it is to be read whole."""
    spent: int = 0
    """Of a run: how many rows were written for it and those it replaced, since the next older one
    was; tells when to merge with that."""


@dataclass(frozen=True, slots=True)
class TableFiles:
    """What a manifest names of one table."""

    runs: tuple[StoredFile, ...] = ()
    """Newest first: what a newer one says of a row replaces what older ones say."""
    packs: tuple[StoredFile, ...] = ()

    def pack(self, pack_id: str) -> StoredFile:
        """Return the pack of that id.

        Raises:
            FormatError: there is none.
        """
        for pack in self.packs:
            if pack.id == pack_id:
                return pack
        raise FormatError(f"a run refers to a pack that its manifest does not name. {pack_id=}")


@dataclass(frozen=True, slots=True)
class Doomed:
    """An object that may be deleted when the manifest that named it first is old enough."""

    key: str
    named: int
    """The number of the manifest that named it first."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What jobs have packed of one app, as of one number."""

    app_name: str
    number: int
    """From 1; 0 stands for an app that no job has worked on."""
    token: str = ""
    """Random, new for every attempt to publish."""
    previous: str = ""
    """The token of the manifest that it was made from, empty for the first."""
    created_at: int = 0
    """The publisher's clock in microseconds since 1970 UTC: informative."""
    tables: Mapping[str, TableFiles] = field(default_factory=dict)
    doomed: tuple[Doomed, ...] = ()
    looked: int = 0
    """When a sweep last looked for rows of deleted sessions that may go, by the store's time in
    microseconds since 1970 UTC."""
    revived: tuple[str, ...] = ()
    """Digests of the logs of deleted sessions that somebody is about to begin anew: rows that say
    up to which version they were deleted stay."""

    def table(self, name: str) -> TableFiles:
        """Return what it names of a table."""
        return self.tables.get(name, TableFiles())

    def following(self, token: str, now: int, tables: Mapping[str, TableFiles]) -> Manifest:
        """Return the next manifest, with `tables` in place of the ones it has."""
        return replace(
            self,
            number=self.number + 1,
            token=token,
            previous=self.token,
            created_at=now,
            tables={**self.tables, **tables},
        )

    def files(self) -> Iterator[tuple[str, StoredFile]]:
        """Yield all packs and runs that it names, each after its key."""
        for name, table in self.tables.items():
            yield from ((pack_key(self.app_name, name, each.id), each) for each in table.packs)
            yield from ((run_key(self.app_name, name, each.id), each) for each in table.runs)

    def keeping(self, there: Container[str]) -> Manifest:
        """Return the same without the names of objects that may be deleted and are not there."""
        return replace(self, doomed=tuple(each for each in self.doomed if each.key in there))

    def dooming(self, keys: Sequence[str]) -> Manifest:
        """Return the same with more objects that may be deleted."""
        known = {doomed.key for doomed in self.doomed}
        new = [Doomed(key, self.number) for key in keys if key not in known]
        return replace(self, doomed=(*self.doomed, *new))


_FIELDS = [each for kind in (Group, StoredFile, Doomed, Manifest) for each in fields(kind)]
_COUNTS = frozenset(each.name for each in _FIELDS if each.type == "int")
_TEXTS = frozenset(each.name for each in _FIELDS if each.type == "str")


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON."""
    content = {"format": "lakestore manifest", "format_version": MANIFEST_VERSION}
    return json.dumps({**content, **asdict(manifest)}, ensure_ascii=False).encode() + b"\n"


def decode(key: str, body: bytes) -> Manifest:
    """Return the manifest in `body`, which was read from `key`.

    Raises:
        FormatError: it is damaged, or a newer version wrote it.
    """
    try:
        content = _typed(json.loads(body))
        if content["format_version"] != MANIFEST_VERSION:
            raise FormatError(f"a newer version of lakestore wrote this manifest. {key=}")
        manifest = Manifest(
            content["app_name"],
            content["number"],
            content["token"],
            content["previous"],
            content["created_at"],
            {name: _table(each) for name, each in content["tables"].items()},
            tuple(Doomed(**_typed(each)) for each in content["doomed"]),
            content["looked"],
            tuple(map(_text, content["revived"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"a manifest is damaged. {key=}") from error
    if manifest_key(manifest.app_name, manifest.number) != key:
        raise FormatError(f"a manifest names another app or number than its key. {key=}")
    return manifest


def _table(content: Mapping[str, Any]) -> TableFiles:
    runs, packs = (tuple(map(_file, content[name])) for name in ("runs", "packs"))
    return TableFiles(runs, packs)


def _file(content: Mapping[str, Any]) -> StoredFile:
    return StoredFile(**{**_typed(content), "groups": tuple(map(_group, content["groups"]))})


def _group(content: Mapping[str, Any]) -> Group:
    user, name = content["first"]
    first = (None if user is None else _text(user), _text(name))
    return Group(first, **{name: _typed(content)[name] for name in ("start", "length")})


def _typed(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `content` if its texts are texts, and its counts integers from 0.

    Raises:
        TypeError: they are not.
    """
    for name, value in content.items():
        if name in _COUNTS and (type(value) is not int or value < 0):
            raise TypeError(name)
        if name in _TEXTS:
            _text(value)
    return content


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def list_manifests(store: ObjectStore, manifests: str) -> list[int]:
    """Return the numbers of an app's manifests, ascending, by one listing of their prefix."""
    names = (key.removeprefix(manifests) for key in store.names(manifests))
    return [number for name in names if (number := parse_manifest_name(name)) is not None]


def newest_manifest(store: ObjectStore, manifests: str, known: Manifest | None = None) -> Manifest:
    """Return the newest manifest of an app: 1 LIST, and 1 GET when it is not the `known` one.

    Args:
        store: Where the lake is.
        manifests: The prefix of the app's manifests.
        known: One that was read before.

    Returns:
        The manifest; its number is 0 when there is none.

    Raises:
        FormatError: it is damaged, or a newer version wrote it.
        StorageError: the store failed, or manifests were superseded faster than they were read.
    """
    for _ in range(_ATTEMPTS):
        numbers = list_manifests(store, manifests)
        if not numbers:
            return Manifest("", 0)
        # A number may be used again when it was swept, but not above one that is still there.
        if known is not None and known.number == numbers[-1]:
            return known
        key = manifests + manifest_name(numbers[-1])
        with suppress(NotFoundError):  # superseded, and swept since it was listed
            return decode(key, store.get(key))
    raise StorageError(f"manifests changed faster than they could be read. {manifests=}")


def publish(
    store: ObjectStore,
    manifest: Manifest,
    *,
    seen: float,
    limits: Limits,
    clock: Clock,
    metrics: Metrics,
) -> None:
    """Create `manifest`, the only commit point of every job.

    Args:
        store: Where the lake is.
        manifest: The one after the newest that the job knows.
        seen: `Clock.elapsed` when the listing that showed that one began.
        limits: The lake's.
        clock: Tells whether that was long ago.
        metrics: Counts refusals and what was sent again.

    Raises:
        ConflictError: another job was first, or this one took so long that it cannot be told.
        UnknownOutcomeError: it may have landed, or may still.
        StorageError: it did not land.
    """
    key, body = manifest_key(manifest.app_name, manifest.number), encode(manifest)
    started = clock.elapsed()
    token = manifest.token
    taken = put_commit(
        store,
        key,
        body,
        is_ours=lambda there: decode(key, there).token == token,
        clock=clock,
        metrics=metrics,
    )
    if taken is not None:
        raise ConflictError(f"another job published this manifest first. {key=}")
    if clock.elapsed() - min(seen, started) > limits.view_age:
        # The number may be one that was superseded and swept: then nobody reads what we created.
        newest = newest_manifest(store, app_manifests(manifest.app_name))
        if (newest.number, newest.token) != (manifest.number, token):
            raise ConflictError(f"the job took longer than the view age limit. {key=}")
