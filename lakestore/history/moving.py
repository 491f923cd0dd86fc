"""Moving large bytes out of events that are appended. Owns which, where to, and what is safe.

They are stored first, then the commit that refers to them. A sweep deletes what is older than the
grace and referred to by nothing; an append that was quicker than that needs to prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import Archive
from lakestore.history.environment import Environment
from lakestore.history.payloads import Payloads
from lakestore.history.proving import Proofs
from lakestore.history.view import SessionView
from lakestore.log.ids import readable_name
from lakestore.log.keys import SessionKey, app_manifests, object_key, objects_beside
from lakestore.log.mime_types import extension_of
from lakestore.storage import UnreadableError
from lakestore.tables.events import EventRow
from lakestore.tables.inline import Inline, InlineTexts, decoded
from lakestore.tables.payloads import Content, Encoding, Payload

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
        ending = extension_of(mime_type) or ".bin"
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
        proofs: Proofs,
        key: SessionKey,
        threshold: int,
        view: SessionView | None,
    ) -> None:
        """Begin an append to a session.

        Args:
            environment: Of the lake.
            archive: The lake's.
            payloads: The lake's.
            proofs: The lake's.
            key: The session.
            threshold: How many bytes of one may stay in an event.
            view: What the append builds on, if it is known.
        """
        self._env = environment
        self._archive = archive
        self._payloads = payloads
        self._proofs = proofs
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
        new = [one for digest, one in large.items() if digest not in self._places]
        if new:
            self._store(new)
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
        try:
            found = [
                (version, content)
                for version, content in self._view.contents()
                if (content.sha256, content.size) in wanted
            ]
            return self._kept(found) if found else {}
        except (NotFoundError, FormatError, UnreadableError):  # to store them again is not wrong
            return {}

    def _kept(self, found: Sequence[tuple[int, Content]]) -> dict[Digest, str]:
        """Return where those of the bytes are that are sure to be referred to by now."""
        prefix = app_manifests(self._key.app_name)
        packed = self._archive.session(self._archive.recent(prefix).result(), self._key)
        self._since = min(self._since, self._archive.seen(prefix))
        base, kept = (packed.row.version, packed.row.payloads) if packed else (0, ())
        places: dict[Digest, str] = {}
        for version, content in found:
            digest = content.sha256, content.size
            if digest in places or not (version > base or content in kept):
                continue
            # The first commit that refers to them has landed in time, if any has.
            if self._proofs.holds(self._key, version, content.key, base):
                places[digest] = content.key
        return places

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
