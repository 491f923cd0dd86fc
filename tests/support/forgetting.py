"""What pruning and erasing make of a lake, said by the model itself; no code is lakestore's.

Events here are plain: no calls of functions, no rewinds. What those keep is `test_cutting`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from tests.support.model import Commit, Ids, LakeModel, Shown, State, own_part

DAY = 86_400.0


@dataclass
class Scope:
    """Of whom something is forgotten."""

    app: str | None
    user: str | None = None

    def holds(self, app: str, user: str) -> bool:
        """Tell whether it is this user of this app."""
        return self.app in (None, app) and self.user in (None, user)


@dataclass
class _Place:
    commit: Commit
    shown: Shown
    group: int
    """The place of the first event of its invocation."""


class ForgettingModel(LakeModel):
    """A lake of which some may be forgotten; each method returns how much was."""

    def prune_sessions(self, scope: Scope, before: float, keep_last: int = 0) -> int:
        """Delete the sessions whose last commit is that old, but the newest few of each user."""
        idle = []
        for app, user in {ids[:2] for ids in self.logs if scope.holds(*ids[:2])}:
            newest_last = sorted(
                self.living(app, user), key=lambda ids: (self.logs[ids][-1].at, ids[2])
            )
            idle += newest_last[: len(newest_last) - keep_last] if keep_last else newest_last
        idle = [ids for ids in idle if self.logs[ids][-1].at <= before]
        for ids in idle:
            self.delete(ids)
        return len(idle)

    def prune_user_state(self, scope: Scope, before: float) -> int:
        """Forget the keys of users that were set last that long ago."""
        idle = [
            (app, user, key)
            for (app, user), state in self.users.items()
            for key in state
            if scope.holds(app, user) and self.set_at[app, user, key] <= before
        ]
        for app, user, key in idle:
            del self.users[app, user][key]
        return len(idle)

    def prune_events(self, scope: Scope, before: float) -> int:
        """Cut the old invocations out of living sessions, and put one event for each stretch."""
        living = [ids for ids in self.logs if scope.holds(*ids[:2]) and self.alive(ids)]
        return sum(self._cut(ids, before) for ids in living)

    def _cut(self, ids: Ids, before: float) -> int:
        places = list(self._places(ids))
        young = {place.group for place in places if place.commit.at > before}
        border = next((n for n, place in enumerate(places) if place.group in young), len(places))
        kept = {place.group for place in places[border:]}
        gone, is_marked = 0, False
        for stays, some in groupby(places, key=lambda place: place.group in kept):
            stretch = list(some)
            if stays or all(place.shown.stands_for for place in stretch):
                is_marked = is_marked or any(place.shown.stands_for for place in stretch)
                continue
            gone += sum(not place.shown.stands_for for place in stretch)
            for place in stretch:
                place.commit.shown.remove(place.shown)
            made = self._placeholder(ids, stretch)
            if not is_marked or made.event["actions"]["state_delta"]:
                last = stretch[-1].commit
                last.shown = sorted([*last.shown, made], key=lambda shown: shown.ordinal)
                is_marked = True
        if gone:
            self.swept.add(ids)  # what is sent again may not be recognised
        return gone

    def _places(self, ids: Ids) -> Iterator[_Place]:
        first: dict[str, int] = {}
        shown = ((commit, each) for commit in self.life(ids) for each in commit.shown)
        for number, (commit, each) in enumerate(shown):
            turn = each.event["invocation_id"]
            yield _Place(commit, each, first.setdefault(turn, number) if turn else number)

    def _placeholder(self, ids: Ids, stretch: list[_Place]) -> Shown:
        delta: State = {}
        for place in stretch:
            delta.update(own_part(place.shown.event["actions"]["state_delta"]))
        last = stretch[-1]
        (version,) = (n for n, it in enumerate(self.logs[ids], start=1) if it is last.commit)
        count = sum(place.shown.stands_for or 1 for place in stretch)
        event = {
            "custom_metadata": {"lakestore_pruned": {"events": count, "version": version}},
            "invocation_id": "",
            "author": "lakestore",
            "actions": {
                "state_delta": delta,
                "artifact_delta": {},
                "requested_auth_configs": {},
                "requested_tool_confirmations": {},
            },
            "node_info": {"path": ""},
            "id": f"pruned-{version}-{last.shown.ordinal}",
            "timestamp": last.shown.event["timestamp"],
        }
        return Shown(event, last.shown.ordinal, count)

    def erase(self, app: str, user: str) -> int:
        """End all sessions of a user and forget what is the user's; what is the app's stays."""
        ids = [each for each in self.logs if each[:2] == (app, user)]
        for each in ids:
            self.delete(each)
            self.swept.add(each)
        self.users.pop((app, user), None)
        return len(ids)
