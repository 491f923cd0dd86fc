"""The demo's support agent: a plant shop, its four tools and what its scripted model says.

Nothing here knows of lakes: it is an agent as anyone would write it for ADK, and any session
service can keep it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.tool_context import ToolContext

from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn

APP_NAME = "plant_shop"
SMALL_MODEL = "scripted-small-1"
LARGE_MODEL = "scripted-large-1"


@dataclass(frozen=True, slots=True)
class Order:
    """What the shop knows of an order."""

    plant: str
    """What was bought."""
    euros: float
    """What it cost."""
    status: str
    """Where it is."""


ORDERS = {
    "A-1041": Order("monstera", 34.5, "delivered"),
    "A-1042": Order("boston fern", 18.0, "on its way"),
    "A-1043": Order("olive tree", 79.0, "delivered"),
    "A-1044": Order("snake plant", 22.5, "delivered"),
}
CARE = {
    "monstera": "bright, indirect light; water when the top two centimetres are dry",
    "boston fern": "shade and moist air; never let it dry out",
    "olive tree": "full sun; water once a week",
    "snake plant": "any light; water every third week",
}


def look_up_order(order_id: str, tool_context: ToolContext) -> dict[str, Any]:
    """Looks up an order by its number, such as A-1041."""
    order = ORDERS.get(order_id)
    if order is None:
        return {"error": f"no order with the number {order_id}"}
    tool_context.state["order"] = order_id
    tool_context.state["user:last_order"] = order_id
    return {"plant": order.plant, "euros": order.euros, "status": order.status}


def refund_order(order_id: str, tool_context: ToolContext) -> dict[str, Any]:
    """Pays an order back through the payment service."""
    order = ORDERS.get(order_id)
    if order is None:
        return {"error": f"no order with the number {order_id}"}
    # Rewinding a session leaves keys with the value None, so a default alone is not enough.
    tries = (tool_context.state.get("refund_tries") or 0) + 1
    tool_context.state["refund_tries"] = tries
    # Payment services time out now and then; this one does so at odd numbers, the first time.
    if tries == 1 and int(order_id[-1]) % 2:
        return {"error": "the payment service did not answer in time"}
    tool_context.state["refunded"] = order_id
    tool_context.state["app:refunds"] = (tool_context.state.get("app:refunds") or 0) + 1
    return {"refunded_euros": order.euros}


def care_tips(plant: str, tool_context: ToolContext) -> dict[str, Any]:
    """Tells how to care for a plant."""
    tips = CARE.get(plant)
    if tips is None:
        return {"error": f"no tips for {plant}"}
    tool_context.state[f"app:asked_about:{plant.replace(' ', '_')}"] = True
    return {"tips": tips}


def remember(topic: str, value: str, tool_context: ToolContext) -> dict[str, Any]:
    """Remembers something about this customer for all later conversations."""
    tool_context.state[f"user:{topic}"] = value
    return {"remembered": topic}


def build_agent(model_name: str = SMALL_MODEL) -> LlmAgent:
    """Returns the shop's agent, answered by a scripted model of that name."""
    return LlmAgent(
        name="shop_helper",
        model=ScriptedModel(model=model_name, script=answer),
        description="Helps the customers of a plant shop.",
        instruction=(
            "You help the customers of Fern & Co, a plant shop. Look orders up before you talk "
            "about them, never promise a refund before it went through, and be brief."
        ),
        tools=[look_up_order, refund_order, care_tips, remember],
    )


def _order(found: re.Match[str], turn: Turn) -> Reply:
    number = found["order"]
    if not turn.results:
        return [Call("look_up_order", {"order_id": number})]
    order = turn.results[-1].response
    if "error" in order:
        return f"I can't find that order: {order['error']}."
    return (
        f"Order {number}, your {order['plant']} for {order['euros']} euros, is {order['status']}."
    )


def _refund(found: re.Match[str], turn: Turn) -> Reply:
    number = found["order"]
    if not turn.results:
        return [Call("refund_order", {"order_id": number})]
    refund = turn.results[-1].response
    if "error" in refund:
        return f"The refund of {number} did not go through: {refund['error']}. Shall I try again?"
    return f"Done: {refund['refunded_euros']} euros for {number} are on their way back to you."


def _care(found: re.Match[str], turn: Turn) -> Reply:
    plants = [plant for plant in CARE if plant in found.string.lower()]
    if not turn.results:
        return [Call("care_tips", {"plant": plant}) for plant in plants or [found["plant"]]]
    return " ".join(
        f"For the {plant}: {result.response.get('tips', 'I know no tips')}."
        for plant, result in zip(plants or [found["plant"]], turn.results, strict=False)
    )


def _remember(found: re.Match[str], turn: Turn) -> Reply:
    if not turn.results:
        return [Call("remember", {"topic": found["topic"], "value": found["value"]})]
    return f"I'll remember that your {found['topic']} is {found['value']}."


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Turn], Reply]], ...] = (
    (re.compile(r"(refund|money back|try).*?(?P<order>[A-Z]-\d+)", re.IGNORECASE), _refund),
    (re.compile(r"(?P<order>[A-Z]-\d+)"), _order),
    (re.compile(r"care (for|of) (my |the |a )?(?P<plant>[a-z ]+)", re.IGNORECASE), _care),
    (re.compile(r"my (?P<topic>\w+) is (?P<value>[\w ]+)", re.IGNORECASE), _remember),
    (re.compile(r"thank|bye", re.IGNORECASE), lambda found, turn: "You're welcome. Grow well!"),
)


def answer(turn: Turn) -> Reply:
    """The shop's script: the first rule that matches what the user said decides."""
    for pattern, rule in _RULES:
        found = pattern.search(turn.text)
        if found:
            return rule(found, turn)
    return "I can look up orders, refund them and tell how to care for plants. What is it?"


root_agent = build_agent()
"""What `adk run` and `adk web` look for when an agent folder imports this module."""
