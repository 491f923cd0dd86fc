"""Many sessions by one listing: what is listed of a log with what is packed of it, and how far.

Owns what stands beside what; reads no log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakestore.history.archive import Archive, Packed, Place
from lakestore.log.commits import LogFiles
from lakestore.log.keys import SessionKey
from lakestore.log.manifests import Manifest

Listed = tuple[str, LogFiles | None, Packed | None]
"""A log, what is listed of it, and what is packed of it."""


def paired(
    archive: Archive, manifest: Manifest, logs: dict[str, LogFiles], packed: Iterator[Packed]
) -> Iterator[Listed]:
    """Yield what is packed with what is listed of it, then what is only listed.

    Raises:
        NotFoundError, FormatError, StorageError: see `Archive.session`.
    """
    for each in packed:
        log = each.key.log
        yield log, logs.pop(log, None), each
    for log, files in logs.items():
        yield log, files, archive.erased_log(manifest, log)


def named(packed: Packed | None) -> SessionKey | None:
    """Return whose it is, None when only a digest tells."""
    return packed.key if packed is not None and packed.row.session_id else None


@dataclass(slots=True)
class Done:
    """What of a long listing was yielded already."""

    packed: Place | None = None
    """The last session that was packed, by user and session."""
    logs: set[str] = field(default_factory=set)
    """Logs of which something was listed."""
    all: bool = False

    def note(self, listed: Sequence[Listed]) -> None:
        """Note that these were yielded."""
        for log, files, packed in listed:
            if packed is not None and not packed.erased:
                self.packed = (packed.row.user_id, packed.row.session_id)
            if files is not None:
                self.logs.add(log)
