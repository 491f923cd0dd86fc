"""Between ADK's `Part` and what is stored of a version. Owns which parts are refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.genai import types
from pydantic import ValidationError

from lakestore.adk.artifact_names import ArtifactInputError, refused_alike
from lakestore.adk.convert import json_metadata, reason_of, without_unknown
from lakestore.checks import check_text
from lakestore.errors import FormatError
from lakestore.history.artifact_references import REFERENCE, target_of
from lakestore.history.artifact_uploads import Draft
from lakestore.log.keys import ArtifactKey, commit_key
from lakestore.log.mime_types import extension_of, type_of
from lakestore.tables.artifacts import Saved
from lakestore.tables.state import to_json

logger = logging.getLogger(__name__)

_TEXT = "text/plain"
_TOMBSTONE = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
"""What a rewind of ADK saves to say that there was no such artifact yet."""
_KINDS = {"inline_data": types.Blob, "text": str, "file_data": types.FileData}
_TEXTS = {"mime_type": str, "display_name": str, "file_uri": str}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be saved, sure that it can be."""

    draft: Draft
    payload: bytes | None = field(repr=False)


def prepare(
    artifact: object,
    metadata: Mapping[str, object] | None,
    key: ArtifactKey,
    session_id: str | None,
) -> Prepared:
    """Return what is to be stored of an artifact that is given to save.

    Args:
        artifact: A `Part`, or one as a dict.
        metadata: The caller's own.
        key: Where it is to be saved.
        session_id: The session of whoever saves it.

    Raises:
        ArtifactInputError: it is of no kind that artifacts are, or cannot be written.
    """
    part = _part_of(artifact)
    rest, payload, extra = _split(part, key, session_id)
    shown = part.inline_data or part.file_data
    draft = Draft(
        part=_json(rest),
        display_name=shown.display_name if shown else None,
        custom_metadata=_metadata(metadata),
        **extra,
    )
    return Prepared(draft, payload)


def prepare_file(
    key: ArtifactKey,
    mime_type: str | None,
    display_name: str | None,
    metadata: Mapping[str, object] | None,
) -> Draft:
    """Return what is to be stored of a file besides its bytes.

    Raises:
        ArtifactInputError: an argument is no text, or cannot be written.
    """
    with refused_alike():
        for name, value in (("mime_type", mime_type), ("display_name", display_name)):
            if value is not None:
                check_text(name, value)
    mime_type = mime_type or type_of(key.filename)
    blob = types.Blob(mime_type=mime_type, display_name=display_name, data=b"")
    return prepare(types.Part(inline_data=blob), metadata, key, key.session_id).draft


def _metadata(metadata: Mapping[str, object] | None) -> str | None:
    with refused_alike():
        kept = {} if metadata is None else json_metadata(metadata)
    return to_json(kept) if kept else None


def _part_of(artifact: object) -> types.Part:
    if isinstance(artifact, Mapping):
        if not all(isinstance(name, str) for name in artifact):
            raise ArtifactInputError("an artifact as a dict is no Part: its keys are texts")
        try:
            return ensure_part(dict(artifact))
        except ValidationError as error:
            wrong = [each["type"] for each in error.errors()]
            raise ArtifactInputError(f"an artifact as a dict is no Part. {wrong=}") from None
    if not isinstance(artifact, types.Part):
        raise ArtifactInputError(
            f"an artifact is a types.Part, or one as a dict. type={type(artifact).__name__}"
        )
    _check_kinds(artifact, _KINDS)
    _check_kinds(artifact.inline_data, _TEXTS)
    _check_kinds(artifact.file_data, _TEXTS)
    return artifact


def _check_kinds(given: object, kinds: Mapping[str, type]) -> None:
    """Refuse what was set to something else since it was made, which pydantic lets pass."""
    for name, kind in kinds.items():
        value = getattr(given, name, None)
        if not isinstance(value, kind | None):
            raise ArtifactInputError(
                f"an artifact's {name} is a {kind.__name__}. type={type(value).__name__}"
            )


def _split(
    part: types.Part, key: ArtifactKey, session_id: str | None
) -> tuple[types.Part, bytes | None, dict[str, Any]]:
    """Return a part without its payload, the payload, and what more there is to say of it."""
    if part.inline_data is not None:
        blob = part.inline_data
        if not isinstance(blob.data, bytes):
            raise ArtifactInputError("an artifact's inline_data needs data, which may be empty")
        rest = part.model_copy(update={"inline_data": blob.model_copy(update={"data": None})})
        return rest, blob.data, _described(blob.mime_type)
    if part.text is not None:
        return part.model_copy(update={"text": None}), _encoded(part.text), _text()
    if part.file_data is not None:
        uri, mime = part.file_data.file_uri, part.file_data.mime_type
        if not uri:
            raise ArtifactInputError("an artifact's file_data needs a file_uri")
        if uri.startswith(REFERENCE):
            with refused_alike():
                target_of(uri, key, session_id)
            mime = None
        return part, None, {"file_uri": uri, "mime_type": mime}
    raise ArtifactInputError("an artifact is a part with inline_data, text or file_data")


def _described(mime_type: str | None) -> dict[str, Any]:
    """Return what a `Draft` says of a payload of that type."""
    if mime_type is None:
        return {}
    ending = extension_of(mime_type)
    return {"mime_type": mime_type, "content_type": mime_type, "extension": ending}


def _text() -> dict[str, Any]:
    return {"mime_type": _TEXT, "content_type": f"{_TEXT}; charset=utf-8", "extension": ".txt"}


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ArtifactInputError("an artifact's text must be without lone surrogates") from None


def _json(part: types.Part) -> str:
    try:
        return part.model_dump_json(exclude_none=True, by_alias=True, warnings="error")
    except (ValueError, TypeError, RecursionError) as error:
        raise ArtifactInputError(
            f"an artifact cannot be written as JSON. {reason_of(error)}"
        ) from None


def part_of(saved: Saved, body: bytes, key: ArtifactKey) -> types.Part | None:
    """Return the part that was saved in `key`, None for one that says that there is no artifact.

    Fields that this ADK does not know are dropped with a warning; they stay stored.

    Raises:
        FormatError: it cannot be read.
    """
    where = commit_key(key.log, saved.version)
    try:
        part = types.Part.model_validate_json(saved.part)
    except ValidationError as error:
        part = _known(saved.part, error, where)
    if saved.payload is not None and part.inline_data is not None:
        part.inline_data.data = body
    elif saved.payload is not None:
        try:
            part.text = body.decode()
        except UnicodeDecodeError:
            raise FormatError(f"an artifact's text is no UTF-8. key={saved.payload!r}") from None
    return None if part == _TOMBSTONE else part


def _known(stored: str, error: ValidationError, where: str) -> types.Part:
    try:
        known = without_unknown(types.Part, json.loads(stored), error)
    except (ValueError, RecursionError, AttributeError):
        known = None
    if known is None:
        raise FormatError(f"an artifact cannot be parsed by this ADK. key={where!r}")
    part, dropped = known
    logger.warning(
        "an artifact has fields that this ADK does not know. fields=%r key=%r", dropped, where
    )
    return part


def version_of(saved: Saved, uri: str) -> ArtifactVersion:
    """Return what ADK says of a version; `uri` is its payload's, or what it points at."""
    return ArtifactVersion(
        version=saved.artifact_version,
        canonical_uri=uri,
        custom_metadata=json.loads(saved.custom_metadata or "{}"),
        create_time=saved.committed_at / 1_000_000,
        mime_type=saved.mime_type,
    )
