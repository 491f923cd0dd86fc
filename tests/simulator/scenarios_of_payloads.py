"""Histories of bytes beside events: stored, referred to again, pruned, swept."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import CREATE, LONG, Scenario, actors, wait
from tests.simulator.scenarios_of_jobs import COMPACT, OLD, PRUNE, SWEEP
from tests.simulator.store import GRACE

SHOW = Op("append", shows="x")
EARLY = (CREATE, Op("append"))
SHOWN = (CREATE, SHOW)

PAYLOADS = {
    "B fresh": Scenario(
        "What a commit refers to is old when a sweep comes.",
        Plan(actors(S=(OLD, SWEEP, Op("get"))), SHOWN),
    ),
    "B packed": Scenario(
        "What a packed row refers to is old when a sweep comes, and its commit is swept.",
        Plan(actors(S=(wait(10), COMPACT, OLD, SWEEP, OLD, SWEEP)), SHOWN),
    ),
    "B quick": Scenario(
        "A sweep comes between the bytes and the commit.",
        Plan(actors(W=(Op("get"), SHOW), S=(wait(20), SWEEP)), EARLY),
        {"W.2 put u/s/3": "is slow before a minute"},
    ),
    "B stalls": Scenario(
        "A writer stalls between the bytes and the commit; they are swept.",
        Plan(actors(W=(Op("get"), SHOW), S=(OLD, SWEEP)), EARLY),
        {"W.2 put u/s/3": LONG},
    ),
    "B late": Scenario(
        "The same, and the sweep's DELETE arrives when the commit is there.",
        Plan(actors(W=(Op("get"), SHOW), S=(wait(1.1 * GRACE), SWEEP)), EARLY),
        {
            "W.2 put u/s/3": "stalls before a grace",
            "S.2 delete payload of u/s": "comes late",
            "S.2 delete payload of u/s arrives in": "a grace",
        },
    ),
    "B warm": Scenario(
        "A process keeps a session warm; what its first event had was pruned and swept.",
        Plan(
            actors(
                W=(*(Op("get"), wait(200)) * 24, SHOW),
                P=(wait(10), PRUNE, OLD, SWEEP),
            ),
            (*SHOWN, Op("append")),
        ),
    ),
    "B pruned": Scenario(
        "An event is pruned while another is about to refer to what it had.",
        Plan(
            actors(
                W=(OLD, Op("get"), SHOW),
                P=(OLD, wait(20), PRUNE, SWEEP),
            ),
            (*SHOWN, Op("append"), COMPACT),
        ),
        {"W.3 put u/s/4": "is slow before a minute"},
    ),
    "B overtaken": Scenario(
        "A sweep stands still; another goes by a manifest that is old by now, and deletes commits.",
        Plan(
            actors(
                J=(OLD, wait(10), COMPACT),
                S=(OLD, wait(60), SWEEP),
                T=(OLD, wait(1.05 * GRACE), SWEEP),
                W=(OLD, wait(1.2 * GRACE + 20), Op("get"), SHOW),
                P=(OLD, wait(1.2 * GRACE + 30), PRUNE),
            ),
            (*SHOWN, Op("append")),
        ),
        {
            "S.3 list log u/s": "is slow before a grace",
            "W.4 put u/s/4": "is slow before a minute",
        },
    ),
}
