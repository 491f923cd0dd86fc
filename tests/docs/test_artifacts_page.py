"""ARTIFACTS.md says what artifacts do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.genai import types

from lakestore.demo.agent import build_agent

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "ARTIFACTS.md").read_text("utf-8")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Return what the page takes for granted: an agent, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    Path("fern.png").write_bytes(b"\x89PNG fern")
    agent = build_agent()
    agent.tools = [*agent.tools]
    names: dict[str, Any] = {"agent": agent}
    yield names
    names["lake"].close()


async def test_the_examples_run(names: dict[str, Any]) -> None:
    """The Python on the page works as it stands, and what a user uploads is an artifact."""
    examples = re.findall(r"^```python\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    first, saving, files, deleting, asking, copying = examples
    exec(first, names)
    await names["sessions"].create_session(app_name="support", user_id="ana", session_id="s1")
    upload = types.Blob(data=b"%PDF", mime_type="application/pdf", display_name="order.pdf")
    message = types.Content(
        role="user", parts=[types.Part(text="Thanks!"), types.Part(inline_data=upload)]
    )
    async for _ in names["runner"].run_async(user_id="ana", session_id="s1", new_message=message):
        pass

    exec(saving, names)
    assert (names["first"], names["again"], names["shared"]) == (0, 1, 0)
    assert names["loaded"] == names["plan"]
    assert names["names"] == ["order.pdf", "plans/ferns.txt", "user:garden.txt"]
    assert [each.custom_metadata for each in names["versions"]] == [{}, {"approved": True}]
    assert len({each.canonical_uri for each in names["versions"]}) == 1

    exec(files, names)
    assert names["said"] == b"Water the ferns on Sundays"
    assert (names["saved"], names["end"]) == (0, b"fern")
    exec(deleting, names)
    keys = names["artifacts"].sync.list_artifact_keys
    assert keys(**names["ana"]) == ["order.pdf", "photos/fern.png", "user:garden.txt"]

    exec(asking, names)
    assert [row[1] for row in names["largest"]] == [
        "user:garden.txt",
        "photos/fern.png",
        "order.pdf",
    ]

    exec(copying, names)
    source, bob = InMemoryArtifactService(), {**names["ana"], "user_id": "bob"}
    for text in ("one", "two"):
        await source.save_artifact(**bob, filename="a", artifact=types.Part(text=text))
    await names["copy"](source, names["artifacts"], **bob)
    found = [await names["artifacts"].load_artifact(**bob, filename="a", version=n) for n in (0, 1)]
    assert [part.text for part in found] == ["one", "two"]


def test_every_linked_page_is_there() -> None:
    """No link into the project leads nowhere."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", _PAGE)
    assert links
    assert [link for link in links if not (_ROOT / link).exists()] == []
