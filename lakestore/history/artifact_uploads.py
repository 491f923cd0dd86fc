"""The payload of one save: stored under a name of its own before the commit that refers to it.

Owns when it is stored, and when again; not which version it becomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256

from lakestore.errors import NotFoundError, StorageError
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.environment import Environment
from lakestore.log.ids import readable_name
from lakestore.log.keys import ArtifactKey, payload_key
from lakestore.storage import UnreadableError
from lakestore.tables.artifacts import Saved

_READ_AT_ONCE = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Draft:
    """What a version says besides its payload. Its repr shows nothing of people."""

    part: str = field(repr=False)
    """See `Saved`; so are the next four."""
    mime_type: str | None = field(default=None, repr=False)
    display_name: str | None = field(default=None, repr=False)
    file_uri: str | None = field(default=None, repr=False)
    custom_metadata: str | None = field(default=None, repr=False)
    content_type: str | None = None
    """What the store is told of the payload; None: nothing is known."""
    extension: str = ""
    """What the payload's name ends in where the file name has no extension, such as `.png`."""


class Upload:
    """The payload of one save, as bytes or as parts that can be read once."""

    def __init__(
        self,
        environment: Environment,
        key: ArtifactKey,
        draft: Draft,
        body: bytes | Iterable[bytes],
    ) -> None:
        self._env = environment
        self._artifact = key
        self._draft = draft
        self._body = body
        self._stored: str | None = None
        self._met: set[str] = set()
        """Payloads of versions that were found whole."""
        self.size = 0
        """Bytes; of parts it is known when they were stored, and so is the digest."""
        self.sha256 = ""
        if isinstance(body, bytes):
            self.size, self.sha256 = len(body), sha256(body).hexdigest()

    def place(self, view: ArtifactView) -> str:
        """Return the key of an object with these bytes that nobody deletes if `view` goes on.

        That of a version that lives in `view` and has the same content, if it is still there and
        whole: 1 HEAD. Else one of our own: stored now, or once more where what was stored is named
        as going.

        Raises:
            StorageError: it could not be stored, or was swept meanwhile.
        """
        if not isinstance(self._body, bytes) and self._stored is None:
            self._stored = self._put(self._digested(self._body))
        for saved in reversed(view.saves):
            if saved.payload and self._is_same(saved) and self._is_whole(saved.payload):
                return saved.payload
        if self._stored is None or self._is_named(view):
            self._stored = self._put(self._again())
        return self._stored

    def _is_same(self, saved: Saved) -> bool:
        known = (saved.sha256, saved.size, saved.mime_type)
        return known == (self.sha256, self.size, self._draft.mime_type)

    def _is_whole(self, payload: str) -> bool:
        """Tell whether a payload that others have stored has its size: it may be lost, or cut."""
        if payload not in self._met:
            try:
                if self._env.store.size(payload) != self.size:
                    return False
            except (NotFoundError, UnreadableError):  # to store it again is not wrong
                return False
            self._met.add(payload)
        return True

    def _is_named(self, view: ArtifactView) -> bool:
        return view.named is not None and self._stored in view.named.payloads

    def look(self, *, anew: bool) -> None:
        """Make sure that what was stored stays: commits may have been passed over.

        Args:
            anew: Whether they were, so that it may have been named as going; it is stored again.

        Raises:
            StorageError: it is gone and cannot be stored again.
        """
        self._met.clear()
        if self._stored is not None and anew:
            self._stored = self._put(self._again())
        elif self._stored is not None:
            try:
                self._env.store.size(self._stored)
            except NotFoundError:
                if not isinstance(self._body, bytes):
                    raise _swept(self._stored) from None
                self._stored = None

    def drop_unused(self, used: str | None) -> None:
        """Delete what was stored if a version that was committed has another payload."""
        if self._stored is not None and self._stored != used:
            with suppress(StorageError):  # the next sweep does it
                self._env.store.delete(self._stored)

    def _put(self, parts: Iterable[bytes]) -> str:
        name = readable_name(self._artifact.filename.removeprefix("user:"), self._draft.extension)
        key = payload_key(self._artifact.objects, self._env.new_token(), name)
        self._env.upload_new(key, parts, self._draft.content_type)
        return key

    def _digested(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        digest = sha256()
        for part in parts:
            yield part  # which is refused where it is not bytes
            digest.update(part)
            self.size += memoryview(part).nbytes
        self.sha256 = digest.hexdigest()

    def _again(self) -> Iterator[bytes]:
        if isinstance(self._body, bytes):
            yield self._body
            return
        assert self._stored is not None
        for start in range(0, self.size, _READ_AT_ONCE):
            try:
                yield self._env.store.get_range(self._stored, start, _READ_AT_ONCE)
            except NotFoundError:
                raise _swept(self._stored) from None


def _swept(key: str) -> StorageError:
    return StorageError(f"a payload was swept while it was being saved. {key=}")
