"""Who comes to the demo's shop and what they say: the same people and words for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from lakestore.demo.agent import LARGE_MODEL, SMALL_MODEL


@dataclass(frozen=True, slots=True)
class Visit:
    """One session with the shop."""

    user_id: str
    model_name: str
    """The model that answers."""
    days_ago: int
    lines: tuple[str, ...]
    """What the user says, turn by turn."""


_CUSTOMERS = {"ana": "A-1041", "ben": "A-1042", "chloé": "A-1043", "dev": "A-1044"}
_ERRANDS = (
    ("Where is my order {order}?",),
    ("I want my money back for {order}.", "Please try {order} once more."),
    ("How do I take care of my monstera and my olive tree?",),
    ("By the way, my balcony is {light}.", "And how do I care for the snake plant?"),
    ("Can you find order A-9999 for a friend?",),
)
_GREETINGS = ("Hello!", "Good morning, a question.", "Hi there 🌱")
_GOODBYES = ("Thanks a lot!", "Bye!")
_LIGHTS = ("shady", "full of sun", "windy")


def visits(count: int, seed: int) -> list[Visit]:
    """Return `count` visits of all customers in turn, over the last three days, oldest first."""
    chance = random.Random(seed)
    customers = list(_CUSTOMERS)
    return [
        Visit(
            user_id=customers[index % len(customers)],
            model_name=LARGE_MODEL if chance.random() < 0.4 else SMALL_MODEL,
            days_ago=2 - index * 3 // count,
            lines=_lines(chance, _CUSTOMERS[customers[index % len(customers)]]),
        )
        for index in range(count)
    ]


def _lines(chance: random.Random, order: str) -> tuple[str, ...]:
    errands = chance.sample(_ERRANDS, 2)
    said = [line.format(order=order, light=chance.choice(_LIGHTS)) for e in errands for line in e]
    return (chance.choice(_GREETINGS), *said[:3], chance.choice(_GOODBYES))
