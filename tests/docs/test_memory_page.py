"""MEMORY.md says what memory does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from lakestore.demo.agent import build_agent

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "MEMORY.md").read_text("utf-8")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Return what the page takes for granted: an agent, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    agent = build_agent()
    agent.tools = [*agent.tools]
    names: dict[str, Any] = {"agent": agent}
    yield names
    names["lake"].close()


async def test_the_examples_run(names: dict[str, Any]) -> None:
    """The Python on the page works as it stands, and a turn of the agent is remembered."""
    examples = re.findall(r"^```python\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    first, facts, hybrid, forgetting, rebuilding = examples
    exec(first, names)
    await names["sessions"].create_session(app_name="support", user_id="ana", session_id="s1")
    message = types.Content(role="user", parts=[types.Part(text="Where is my order A-1041?")])
    async for _ in names["runner"].run_async(user_id="ana", session_id="s1", new_message=message):
        pass
    for example in (facts, hybrid):
        exec(example, names)
    assert names["found"][0].id == "light"
    assert [memory.id for memory in names["tastes"]] == ["light"]
    assert "ferns" in names["ferns"][0].content.parts[0].text
    ana, search = names["ana"], names["memories"].sync.search_memory
    assert search(**ana, query="order A-1041").memories

    exec(forgetting, names)
    for query in ("order", "plants", "ferns"):
        assert search(**ana, query=query).memories == []

    exec(rebuilding, names)
    assert names["report"].failures == ()
    assert names["report"].sessions == 1
    assert names["restored"].comparison.before == names["report"].comparison.after


def test_every_linked_page_is_there() -> None:
    """No link into the project leads nowhere."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", _PAGE)
    assert links
    assert [link for link in links if not (_ROOT / link).exists()] == []


def test_the_differences_are_those_of_the_contract() -> None:
    """Each difference that the contract excuses ADK's service for has a row in both tables."""
    page = (_ROOT / "tests/contracts/README.md").read_text("utf-8")
    contract = page.split("## Memory")[1].split("\n## ")[0]
    ours = _PAGE.split("## Where it differs")[1]
    counts = [len(re.findall(r"^\| [^-]", text, re.MULTILINE)) for text in (contract, ours)]
    assert counts == [10, 10]  # with their heads
