"""ADK's artifact service on a lake. Owns the async face, nothing of what it does."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from google.genai import types
from typing_extensions import override

from lakestore.adk.artifact_parts import prepare
from lakestore.adk.artifact_sources import Source
from lakestore.adk.sync_artifacts import HOUR, SyncArtifactService
from lakestore.adk.uris import ServiceUri, shared_lake
from lakestore.errors import InputError
from lakestore.lake import Lake


class LakeArtifactService(BaseArtifactService):
    """Keeps files that agents save in a lake, which any number of processes may share.

    What goes in comes out as the same kind of part. Payloads are plain files in the lake, which
    anybody with access to it opens by their `canonical_uri`. A name that begins with `user:`, or
    that is saved without a session, is the user's, and listed with `user:` by every session.
    ARTIFACTS.md says where it differs from ADK's own services. When a call that saves or deletes
    returns, that is durable.
    """

    def __init__(
        self,
        lake: Lake | None = None,
        *,
        uri: str | None = None,
        agents_dir: str | None = None,
        **options: Any,
    ) -> None:
        """Work on `lake`, or on the one that `uri` names, as ADK's service registry calls it.

        Args:
            lake: An open lake, which you close: the service needs no closing.
            uri: See `LakeSessionService`.
            agents_dir: Accepted, as ADK passes it, and not needed.
            **options: More options of the URI.

        Raises:
            InputError: not exactly one of `lake` and `uri` is given, or an option is not known.
            LakeError: the lake cannot be opened.
        """
        if (lake is None) == (uri is None):
            raise InputError("give either a lake or a uri")
        if lake is None:
            lake = shared_lake(ServiceUri.parse(uri or "", options))
        elif options:
            raise InputError(f"options go with a uri. unknown={sorted(options)}")
        self.lake = lake
        """The lake that artifacts are kept in."""
        self.sync = SyncArtifactService(lake)
        """The same operations, blocking, for code without an event loop."""

    @override
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save the next version of an artifact; return its number, from 0.

        Parallel savers get numbers one after another. Content that a version of this artifact has
        is not stored again, if it is still there. Costs 2 PUT where the process has seen the name
        before.

        Args:
            app_name: The app.
            user_id: The user.
            filename: Any name that is not blank, rooted or drive-qualified, nor has a `..` segment.
            artifact: A part with `inline_data`, `text` or `file_data`, or one as a dict. What
                `file_data` points at is not copied; an `artifact://` URI must be of the same user,
                and of the same session or of none.
            session_id: The session; None for an artifact that all sessions of the user share.
            custom_metadata: Is kept with the version, as JSON.

        Raises:
            InputError: an argument makes no sense; nothing was written. It is ADK's
                `InputValidationError`, too.
            ReadOnlyError: the lake was opened with `read_only=True`.
            FormatError: the artifact's log is damaged.
            StorageError: it was not saved, or (`UnknownOutcomeError`) it may have been.
        """
        key = self.sync.writable_key(app_name, user_id, filename, session_id)
        # What the caller changes from here on is not saved.
        prepared = prepare(artifact, custom_metadata, key, session_id)
        return await self.lake.run(partial(self.sync.save_prepared, key, prepared))

    async def save_file(
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
        """Save a file as the next version, however large it is; return the version's number.

        It is read and sent piece by piece, and loads as a part with `inline_data`. When it cannot
        be read to its end, nothing is saved and nothing is left.

        Args:
            app_name: The app.
            user_id: The user.
            filename: What it is called here, see `save_artifact`.
            source: A path, a file that is open for reading bytes, or pieces of bytes.
            session_id: The session; None for an artifact that all sessions of the user share.
            mime_type: None: what the file name tells of.
            display_name: Is kept with the version.
            custom_metadata: See `save_artifact`.

        Raises:
            OSError: the source cannot be read.
            InputError, ReadOnlyError, FormatError, StorageError: see `save_artifact`.
        """
        save = partial(
            self.sync.save_file,
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            source=source,
            session_id=session_id,
            mime_type=mime_type,
            display_name=display_name,
            custom_metadata=custom_metadata,
        )
        return await self.lake.run(save)

    @override
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a version, None where there is none, or where a rewind has said so.

        References are followed, up to five. Warm it costs 1 GET and, beside it, 1 for the payload,
        whose digest is looked at.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As it was saved, or is listed.
            session_id: The session; None for an artifact that all sessions of the user share.
            version: Its number; None for the latest.

        Raises:
            InputError: an argument makes no sense, or a reference leads out of scope, or too far.
            FormatError: the payload, or the artifact's log, is damaged, or the payload is gone.
            StorageError: the store failed.
        """
        load = partial(
            self.sync.load_artifact,
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            session_id=session_id,
            version=version,
        )
        return await self.lake.run(load)

    @override
    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the names of a session's artifacts and of the user's, sorted, as others take them.

        Costs 2 LIST, what is packed, and a GET for each that was saved since and is not cached.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session; None for only those that all sessions of the user share.

        Raises:
            InputError: an id makes no sense.
            FormatError: a manifest, or a run that it names, is damaged.
            StorageError: the store failed.
        """
        names = partial(
            self.sync.list_artifact_keys,
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
        )
        return await self.lake.run(names)

    @override
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """End all versions of an artifact; nothing happens when there is none.

        The next version is 0 again, under URIs that were never used. A sweep takes the payloads
        out of the store after the grace.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As it was saved, or is listed.
            session_id: The session; None for an artifact that all sessions of the user share.

        Raises:
            InputError, ReadOnlyError, FormatError, StorageError: see `save_artifact`.
        """
        delete = partial(
            self.sync.delete_artifact,
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            session_id=session_id,
        )
        await self.lake.run(delete)

    @override
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of all versions that there are, ascending. Warm it costs 1 GET.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As it was saved, or is listed.
            session_id: The session; None for an artifact that all sessions of the user share.

        Raises:
            InputError, FormatError, StorageError: see `load_artifact`.
        """
        versions = partial(
            self.sync.list_versions,
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            session_id=session_id,
        )
        return await self.lake.run(versions)

    @override
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return what is known of all versions that there are, as `get_artifact_version` does.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As it was saved, or is listed.
            session_id: The session; None for an artifact that all sessions of the user share.

        Raises:
            InputError, FormatError, StorageError: see `load_artifact`.
        """
        versions = partial(
            self.sync.list_artifact_versions,
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            session_id=session_id,
        )
        return await self.lake.run(versions)

    @override
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return what is known of a version, None where there is none. Warm it costs 1 GET.

        Its `canonical_uri` is what `fsspec.open` takes for the payload, or what `file_data` points
        at; `create_time` is the saver's clock.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As it was saved, or is listed.
            session_id: The session; None for an artifact that all sessions of the user share.
            version: Its number; None for the latest.

        Raises:
            InputError, FormatError, StorageError: see `load_artifact`.
        """
        find = partial(
            self.sync.get_artifact_version,
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            session_id=session_id,
            version=version,
        )
        return await self.lake.run(find)

    async def get_signed_url(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
        expiration: float | timedelta = HOUR,
    ) -> str | None:
        """Return an HTTP address by which anybody can read a payload, until it expires.

        None where there is no such version, or where it points at something outside of the lake.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As it was saved, or is listed.
            session_id: The session; None for an artifact that all sessions of the user share.
            version: Its number; None for the latest.
            expiration: Seconds from now, or a timedelta; up to a week.

        Raises:
            InputError: an argument makes no sense, or this store or its credentials sign nothing.
            FormatError, StorageError: see `load_artifact`.
        """
        sign = partial(
            self.sync.get_signed_url,
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            session_id=session_id,
            version=version,
            expiration=expiration,
        )
        return await self.lake.run(sign)
