"""What order equals come in: sessions by their first memory, and in each as they were added.

That is the order of ADK's InMemoryMemoryService. Owns no rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

_IN_SESSION = 32


class Order:
    """The ranks of numbered rows, kept while rows come in order, counted anew when they do not."""

    def __init__(self) -> None:
        self._places: list[str] = []
        self._sessions: list[Hashable] = []
        self._begun: dict[Hashable, str] = {}
        self._last = ""
        self._known = True
        self._ranks = array("q")
        self._session_ranks: dict[Hashable, int] = {}
        self._in_session: dict[Hashable, int] = {}

    def append(self, session: Hashable, place: str) -> None:
        """Add the next row, which has that place."""
        is_last = place > self._last
        self._places.append(place)
        self._sessions.append(session)
        self.begin(session, place)
        self._known = self._known and is_last
        if self._known:
            self._last = place
            self._ranks.append(self._next(session))

    def begin(self, session: Hashable, place: str) -> None:
        """Note that a session had a memory at `place`, whether it is still there or not."""
        begun = self._begun.get(session)
        if begun is not None and begun <= place:
            return
        self._begun[session] = place
        if begun is None and place > self._last:
            self._session_ranks[session] = len(self._session_ranks)
            self._last = place
        else:
            self._known = False

    def place(self, number: int) -> str:
        """Return the place of a row."""
        return self._places[number]

    def move(self, number: int, place: str) -> None:
        """Give a row another place."""
        if place != self._places[number]:
            self._places[number] = place
            self.begin(self._sessions[number], place)
            self._known = False

    def renumber(self, kept: Sequence[int]) -> None:
        """Keep these rows alone, in this order."""
        self._places = [self._places[number] for number in kept]
        self._sessions = [self._sessions[number] for number in kept]
        self._known = False

    def ranks(self) -> npt.NDArray[np.int64]:
        """Return a number for each row; the lower comes first."""
        if not self._known:
            self._count()
        return np.array(self._ranks, np.int64)

    def _count(self) -> None:
        self._session_ranks, self._in_session = {}, {}
        for session in sorted(self._begun, key=self._begun.__getitem__):
            self._session_ranks[session] = len(self._session_ranks)
        order = sorted(range(len(self._places)), key=self._places.__getitem__)
        ranks = [0] * len(order)
        for number in order:
            ranks[number] = self._next(self._sessions[number])
        self._ranks = array("q", ranks)
        self._known = True
        self._last = max([*self._begun.values(), *self._places], default="")

    def _next(self, session: Hashable) -> int:
        count = self._in_session[session] = self._in_session.get(session, -1) + 1
        return self._session_ranks[session] << _IN_SESSION | count
