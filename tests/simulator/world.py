"""One history: a plan, the choices of a seed, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from random import Random

from tests.simulator import actions as actions  # what actors can do
from tests.simulator import artifact_actions as artifact_actions
from tests.simulator import job_actions as job_actions
from tests.simulator import memory_actions as memory_actions
from tests.simulator.actors import Actor
from tests.simulator.checker import check, erased_of
from tests.simulator.decisions import Decisions
from tests.simulator.plan import FORGETTING, JOBS, Op, Plan
from tests.simulator.processes import Process
from tests.simulator.raw import read, traces
from tests.simulator.record import Call, Name
from tests.simulator.scanning import scanning
from tests.simulator.scheduler import Scheduler, Step
from tests.simulator.settings import small
from tests.simulator.speed import quiet, remembering
from tests.simulator.store import GRACE, TORN, VIEW_AGE, Bucket, Kind
from tests.simulator.stored import check_stored


@dataclass(frozen=True)
class Outcome:
    """What came of a history."""

    plan: Plan
    made: Mapping[str, str]
    """The choices, by place: with the plan they are the whole history."""
    faults: list[str]
    """What the checker found wrong; nothing, in a history as it should be."""
    calls: list[Call]
    steps: list[Step]
    """What happened, if it was traced."""


class World:
    """One store, and everyone who works on it."""

    def __init__(self, plan: Plan, decisions: Decisions, *, tracing: bool = False) -> None:
        self.plan = plan
        self.decisions = decisions
        self.scheduler = Scheduler(decisions, plan.weather.switching, tracing)
        self.bucket = Bucket(self.scheduler)
        self.calls: list[Call] = []
        self.processes: list[Process] = []
        self._tokens = 0
        self._faults = 0
        self.names: list[Name] = sorted(
            {
                (op.user, op.session)
                for ops in (plan.setup, *(ops.values() for ops in plan.actors.values()))
                for op in ops
                if op.do == "create"
            }
        )
        """The sessions that may come to be."""
        self.files: list[Name] = sorted(
            {
                (op.user, op.session)
                for ops in (plan.setup, *(ops.values() for ops in plan.actors.values()))
                for op in ops
                if op.do == "save file"
            }
        )
        """The sessions whose artifacts may come to be, `-` for what a user's share."""

    def token(self) -> str:
        """Return the next token: in no order that a reader could rely on."""
        self._tokens += 1
        return f"{self._tokens * 0x9E3779B97F4A7C15 % 2**64:016x}"

    def fault(self, kind: Kind, place: str) -> str:
        """Return what happens to a request."""
        weather = self.plan.weather
        chance = weather.faults if self._faults < weather.most else 0.0
        fault = self.decisions.choose(place, weather.faults_of(kind), chance)
        self._faults += bool(fault)
        return fault

    def tear(self, place: str) -> str:
        """Return what a listing shows of what changes while it is made."""
        return self.decisions.choose(place, TORN, self.plan.weather.torn)

    def run(self) -> list[str]:
        """Let the history happen; return what is wrong with it."""
        with quiet(), remembering(), scanning(), small():
            setup = Actor(self, "S", {})
            for op in self.plan.setup:
                self.scheduler.now += 1.0
                setup.do(op)
            actors = [
                Actor(
                    self,
                    name,
                    ops,
                    self.plan.skews.get(name, 0.0),
                    near=name in self.plan.near,
                )
                for name, ops in self.plan.actors.items()
            ]
            for actor in actors:
                self.scheduler.spawn(actor.name, actor.process.life, actor.run)
            self.scheduler.run()
            self._look(actors)
            stored = [*check_stored(self.calls, read(self.bucket.objects))]
            left = [*self._left()]
            for process in self.processes:  # DuckDB holds what nobody can collect
                process.lake.close()
        return [*check(self.calls, self.names), *stored, *left]

    def _look(self, actors: list[Actor]) -> None:
        """Let someone read everything, which mends what writers left undone, and then everyone."""
        fresh = Actor(self, "Y", {})
        self._read_all(fresh)
        # What jobs have published is noticed when a view is old, and what is cached counts until.
        done = {op.do for ops in self.plan.actors.values() for op in ops.values()}
        self.scheduler.now += 1.2 * VIEW_AGE if done & FORGETTING else 1.0
        everyone = [*actors, fresh, Actor(self, "Z", {})]
        for actor in everyone:
            actor.final = True
            self._read_all(actor)
        for actor in (everyone[0], everyone[-1]):
            actor.do(Op("list", user="*"))
        for user in sorted({name[0] for name in self.names}):
            everyone[-1].do(Op("user events", user=user))
        asks = (("sql", "sql"), ("measure", "telemetry"), ("remember", "recall"))
        asked = [ask for do, ask in asks if do in done]
        for ask, actor in product(asked, (*actors, everyone[-1])):
            actor.do(Op(ask))
        for (user, session), actor in product(self.files, (*actors, everyone[-1])):
            actor.do(Op("load file", session, user))
        if self.files:
            everyone[-1].do(Op("files"))
        if done & set(JOBS):
            everyone[-1].do(Op("check"))

    def _left(self) -> Iterator[str]:
        """Yield what of erased users is still there when all that was late has been swept."""
        users = {
            call.job.user
            for call in self.calls
            if call.job and call.job.status == "done" and call.job.user
        }
        if not users:
            return
        sweeper = Actor(self, "X", {})
        for _ in range(3):
            sweeper.do(Op("sweep"))
            self.scheduler.now += 1.2 * GRACE
        for user in sorted(users):
            for key in self.left_of(user, self.scheduler.now):
                yield f"holds what of {user} was erased: {key}"

    def left_of(self, user: str, before: float) -> Iterator[str]:
        """Yield the objects, as old as that, with anything of what was erased of a user."""
        old = {key: it for key, it in self.bucket.objects.items() if it[1] < before}
        yield from traces(old, user, erased_of(self.calls, user))

    def _read_all(self, actor: Actor) -> None:
        for user, session in self.names:
            actor.get(user, session)


def play(
    plan: Plan,
    choices: Mapping[str, str] | None = None,
    *,
    seed: int | None = None,
    tracing: bool = False,
) -> Outcome:
    """Let a history happen.

    Args:
        plan: What everyone does.
        choices: Choices that are given.
        seed: Draws all others; None: the first option everywhere else.
        tracing: Write down what happens.
    """
    decisions = Decisions(choices, None if seed is None else Random(seed))
    world = World(plan, decisions, tracing=tracing)
    try:
        faults = world.run()
    except Exception as error:
        error.add_note(f"in the history {seed=} of {plan}")
        raise
    return Outcome(plan, decisions.made, faults, world.calls, world.scheduler.steps)
