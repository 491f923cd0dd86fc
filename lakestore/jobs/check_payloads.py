"""Checks bytes beside events: all that events refer to is there, and what it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.history.loading import Loader
from lakestore.history.view import SessionView
from lakestore.jobs.covered import read_digest
from lakestore.jobs.findings import COPY, Finding, Look
from lakestore.log.keys import SessionKey, objects_beside
from lakestore.storage import StoredObject, UnreadableError
from lakestore.tables.events import EventRow
from lakestore.tables.payloads import Content, Payload, contents_of


class PayloadCheck:
    """Checks what the sessions of one app refer to."""

    def __init__(self, look: Look, *, deep: bool) -> None:
        """Check that objects are there; if `deep`, also that they hold what was stored."""
        self._look = look
        self._deep = deep
        cache: ByteCache[str, SessionView] = ByteCache(0)
        self._loader = Loader(look.env, look.archive, cache)

    def check(self, row: EventRow, payloads: Iterable[Payload]) -> None:
        """Check what the session of a row refers to.

        Raises:
            StorageError: the store failed.
        """
        contents = contents_of(payloads)
        if not contents:
            return
        key = SessionKey(row.app_name, row.user_id, row.session_id)
        listed = {one.key: one for one in self._look.env.store.list(objects_beside(key.log))}
        wrong = {it: why for it in contents if (why := self._problem(it, listed))}
        self._look.objects += len(contents)
        if wrong:
            needed = self._needed(key)
            for content, problem in wrong.items():
                if content in needed:
                    self._tell(content, problem)

    def _problem(self, content: Content, listed: Mapping[str, StoredObject]) -> str:
        return problem_of(self._look.env, content, listed.get(content.key), deep=self._deep)

    def _needed(self, key: SessionKey) -> set[Content]:
        """Return what the session refers to by now: it may have ended, or have been pruned."""
        try:
            return {content for _, content in self._loader.load(key).contents()}
        except (FormatError, UnreadableError):  # it is told of the session
            return set()

    def _tell(self, content: Content, problem: str) -> None:
        self._look.findings.add(
            Finding(
                "lost",
                "damaged payload",
                content.key,
                problem,
                "events that have these bytes are read without them",
                COPY,
            )
        )


def problem_of(
    environment: Environment, content: Content, stored: StoredObject | None, *, deep: bool
) -> str:
    """Return what is wrong with a payload, "" for nothing; `deep` reads it, in pieces."""
    if stored is None:
        return "it is not there"
    if stored.size != content.size:
        return f"it has {stored.size} bytes instead of {content.size}"
    if deep:
        try:
            digest = read_digest(environment, content.key, content.size)
        except (NotFoundError, UnreadableError) as error:
            return str(error)
        if digest != content.sha256:
            return "its bytes are not those that were stored: the digest differs"
    return ""
