"""An artifact as its log folds to at one version. Owns the fold; asks no store for anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakestore.errors import FormatError
from lakestore.log.commits import Marker
from lakestore.log.keys import ArtifactKey
from lakestore.tables.artifacts import ArtifactRow, Commit, Kind, Named, Saved

_BYTES_OF_A_VIEW = 600
_BYTES_OF_A_VERSION = 800
"""Besides its texts that have no bound."""


class UnpackedError(Exception):
    """A commit builds on more than what is known to be packed: look for a newer manifest."""


@dataclass(frozen=True, slots=True)
class ArtifactView:
    """What a reader knows of an artifact. Never changes; `follow` returns the next one."""

    key: ArtifactKey
    seen: float
    """`Clock.elapsed` when it was confirmed to be the last version."""
    version: int = 0
    """Of the log; 0: no commit has ever been seen."""
    token: str = ""
    """The newest commit's."""
    saves: tuple[Saved, ...] = field(default=(), repr=False)
    """The versions that live, ascending; none when it was deleted, or never was."""
    named: Named | None = field(default=None, repr=False)
    """Payloads that were named last, before they go."""
    active_at: int = 0
    """`committed_at` of the newest commit, in microseconds since 1970 UTC."""
    packed: ArtifactRow | None = field(default=None, repr=False)
    """What is packed of it, if anything is."""

    @property
    def marker(self) -> Marker:
        """The last commit and when it was confirmed."""
        return Marker(self.version, self.token, self.seen)

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it holds."""
        texts = sum(
            len(text or "")
            for it in self.saves
            for text in (it.part, it.file_uri, it.display_name, it.custom_metadata)
        )
        return _BYTES_OF_A_VIEW + _BYTES_OF_A_VERSION * len(self.saves) + texts

    @property
    def alive(self) -> bool:
        """Whether it has a version."""
        return bool(self.saves)

    @property
    def packed_version(self) -> int:
        """The version up to which all is packed; 0 when nothing is."""
        return self.packed.version if self.packed else 0

    @property
    def next_version(self) -> int:
        """What ADK will call the next version by."""
        return self.saves[-1].artifact_version + 1 if self.saves else 0

    def find(self, version: int | None) -> Saved | None:
        """Return the version that ADK calls so, the latest for None; None when it does not live."""
        if version is None:
            return self.saves[-1] if self.saves else None
        return next((saved for saved in self.saves if saved.artifact_version == version), None)

    def on_packed(self, row: ArtifactRow) -> ArtifactView:
        """Return the view of what is packed of the artifact."""
        named = Named(row.named_version, "", 0, row.named) if row.named_version else None
        return replace(
            self,
            version=row.version,
            token=row.token,
            saves=row.saves,
            named=named,
            active_at=row.active_at,
            packed=row,
        )

    def on_commit(self, commit: Commit) -> ArtifactView:
        """Return the view after `commit`, a later one, which holds all that is not packed.

        Raises:
            UnpackedError: it does not hold all above what this view knows to be packed.
            FormatError: it is another artifact's.
        """
        if (
            ArtifactKey(commit.app_name, commit.user_id, commit.session_id, commit.filename)
            != self.key
        ):
            raise FormatError(f"a commit names another artifact than its key. key={self.key!r}")
        packed = self.packed_version
        if commit.base > packed:
            raise UnpackedError
        above = (saved for saved in commit.saves if saved.version > packed)
        saves = (*(self.packed.saves if self.packed else ()), *above)
        return replace(
            self,
            version=commit.version,
            token=commit.token,
            saves=tuple(saved for saved in saves if saved.version >= commit.first),
            named=commit.named or self.named,
            active_at=commit.committed_at,
        )

    def commit(
        self,
        kind: Kind,
        token: str,
        now: int,
        *,
        saved: Saved | None = None,
        kept: Sequence[Saved] | None = None,
        payloads: Sequence[str] = (),
    ) -> Commit:
        """Return what would be the next commit.

        Args:
            kind: What it does.
            token: Its own.
            now: The clock, in microseconds since 1970 UTC.
            saved: Of a `save` the new version.
            kept: The newest of the versions that live, which go on living; None for all.
            payloads: Of a `name` the keys of payloads that may go.
        """
        version = self.version + 1
        living = [*(self.saves if kept is None else kept), *([saved] if saved else [])]
        named = self.named if self.named and self.named.version > self.packed_version else None
        if kind == "name":
            named = Named(version, token, now, tuple(payloads))
        return Commit(
            *(self.key.app_name, self.key.user_id, self.key.session_id, self.key.filename),
            version=version,
            kind=kind,
            token=token,
            previous=self.token,
            committed_at=now,
            base=self.packed_version,
            first=living[0].version if living else version + 1,
            saves=tuple(each for each in living if each.version > self.packed_version),
            named=named,
        )

    def confirmed(self, seen: float) -> ArtifactView:
        """Return the same view, confirmed at `seen`."""
        return replace(self, seen=seen)

    def row(self) -> ArtifactRow:
        """Return what is packed of the artifact when all of it is."""
        return ArtifactRow(
            *(self.key.app_name, self.key.user_id, self.key.session_id, self.key.filename),
            version=self.version,
            token=self.token,
            active_at=self.active_at,
            saves=self.saves,
            named=self.named.payloads if self.named else (),
            named_version=self.named.version if self.named else 0,
        )
