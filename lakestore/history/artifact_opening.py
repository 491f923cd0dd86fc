"""Payloads of artifacts as files. Owns what is said where there is none."""

from __future__ import annotations

from io import BufferedReader

from lakestore.errors import FormatError, InputError, NotFoundError
from lakestore.history.artifact_references import Target, followed
from lakestore.history.artifacts import Artifacts
from lakestore.log.keys import ArtifactKey
from lakestore.storage import ObjectStore, open_object
from lakestore.tables.artifacts import Saved


def open_payload(artifacts: Artifacts, store: ObjectStore, asked: Target) -> BufferedReader:
    """Return the payload of a version, where references lead, as a file that is read by ranges.

    Warm: 1 GET and 1 HEAD, and a GET for each range.

    Raises:
        NotFoundError: there is no such artifact, or version.
        InputError: it points at something outside of the lake, or references lead out of scope.
        FormatError: the payload is gone or cut, or see `Artifacts.read`.
        StorageError: the store failed.
    """

    def look(key: ArtifactKey, version: int | None) -> tuple[Saved, bytes] | None:
        saved = artifacts.find(key, version)
        return None if saved is None else (saved, b"")

    missing = ""
    while True:
        target, found = followed(asked, look)
        if found is None:
            raise _absent(artifacts, asked)
        payload, size = found[0].payload, found[0].size or 0
        if payload is None:
            raise InputError(
                f"artifact {asked.key.filename!r} only points at something: open it there."
                f" file_uri={found[0].file_uri!r}"
            )
        if payload == missing:
            raise FormatError(f"a payload is gone that is still referred to. key={payload!r}")
        try:
            stored = store.size(payload)
        except NotFoundError:  # deleted since, and swept
            missing = payload
            artifacts.load(target.key)
            continue
        if stored != size:
            raise FormatError(f"a payload is not what was saved. key={payload!r}")
        return open_object(store, payload, size)


def _absent(artifacts: Artifacts, asked: Target) -> NotFoundError:
    view, name = artifacts.read(asked.key), asked.key.filename
    if view.find(asked.version) is not None:
        return NotFoundError(f"artifact {name!r} refers to a version that is not there any more")
    if not view.alive:
        return NotFoundError(f"no artifact {name!r} is there: see list_artifact_keys")
    first, last = view.saves[0].artifact_version, view.saves[-1].artifact_version
    return NotFoundError(
        f"artifact {name!r} has no version {asked.version}: it has {first} to {last}"
    )
