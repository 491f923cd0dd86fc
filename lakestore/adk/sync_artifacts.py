"""The artifact service for code without an event loop, which is the implementation of both.

Owns ADK's semantics of saving, loading and listing over `lakestore.history.artifacts`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias

from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.genai import types

from lakestore.adk.artifact_names import (
    check_scope,
    checked_key,
    refused_alike,
)
from lakestore.adk.artifact_parts import (
    Prepared,
    part_of,
    prepare,
    prepare_file,
    version_of,
)
from lakestore.adk.artifact_sources import Source, opened
from lakestore.checks import check_seconds
from lakestore.errors import InputError, ReadOnlyError
from lakestore.history.artifact_references import Target, followed
from lakestore.lake import Lake
from lakestore.log.filenames import check_version
from lakestore.log.keys import ArtifactKey
from lakestore.tables.artifacts import Saved

HOUR = 3600.0

_Found: TypeAlias = tuple[Saved, bytes] | None


class SyncArtifactService:
    """The operations of `LakeArtifactService`, where each is documented, blocking.

    Works in a thread with a running event loop too, as in notebooks, which stands still meanwhile.
    """

    def __init__(self, lake: Lake) -> None:
        if not isinstance(lake, Lake):
            raise InputError(
                "a service needs an open lake: LakeArtifactService(Lake.open(...))."
                f" type={type(lake).__name__}"
            )
        self.lake = lake

    def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """See `LakeArtifactService.save_artifact`."""
        key = self.writable_key(app_name, user_id, filename, session_id)
        return self.save_prepared(key, prepare(artifact, custom_metadata, key, session_id))

    def save_prepared(self, key: ArtifactKey, prepared: Prepared) -> int:
        """Save what can be saved; return the version."""
        saved = self.lake.artifacts.save(key, prepared.draft, prepared.payload)
        return saved.artifact_version

    def save_file(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        source: Source,
        session_id: str | None = None,
        mime_type: str | None = None,
        display_name: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """See `LakeArtifactService.save_file`."""
        key = self.writable_key(app_name, user_id, filename, session_id)
        draft = prepare_file(key, mime_type, display_name, custom_metadata)
        with refused_alike(), opened(source) as pieces:
            return self.lake.artifacts.save(key, draft, pieces).artifact_version

    def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """See `LakeArtifactService.load_artifact`."""
        key = checked_key(app_name, user_id, filename, session_id)
        look = self.lake.artifacts.read_payload
        found = _follow(key, session_id, _version(version), look)
        return None if found is None else part_of(*found)

    def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """See `LakeArtifactService.list_artifact_keys`."""
        check_scope(app_name, user_id, session_id)
        views = self.lake.artifacts.views(app_name, user_id, session_id)
        return [view.key.filename for view in views]

    def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """See `LakeArtifactService.delete_artifact`."""
        self.lake.artifacts.delete(self.writable_key(app_name, user_id, filename, session_id))

    def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """See `LakeArtifactService.list_versions`."""
        view = self.lake.artifacts.read(checked_key(app_name, user_id, filename, session_id))
        return [saved.artifact_version for saved in view.saves]

    def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """See `LakeArtifactService.list_artifact_versions`."""
        view = self.lake.artifacts.read(checked_key(app_name, user_id, filename, session_id))
        return [version_of(saved, self.lake.artifacts.uri(saved)) for saved in view.saves]

    def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """See `LakeArtifactService.get_artifact_version`."""
        key = checked_key(app_name, user_id, filename, session_id)
        saved = self.lake.artifacts.find(key, _version(version))
        return None if saved is None else version_of(saved, self.lake.artifacts.uri(saved))

    def get_signed_url(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
        expiration: float | timedelta = HOUR,
    ) -> str | None:
        """See `LakeArtifactService.get_signed_url`."""
        key = checked_key(app_name, user_id, filename, session_id)
        seconds = _seconds(expiration)

        def look(key: ArtifactKey, version: int | None) -> _Found:
            saved = self.lake.artifacts.find(key, version)
            return None if saved is None else (saved, b"")

        found = _follow(key, session_id, _version(version), look)
        if found is None or found[0].payload is None:
            return None
        with refused_alike():
            return self.lake.environment.store.sign(found[0].payload, seconds)

    def writable_key(
        self, app_name: object, user_id: object, filename: object, session_id: object
    ) -> ArtifactKey:
        """Return what names an artifact that is to be changed.

        Raises:
            ArtifactInputError: an id or the name cannot be.
            ReadOnlyError: the lake was opened with `read_only=True`.
        """
        key = checked_key(app_name, user_id, filename, session_id)
        if self.lake.read_only:
            raise ReadOnlyError("a lake that was opened with read_only=True takes no artifacts")
        return key


def _version(version: object) -> int | None:
    with refused_alike():
        return check_version(version)


def _seconds(expiration: object) -> float:
    if isinstance(expiration, timedelta):
        return expiration.total_seconds()
    with refused_alike():
        return check_seconds("expiration", expiration)


def _follow(
    key: ArtifactKey,
    session_id: str | None,
    version: int | None,
    look: Callable[[ArtifactKey, int | None], _Found],
) -> tuple[Saved, bytes, ArtifactKey] | None:
    """Return the version that a caller means, where references lead, and whose it is."""
    with refused_alike():
        target, found = followed(Target(key, session_id, version), look)
    return None if found is None else (*found, target.key)
