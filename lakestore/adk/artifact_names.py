"""Names of artifacts and references to them, as ADK has them. Owns what of these is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.adk.artifacts import artifact_util
from google.adk.artifacts.artifact_util import ParsedArtifactUri
from google.adk.errors.input_validation_error import InputValidationError

from lakestore.errors import InputError
from lakestore.log.filenames import artifact_key
from lakestore.log.ids import check_id
from lakestore.log.keys import ArtifactKey

MOST_REFERENCES = 5
"""How many references a lookup follows, as in ADK's services."""


class ArtifactInputError(InputError, InputValidationError):
    """Refused before anything was written, and known to ADK as that."""


@contextmanager
def refused_alike() -> Iterator[None]:
    """Raise every refusal as an `ArtifactInputError`."""
    try:
        yield
    except ArtifactInputError:
        raise
    except InputError as error:
        raise ArtifactInputError(str(error)) from error


def checked_key(
    app_name: object, user_id: object, filename: object, session_id: object
) -> ArtifactKey:
    """Return what names an artifact, where each id is one that ADK's artifact services take.

    Raises:
        ArtifactInputError: one is not, or the name cannot be.
    """
    with refused_alike():
        key = artifact_key(app_name, user_id, filename, session_id)
        _check_segments(app_name=key.app_name, user_id=key.user_id, session_id=key.session_id)
    return key


def check_scope(app_name: object, user_id: object, session_id: object) -> None:
    """Refuse ids under which no artifact can be.

    Raises:
        ArtifactInputError: one is such.
    """
    with refused_alike():
        given = {"app_name": app_name, "user_id": user_id}
        if session_id is not None:
            given["session_id"] = session_id
        _check_segments(**{name: check_id(name, value) for name, value in given.items()})


def _check_segments(**ids: str | None) -> None:
    for name, value in ids.items():
        if value is not None:
            try:
                artifact_util.validate_path_segment(value, name)
            except InputValidationError:  # its text may quote the id
                raise InputError(
                    f"{name} is none that artifacts can have: blank, rooted, drive-qualified, with"
                    " a `..` segment, or with a separator and apps, users, sessions, artifacts or"
                    " versions as a segment"
                ) from None


def check_reference(
    file_uri: str, key: ArtifactKey, session_id: str | None, left: int = MOST_REFERENCES
) -> ParsedArtifactUri:
    """Return what a reference points at, sure that whoever means `key` may see it.

    Args:
        file_uri: Begins with `artifact://`.
        key: The artifact that holds the reference.
        session_id: The session of whoever saves or loads it.
        left: How many references may still be followed.

    Raises:
        ArtifactInputError: it is malformed, out of scope, or one of too many.
    """
    if left <= 0:
        raise ArtifactInputError(f"references lead on and on: more than {MOST_REFERENCES}")
    try:
        found = artifact_util.parse_artifact_uri(file_uri)
    except ValueError:  # a version of more digits than Python reads
        found = None
    if found is None:
        raise ArtifactInputError(
            "a reference is artifact://apps/<app>/users/<user>/[sessions/<session>/]"
            "artifacts/<name>/versions/<number>"
        )
    try:
        artifact_util.validate_artifact_reference_scope(
            app_name=key.app_name, user_id=key.user_id, session_id=session_id, parsed_uri=found
        )
    except InputValidationError as error:
        raise ArtifactInputError(str(error)) from error
    checked_key(found.app_name, found.user_id, found.filename, found.session_id)
    return found
