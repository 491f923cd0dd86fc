"""Names of artifacts, as ADK has them. Owns what of these is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.adk.artifacts import artifact_util
from google.adk.errors.input_validation_error import InputValidationError

from lakestore.errors import InputError
from lakestore.log.filenames import artifact_key
from lakestore.log.ids import check_id
from lakestore.log.keys import ArtifactKey


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
