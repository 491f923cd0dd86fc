"""References among artifacts: where they lead, and who may follow them. Owns their grammar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakestore.errors import InputError
from lakestore.log.filenames import artifact_key
from lakestore.log.keys import ArtifactKey
from lakestore.tables.artifacts import Saved

REFERENCE = "artifact://"
MOST_REFERENCES = 5
"""How many references a lookup follows, as in ADK's services."""

_VERSIONS = "/versions/"
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Target:
    """A version of an artifact, and whose session asks for it."""

    key: ArtifactKey
    session_id: str | None
    version: int | None
    """None for the latest."""


def target_of(file_uri: str, key: ArtifactKey, session_id: str | None) -> Target:
    """Return what a reference leads to, sure that whoever means `key` may see it.

    Args:
        file_uri: Begins with `artifact://`.
        key: The artifact that holds the reference.
        session_id: The session of whoever saves or loads it.

    Raises:
        InputError: it is malformed, or leads out of scope.
    """
    user = f"{REFERENCE}apps/{key.app_name}/users/{key.user_id}/"
    scopes: dict[str, str | None] = {f"{user}artifacts/": None}
    if session_id is not None:
        scopes[f"{user}sessions/{session_id}/artifacts/"] = session_id
    for prefix, session in scopes.items():
        name, _, version = file_uri.removeprefix(prefix).rpartition(_VERSIONS)
        if file_uri.startswith(prefix) and version.isdecimal() and len(version) <= _DIGITS:
            target = artifact_key(key.app_name, key.user_id, name, session)
            return Target(target, session, int(version))
    raise InputError(
        "a reference is artifact://apps/<app>/users/<user>/[sessions/<session>/]artifacts/<name>"
        "/versions/<number>, of the same app and user, and of the same session or of none"
    )


def followed(
    asked: Target, look: Callable[[ArtifactKey, int | None], tuple[Saved, bytes] | None]
) -> tuple[Target, tuple[Saved, bytes] | None]:
    """Return where the references end that begin with `asked`, and what `look` finds there.

    Raises:
        InputError: one leads out of scope, or there are too many of them.
        Exception: whatever `look` raises.
    """
    for _ in range(MOST_REFERENCES + 1):
        found = look(asked.key, asked.version)
        uri = found[0].file_uri if found else None
        if uri is None or not uri.startswith(REFERENCE):
            return asked, found
        asked = target_of(uri, asked.key, asked.session_id)
    raise InputError(f"references lead on and on: more than {MOST_REFERENCES}")
