"""Whether bytes beside events are sure to stay. Owns what the times of a store prove.

A sweep deletes what was older than the grace before it saw a commit that refers to it; its request
may be under way when the commit is there. A commit that landed in time, by the store's own clock,
was seen by every sweep that could take what it refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from lakestore.errors import StorageError, UnknownOutcomeError
from lakestore.history.environment import Environment
from lakestore.history.view import SessionView
from lakestore.log.keys import SessionKey, commit_key
from lakestore.storage import StoredObject
from lakestore.tables.events import EventRow

_REMEMBERED = 65_536
_SKEW_SECONDS = 5.0
"""By so much the machines of one store may differ."""


class Proofs:
    """Proves that bytes stay; safe to use from many threads."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._sure: set[str] = set()
        self._renewed: set[str] = set()

    def note(self, keys: Iterable[str]) -> None:
        """Remember that what commits refer to is sure to stay as long as they do."""
        if len(self._sure) > _REMEMBERED:
            self._sure.clear()
        self._sure.update(keys)

    def forget(self) -> None:
        """Remember nothing but what may go by a request that is under way."""
        self._sure.clear()

    def holds(self, key: SessionKey, version: int, payload: str, packed: int) -> bool:
        """Tell whether bytes are sure to stay as long as a commit that refers to them.

        Args:
            key: The session.
            version: The commit.
            payload: Where the bytes are.
            packed: Up to which version the session is packed. What was packed counts as sure: it
                has landed long ago.
        """
        if payload in self._sure:
            return True
        is_sure = version <= packed or self._is_in_time(key, version, payload)
        if is_sure:
            self.note([payload])
        return is_sure

    def _is_in_time(self, key: SessionKey, version: int, payload: str) -> bool:
        stored = self._stored(payload)
        if stored is None or payload in self._renewed:
            return False
        commit = self._stored(commit_key(key.log, version))
        # One that is not there was packed or rolled up, and swept a grace later.
        age = 0.0 if commit is None else commit.modified - stored.modified
        # What is younger than the commit was put again.
        return -_SKEW_SECONDS <= age < self._env.limits.grace

    def _stored(self, key: str) -> StoredObject | None:
        return next((one for one in self._env.store.list(key) if one.key == key), None)

    def prove(
        self,
        key: SessionKey,
        rows: Sequence[EventRow],
        bodies: Mapping[str, bytes],
        load: Callable[[], SessionView],
    ) -> None:
        """Make sure that all stays that a commit refers to which landed late, or long ago.

        What is not there is put again, so that the event is whole all the same, if nobody deletes
        it: that cannot be told.

        Args:
            key: The session.
            rows: The commit.
            bodies: What it refers to, by key, as far as it is known.
            load: Returns the session as it is now.

        Raises:
            UnknownOutcomeError: that is not sure.
            StorageError: the store failed.
        """
        version = rows[0].version
        wanted = {one.key: one.mime_type for row in rows for one in row.payloads}
        doubtful = {one for one in wanted if not self._is_in_time(key, version, one)}
        if doubtful:
            doubtful -= self._referred_before(load(), version, doubtful)
        for one in doubtful & bodies.keys():
            self._renew(one, bodies[one], wanted[one])
        if doubtful:
            raise UnknownOutcomeError(
                "the commit took so long that bytes which it refers to may have been swept: reload"
                f" the session. key={commit_key(key.log, version)!r}"
            )

    def _referred_before(self, view: SessionView, version: int, wanted: set[str]) -> set[str]:
        """Return what of `wanted` is sure to stay, since an earlier commit refers to it, too."""
        packed = view.packed_version
        return {
            content.key
            for before, content in view.contents()
            if before < version
            and content.key in wanted
            and self.holds(view.key, before, content.key, packed)
        }

    def _renew(self, key: str, body: bytes, mime_type: str | None) -> None:
        if self._stored(key) is None:
            self._renewed.add(key)
            with suppress(StorageError):  # of the commit's outcome there is doubt in any case
                self._env.upload_new(key, [body], mime_type)
