"""What the README shows works as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.genai import types

from lakestore import LakeSessionService
from lakestore.demo.agent import build_agent

_README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """Return the README's code in `language`, in its order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Return what the README takes for granted: an agent, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"agent": build_agent()}
    yield names
    names["lake"].close()


def test_python_examples_run(names: dict[str, Any]) -> None:
    """Every Python example runs, each in the names that those before it left."""
    keeping, *asking = blocks("python")
    exec(keeping, names)
    writer = names["lake"]
    sessions = LakeSessionService(writer).sync
    session = sessions.create_session(
        app_name="support", user_id="ana", state={"order_id": "A-1"}, session_id="s1"
    )
    words = types.Content(role="user", parts=[types.Part(text="Hello")])
    sessions.append_event(session, Event(author="user", invocation_id="i", content=words))
    assert asking
    for example in asking:
        exec(example, names)

    assert names["table"].num_rows == 1
    assert names["con"].sql("select text from events").fetchall() == [("Hello",)]
    names["con"].close()
    writer.close()


def test_every_linked_page_is_there() -> None:
    """No link into the project leads nowhere."""
    root = Path(__file__).parents[2]
    links = re.findall(r"\]\((?!https?:)([^)#]+)", _README)
    assert links
    assert [link for link in links if not (root / link).exists()] == []
