"""What an artifact may be called, and whose it is by its name. Owns one rule for all calls."""

from __future__ import annotations

import re

from lakestore.errors import InputError
from lakestore.log.ids import check_id
from lakestore.log.keys import ArtifactKey

USER = "user:"
"""Begins the name of an artifact that all sessions of its user share."""

_ROOTED = re.compile(r"[/\\]|[A-Za-z]:")
_SEPARATOR = re.compile(r"[/\\]")


def artifact_key(
    app_name: object, user_id: object, filename: object, session_id: object
) -> ArtifactKey:
    """Return what names the artifact that a caller means.

    One is the user's, and not a session's, where its name begins with `user:` or no session is
    given; it is known with `user:` before its name then, so that each name that is listed loads.

    Raises:
        InputError: an id or the name cannot be.
    """
    name = check_id("filename", filename)
    app, user = check_id("app_name", app_name), check_id("user_id", user_id)
    is_shared = name.startswith(USER)
    _check_path(name.removeprefix(USER))
    if is_shared or session_id is None:
        return ArtifactKey(app, user, None, name if is_shared else USER + name)
    return ArtifactKey(app, user, check_id("session_id", session_id), name)


def check_version(version: object) -> int | None:
    """Return `version` if it is None or a whole number; of a negative one there is no artifact.

    Raises:
        InputError: it is neither.
    """
    if version is None or (isinstance(version, int) and not isinstance(version, bool)):
        return version
    raise InputError(f"version is a whole number. type={type(version).__name__}")


def _check_path(name: str) -> None:
    """Refuse what some system would take for a place of its own choosing."""
    if not name.strip():
        raise InputError("a filename must not be blank, also after user:")
    if _ROOTED.match(name.strip()):
        raise InputError("a filename must not begin with a separator or a drive, such as /x or C:x")
    if ".." in _SEPARATOR.split(name):
        raise InputError("a filename must not have a segment that is `..`")
