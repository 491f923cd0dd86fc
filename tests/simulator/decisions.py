"""What a history leaves to chance: every choice by the name of the place where it is made.

A choice that is not the first option is written down. Given back, it is made again at that place,
and everywhere else the first option is taken: so any part of the choices is a history too, and a
failing one is shrunk by leaving choices out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random


class Decisions:
    """Makes choices: as given, else at random, else the first option."""

    def __init__(self, given: Mapping[str, str] | None = None, draw: Random | None = None) -> None:
        self._given = dict(given or {})
        self._draw = draw
        self.made: dict[str, str] = {}
        """All choices, by place, that are not the first option."""

    def choose(
        self, place: str, options: Sequence[str], chance: float, weights: Sequence[float] = ()
    ) -> str:
        """Return one of `options`.

        Args:
            place: Names the choice; no other has that name.
            options: The first one is what happens unless something else is chosen.
            chance: How likely another one than the first is.
            weights: How likely each but the first is, among these; all the same if not given.
        """
        chosen = options[0]
        if place in self._given:
            chosen = self._given[place] if self._given[place] in options else chosen
        elif self._draw is not None and len(options) > 1 and self._draw.random() < chance:
            (chosen,) = self._draw.choices(options[1:], weights or None)
        if chosen != options[0]:
            self.made[place] = chosen
        return chosen
