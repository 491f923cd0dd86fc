"""Moving large bytes out of events that are appended. Owns which, where to, and what is safe.

They are stored first, then the commit that refers to them. A sweep deletes what is older than the
grace and referred to by nothing; an append that was quicker than that needs to prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from mimetypes import MimeTypes
from types import MappingProxyType

from lakestore.errors import NotFoundError, UnknownOutcomeError
from lakestore.history.archive import Archive
from lakestore.history.environment import Environment
from lakestore.history.payloads import Payloads
from lakestore.history.view import SessionView
from lakestore.log.ids import readable_name
from lakestore.log.keys import SessionKey, app_manifests, commit_key, object_key, objects_beside
from lakestore.storage import StoredObject
from lakestore.tables.events import EventRow
from lakestore.tables.inline import Inline, InlineTexts, decoded
from lakestore.tables.payloads import Encoding, Payload

_TYPES = MimeTypes()

Digest = tuple[str, int]
"""SHA-256 and size of some bytes."""


@dataclass(frozen=True)
class _Large:
    """Bytes that are to be moved out of an event."""

    inline: Inline = field(repr=False)
    body: bytes = field(repr=False)
    encoding: Encoding

    @cached_property
    def digest(self) -> Digest:
        """What tells them from others."""
        return sha256(self.body).hexdigest(), len(self.body)

    @property
    def name(self) -> str:
        """What people recognise them by."""
        mime_type = (self.inline.mime_type or "").partition(";")[0].strip().lower()
        ending = _TYPES.guess_extension(mime_type) or ".bin"
        kind = mime_type.partition("/")[0]
        return readable_name(self.inline.display_name or kind or "data", ending)

    def payload(self, key: str) -> Payload:
        """Return what refers to them where they are stored."""
        return Payload(self.inline.path, key, *self.digest, self.inline.mime_type, self.encoding)


class Mover:
    """Moves bytes out of what one append commits."""

    def __init__(
        self,
        environment: Environment,
        archive: Archive,
        payloads: Payloads,
        key: SessionKey,
        threshold: int,
        view: SessionView | None,
    ) -> None:
        """Begin an append to a session.

        Args:
            environment: Of the lake.
            archive: The lake's.
            payloads: The lake's.
            key: The session.
            threshold: How many bytes of one may stay in an event.
            view: What the append builds on, if it is known.
        """
        self._env = environment
        self._archive = archive
        self._payloads = payloads
        self._key = key
        self._threshold = threshold
        self._view = view
        self._since = environment.clock.elapsed()
        """When all that the commit refers to was known to be there, or before."""
        self._places: dict[Digest, str] = {}
        """Where the bytes are that this append refers to."""
        self.bodies: dict[str, bytes] = {}
        """All that it refers to, by key."""

    def moved(self, rows: Sequence[EventRow]) -> list[EventRow]:
        """Return the rows of a commit without large bytes, which are stored when it returns.

        Raises:
            StorageError: they were not stored, or (`UnknownOutcomeError`) they may have been.
        """
        found = [_large_ones(row, self._threshold) for row in rows]
        large = {one.digest: one for some in found for one in some[1]}
        self._store([one for digest, one in large.items() if digest not in self._places])
        return [
            self._without(row, *each) if each[1] else row
            for row, each in zip(rows, found, strict=True)
        ]

    def _store(self, large: Sequence[_Large]) -> None:
        known = self._known({one.digest for one in large})
        objects = objects_beside(self._key.log)
        new = []
        for one in large:
            key = known.get(one.digest)
            if key is None:
                key = object_key(objects, self._env.new_token(), one.name)
                new.append((key, one))
            self._places[one.digest] = key
            self.bodies[key] = one.body
        near = self._env.store.near
        self._env.pool.map(self._put, new, near=near)
        for key, one in new:
            self._payloads.keep(key, one.body)

    def _put(self, new: tuple[str, _Large]) -> None:
        key, one = new
        self._env.upload_new(key, [one.body], one.inline.mime_type)

    def _known(self, wanted: set[Digest]) -> dict[Digest, str]:
        """Return where events that are sure to be there have some bytes already.

        What is cached of a session may be old, though nothing was committed since. Of what is
        packed the newest manifest tells what was pruned; what is not packed cannot have been.
        """
        if self._view is None:
            return {}
        found = {
            (it.sha256, it.size): (version, it)
            for version, it in self._view.contents()
            if (it.sha256, it.size) in wanted
        }
        if not found:
            return {}
        prefix = app_manifests(self._key.app_name)
        try:
            packed = self._archive.session(self._archive.recent(prefix).result(), self._key)
        except NotFoundError:  # swept meanwhile: to store them again is not wrong
            return {}
        self._since = min(self._since, self._archive.seen(prefix))
        base, kept = (packed.row.version, packed.row.payloads) if packed else (0, ())
        return {
            digest: content.key
            for digest, (version, content) in found.items()
            if version > base or content in kept
        }

    def _without(self, row: EventRow, places: InlineTexts, large: Sequence[_Large]) -> EventRow:
        payloads = tuple(one.payload(self._places[one.digest]) for one in large)
        text = places.with_texts({one.inline.path: "" for one in large})
        return replace(row, event_json=text, payloads=payloads)

    @property
    def is_sure(self) -> bool:
        """Whether no sweep can have missed a commit that has returned by now.

        What was stored, or known to be referred to, within the grace was not old or needless yet
        when a sweep looked that had not seen the commit. The view age limit is for clocks that
        differ a little.
        """
        limits, elapsed = self._env.limits, self._env.clock.elapsed() - self._since
        return not self.bodies or elapsed <= limits.grace - limits.view_age


class Stays:
    """Moves nothing."""

    bodies: Mapping[str, bytes] = MappingProxyType({})
    is_sure = True

    def moved(self, rows: list[EventRow]) -> list[EventRow]:
        """Return the rows as they are."""
        return rows


STAYS = Stays()


def prove(
    environment: Environment,
    key: SessionKey,
    rows: Sequence[EventRow],
    bodies: Mapping[str, bytes],
    load: Callable[[], SessionView],
) -> None:
    """Make sure that all stays that a commit refers to which has landed late, or long ago.

    A sweep deletes what was older than the grace, by the store's time, before any commit referred
    to it; its request may still be under way. What is not there is put again, so that the event
    is whole all the same, if nobody deletes it.

    Args:
        environment: Of the lake.
        key: The session.
        rows: The commit.
        bodies: What it refers to, by key, as far as it is known.
        load: Returns the session as it is now.

    Raises:
        UnknownOutcomeError: that is not sure.
        StorageError: the store failed.
    """
    wanted = {one.key for row in rows for one in row.payloads}
    commit = _stored(environment, commit_key(key.log, rows[0].version))
    doubtful = {one for one in wanted if not _is_older(environment, one, commit, bodies)}
    if doubtful:
        doubtful -= {it.key for version, it in load().contents() if version < rows[0].version}
    if doubtful:
        raise UnknownOutcomeError(
            "the commit took so long that bytes which it refers to may have been swept: reload the"
            f" session. key={commit_key(key.log, rows[0].version)!r}"
        )


def _is_older(
    environment: Environment, key: str, commit: StoredObject | None, bodies: Mapping[str, bytes]
) -> bool:
    """Tell whether a commit is older than what would let a sweep delete what it refers to."""
    stored = _stored(environment, key)
    if stored is None:
        if key in bodies and environment.writable:
            environment.put_new(key, bodies[key])
        return False
    # One that is not there was packed, and swept a grace later: what had to go has gone. What is
    # younger than the commit was put again, and may go by a request that was under way.
    age = 0.0 if commit is None else commit.modified - stored.modified
    return 0 <= age < environment.limits.grace


def _stored(environment: Environment, key: str) -> StoredObject | None:
    return next((one for one in environment.store.list(key) if one.key == key), None)


def _large_ones(row: EventRow, threshold: int) -> tuple[InlineTexts, list[_Large]]:
    """Return the places in an event where bytes stand, and those with more than `threshold`."""
    text = row.event_json or "{}"
    try:
        # Where it is shorter than that, nothing in it can be larger.
        places = InlineTexts(text if len(text) > threshold else "{}")
    except (ValueError, RecursionError):  # what no reader could find again stays
        return InlineTexts("{}"), []
    pairs = ((one, decoded(one.text, threshold)) for one in places)
    return places, [_Large(one, *found) for one, found in pairs if found is not None]
