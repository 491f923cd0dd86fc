"""LoCoMo: long conversations with questions, where a folder with them is at hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.adk.events import Event
from google.genai import types


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the turns that answer it."""

    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one user remembers, and is asked."""

    name: str
    sessions: dict[str, list[Event]]
    questions: list[Question]


def conversations(folder: Path) -> list[Conversation]:
    """Return the five conversations: a turn is an event, whose id is the turn's."""
    data = json.loads((folder / "locomo_half.json").read_text("utf-8"))
    return [
        Conversation(
            one["sample_id"],
            {
                name: [_event(turn) for turn in turns]
                for name, turns in one["conversation"].items()
                if isinstance(turns, list)
            },
            [
                Question(question["question"], frozenset(question["evidence"]))
                for question in one["qa"]
                if question["category"] != 5 and question.get("evidence")
            ],
        )
        for one in data
    ]


def _event(turn: dict[str, str]) -> Event:
    text = f"{turn['speaker']}: {turn['text']}"
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=turn["dia_id"], author=turn["speaker"], content=content)


def recall(question: Question, found: Sequence[str]) -> float:
    """Return the share of the evidence that is among the first ten of `found`."""
    return len(question.evidence & set(found[:10])) / len(question.evidence)


def mean(values: Iterable[float]) -> float:
    """Return the average of `values`."""
    listed = list(values)
    return sum(listed) / len(listed)
