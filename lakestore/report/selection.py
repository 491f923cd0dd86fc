"""Which part of a lake a report is about: an app, a time. Owns the condition in SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lakestore.checks import check_time
from lakestore.errors import InputError


@dataclass(frozen=True, slots=True)
class Selection:
    """What a report is about.

    Raises:
        InputError: a time has no zone, or `until` is not after `since`.
    """

    app_name: str | None = None
    """The app; None for all."""
    since: datetime | None = None
    """From when on, inclusive, with a zone; None from the beginning."""
    until: datetime | None = None
    """Until when, exclusive, with a zone; None to the end."""

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None:
                check_time(name, moment)
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InputError(f"until must be after since. since={self.since} until={self.until}")

    @property
    def from_the_beginning(self) -> Selection:
        """The same without `since`."""
        return replace(self, since=None)

    def where(self, time: str) -> tuple[str, list[Any]]:
        """Return the condition on rows whose time is in the column `time`, and its values."""
        wanted = (
            ("app_name = ?", self.app_name),
            (f"{time} >= ?", self.since),
            (f"{time} < ?", self.until),
        )
        given = [(condition, value) for condition, value in wanted if value is not None]
        conditions = " AND ".join(condition for condition, _ in given)
        return conditions or "true", [value for _, value in given]
