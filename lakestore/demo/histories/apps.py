"""What the histories are about: three apps, their agents, tools, and what people ask of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that an agent calls."""

    name: str
    seconds: float
    """How long it takes, mostly."""
    failing: float
    """Which part of its calls fails."""
    error: str
    """What it says then."""
    answer: Mapping[str, Any]
    """What it gives back otherwise; texts may name `{thing}` and `{number}`."""
    waits: bool = False
    """Whether people must agree first: a long-running tool."""


@dataclass(frozen=True, slots=True)
class Errand:
    """Something that people come for."""

    topic: str
    agent: str
    """Who sees to it; another than the app's first agent is handed the conversation."""
    asked: tuple[str, ...]
    """Ways to ask for it."""
    calls: tuple[tuple[str, ...], ...]
    """Tools that are called, those of one inner tuple side by side."""
    said: str
    """The answer, if all goes well."""


@dataclass(frozen=True, slots=True)
class App:
    """One app."""

    name: str
    root: str
    """The agent that people meet first."""
    things: tuple[str, ...]
    """What people talk about."""
    tools: tuple[Tool, ...]
    errands: tuple[Errand, ...]

    def tool(self, name: str) -> Tool:
        """Return the tool of that name."""
        return next(tool for tool in self.tools if tool.name == name)


_PLANTS = App(
    "plant_shop",
    "shop_helper",
    ("monstera", "boston fern", "olive tree", "snake plant", "lemon tree", "orchid"),
    (
        Tool(
            "look_up_order",
            0.4,
            0.03,
            "the order service is busy",
            {"plant": "{thing}", "status": "on its way", "order": "A-{number}"},
        ),
        Tool(
            "refund_order",
            1.8,
            0.09,
            "the payment service did not answer in time",
            {"refunded": "A-{number}"},
        ),
        Tool(
            "care_tips",
            0.2,
            0.01,
            "no tips for {thing}",
            {"tips": "bright, indirect light; water the {thing} once a week"},
        ),
    ),
    (
        Errand(
            "order",
            "shop_helper",
            ("Where is my order A-{number}?", "Has my {thing} been sent yet?"),
            (("look_up_order",),),
            "Your {thing}, order A-{number}, is on its way.",
        ),
        Errand(
            "refund",
            "shop_helper",
            (
                "I want my money back for A-{number}.",
                "My {thing} arrived broken. Can I get a refund?",
            ),
            (("look_up_order",), ("refund_order",)),
            "Done: the money for your {thing} is on its way back to you.",
        ),
        Errand(
            "care",
            "care_expert",
            (
                "How do I care for my {thing}?",
                "The leaves of my {thing} turn yellow. What can I do?",
            ),
            (("care_tips", "look_up_order"),),
            "Give your {thing} bright, indirect light and water it once a week.",
        ),
    ),
)

_TRAVEL = App(
    "travel_desk",
    "concierge",
    ("Lisbon", "Osaka", "Lima", "Oslo", "Nairobi", "Montréal", "東京"),
    (
        Tool(
            "search_flights",
            2.2,
            0.05,
            "the airline did not answer",
            {
                "flights": [
                    {"number": "LK{number}", "to": "{thing}", "price": 182},
                    {"number": "LK7{number}", "to": "{thing}", "price": 240},
                ]
            },
        ),
        Tool(
            "search_hotels",
            1.4,
            0.04,
            "no rooms for these dates",
            {"hotels": ["Hotel {thing}", "Casa {number}"]},
        ),
        Tool(
            "book_flight",
            3.1,
            0.11,
            "the card was declined",
            {"status": "booked", "number": "LK{number}"},
        ),
        Tool(
            "approve_trip", 0.3, 0.0, "", {"status": "approved", "by": "travel office"}, waits=True
        ),
    ),
    (
        Errand(
            "flight",
            "flight_agent",
            ("I need a flight to {thing} next month.", "What does it cost to fly to {thing}?"),
            (("search_flights",),),
            "LK{number} flies to {thing} for 182 euros; LK7{number} for 240.",
        ),
        Errand(
            "trip",
            "concierge",
            ("Plan me a weekend in {thing}.", "A trip to {thing}, flight and hotel, please."),
            (("search_flights", "search_hotels"),),
            "For {thing}: flight LK{number}, and a room in Hotel {thing}.",
        ),
        Errand(
            "booking",
            "flight_agent",
            ("Book LK{number} to {thing}.",),
            (("search_flights",), ("book_flight",)),
            "LK{number} to {thing} is booked.",
        ),
        Errand(
            "approval",
            "concierge",
            ("Please have my trip to {thing} approved.",),
            (("approve_trip",),),
            "Your trip to {thing} is approved.",
        ),
    ),
)

_BANK = App(
    "bank_help",
    "teller",
    ("current account", "savings account", "credit card", "debit card"),
    (
        Tool("get_balance", 0.3, 0.02, "the account is being updated", {"balance": "{number}.50"}),
        Tool(
            "list_payments",
            0.9,
            0.04,
            "too many payments to list",
            {"result": "3 payments for {thing}, the last of {number} euros"},
        ),
        Tool(
            "freeze_card", 0.7, 0.05, "the card is unknown", {"status": "frozen", "card": "{thing}"}
        ),
    ),
    (
        Errand(
            "balance",
            "teller",
            ("How much is on my {thing}?", "Balance of my {thing}, please."),
            (("get_balance",),),
            "There are {number}.50 euros on your {thing}.",
        ),
        Errand(
            "payments",
            "teller",
            ("What was the last payment from my {thing}?",),
            (("list_payments", "get_balance"),),
            "The last payment from your {thing} was {number} euros.",
        ),
        Errand(
            "fraud",
            "fraud_desk",
            (
                "I did not pay {number} euros with my {thing}!",
                "Someone has my {thing}, stop it now.",
            ),
            (("list_payments",), ("freeze_card",)),
            "Your {thing} is frozen, and a new one is on its way.",
        ),
    ),
)

APPS = (_PLANTS, _TRAVEL, _BANK)
