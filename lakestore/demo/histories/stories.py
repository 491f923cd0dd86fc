"""What happens in each visit: errands, failures and second tries, told as one session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from google.adk.events.event import Event

from lakestore.demo.histories.apps import APPS, App, Errand, Tool
from lakestore.demo.histories.arrivals import DAY, Arrival, arrivals
from lakestore.demo.histories.talk import Talk

_INCIDENT = (0.55, 0.6)
"""During this part of the history the last tool of each app fails most of the time."""
_INCIDENT_FAILURES = 0.6
_NEW_MODEL_FROM = 0.6
"""From then on the small model is a newer one."""
_TENANTS = ("acme", "globex", "initech")
_CHANNELS = ("web", "app", "phone")
_GOODBYES = ("Thanks a lot!", "Perfect, thank you.", "Bye!", "ありがとう!")


@dataclass(frozen=True, slots=True)
class Story:
    """One session."""

    app_name: str
    user_id: str
    session_id: str
    state: Mapping[str, Any]
    """The state to begin with."""
    created_at: float
    """When it was created, in seconds since 1970 UTC."""
    events: list[Event]


def history(*, sessions: int, seed: int, days: float, until: datetime) -> Iterator[Story]:
    """Yield that many sessions, the same for the same arguments; about 16 events each.

    Args:
        sessions: How many; they are made as they are asked for.
        seed: Decides everything but the times.
        days: How long the history is.
        until: Its end, with a zone. No session begins later.
    """
    for arrival in arrivals(sessions, seed, days, until):
        yield _story(arrival, Random(f"story/{seed}/{arrival.number}"), seed)


def _story(arrival: Arrival, chance: Random, seed: int) -> Story:
    # A user stays with one app, mostly.
    home = Random(f"user/{seed}/{arrival.user}").choice(APPS)
    app = home if chance.random() < 0.9 else chance.choice(APPS)
    session_id = f"{arrival.number:06}-{chance.randrange(16**6):06x}"
    errands = chance.choices(app.errands, k=min(9, 1 + int(chance.expovariate(0.45))))
    talk = _told(app, errands, arrival, chance, session_id)
    state = {
        "title": f"{errands[0].topic} for {chance.choice(app.things)}",
        "tenant": _TENANTS[arrival.user % len(_TENANTS)],
        "channel": chance.choice(_CHANNELS),
        "tags": sorted({errand.topic for errand in errands}),
        **({"user:since": round(arrival.at, 3)} if arrival.visit == 0 else {}),
    }
    user_id = f"user-{arrival.user:05}"
    return Story(app.name, user_id, session_id, state, arrival.at, talk.events)


def _told(app: App, errands: list[Errand], arrival: Arrival, chance: Random, name: str) -> Talk:
    large = chance.random() < 0.25
    small = "scripted-small-2" if arrival.progress > _NEW_MODEL_FROM else "scripted-small-1"
    model = "scripted-large-1" if large else small
    talk = Talk(chance, name, arrival.at, model, thinks=large)
    for number, errand in enumerate(errands):
        if number == 6:
            talk.summarise(f"The user asked about {', '.join(e.topic for e in errands[:6])}.")
        _Turn(app, errand, talk, chance, arrival).take()
        talk.wait(25.0)
    if chance.random() < 0.02:
        talk.rewind({"last_topic": errands[-2].topic if len(errands) > 1 else None})
    elif chance.random() < 0.5:
        talk.ask(chance.choice(_GOODBYES))
        talk.say(app.root, "You're welcome!", {"rating": chance.randrange(3, 6)})
    return talk


class _Turn:
    """One errand, from the question to the answer."""

    def __init__(
        self, app: App, errand: Errand, talk: Talk, chance: Random, arrival: Arrival
    ) -> None:
        self._app = app
        self._errand = errand
        self._talk = talk
        self._chance = chance
        self._arrival = arrival
        self._words = {"thing": chance.choice(app.things), "number": chance.randrange(100, 999)}

    def take(self) -> None:
        """Let it happen."""
        self._talk.ask(self._said(self._chance.choice(self._errand.asked)))
        if self._chance.random() < 0.015:
            self._talk.fail(self._app.root, "RESOURCE_EXHAUSTED", "the model is overloaded")
            return
        if self._errand.agent != self._app.root:
            self._hand_over()
        for names in self._errand.calls:
            failed = self._use([self._app.tool(name) for name in names])
            if failed is not None:
                self._talk.say(self._errand.agent, f"That did not work: {failed}.")
                return
        self._talk.say(self._errand.agent, self._said(self._errand.said), self._noted())

    def _hand_over(self) -> None:
        target = {"agent_name": self._errand.agent}
        (called,) = self._talk.call(self._app.root, [("transfer_to_agent", target)])
        done = [(called, {"result": None})]
        self._talk.answer(self._app.root, done, transfer_to=self._errand.agent)

    def _use(self, tools: list[Tool]) -> str | None:
        """Call tools, a second time where one fails; return what went wrong in the end."""
        for _ in range(2):
            failed = self._once(tools)
            if failed is None or self._chance.random() < 0.4:
                return failed
        return failed

    def _once(self, tools: list[Tool]) -> str | None:
        talk, agent = self._talk, self._errand.agent
        waits = any(tool.waits for tool in tools)
        asked = [(tool.name, dict(self._words)) for tool in tools]
        called = talk.call(agent, asked, waits=waits)
        if waits:
            return self._wait(called[0], tools[0])
        talk.wait(max(tool.seconds for tool in tools))
        wrong = [self._said(tool.error) if self._fails(tool) else None for tool in tools]
        talk.answer(
            agent,
            [
                (one, {"error": error} if error else self._filled(tool.answer))
                for one, tool, error in zip(called, tools, wrong, strict=True)
            ],
        )
        return next((error for error in wrong if error), None)

    def _wait(self, called: tuple[str, str], tool: Tool) -> str | None:
        self._talk.answer(self._errand.agent, [(called, {"status": "pending"})])
        if self._chance.random() < 0.25:
            return "nobody has decided yet"
        self._talk.say(self._errand.agent, "I have asked the office, and will tell you.")
        self._talk.wait(DAY / 4)
        self._talk.resume(called, self._filled(tool.answer))
        return None

    def _fails(self, tool: Tool) -> bool:
        first, last = _INCIDENT
        broken = first <= self._arrival.progress < last and tool == self._app.tools[-1]
        return self._chance.random() < (_INCIDENT_FAILURES if broken else tool.failing)

    def _noted(self) -> dict[str, Any]:
        noted: dict[str, Any] = {"last_topic": self._errand.topic}
        if self._chance.random() < 0.15:
            noted["user:likes"] = self._words["thing"]
        return noted

    def _said(self, text: str) -> str:
        return text.format(**self._words)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._said(value)
        if isinstance(value, Mapping):
            return {key: self._filled(inner) for key, inner in value.items()}
        return [self._filled(one) for one in value] if isinstance(value, list) else value
