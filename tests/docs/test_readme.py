"""What the README shows works as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakestore import Lake, Limits
from lakestore.demo.agent import build_agent

_README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """Return the README's code in `language`, in its order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Return what the README takes for granted: an agent, and a lake in the folder to work in."""
    monkeypatch.chdir(tmp_path)
    # Erasing waits for both times of the lake.
    Lake.open("lake", limits=Limits(view_age=1.0, grace=5.0)).close()
    names: dict[str, Any] = {"agent": build_agent()}
    yield names
    names["lake"].close()


def test_python_examples_run(names: dict[str, Any]) -> None:
    """Every Python example runs, each in the names that those before it left."""
    keeping, *asking, forgetting = blocks("python")
    exec(keeping, names)
    writer = names["lake"]
    assert asking
    for example in asking:
        exec(example, names)

    said = names["table"]["text"].to_pylist()
    assert said[0] == "Where is my order A-1041?"
    assert len(said) > 2
    assert [*zip(said, strict=True)] == names["con"].sql("select text from events").fetchall()
    names["con"].close()
    writer.close()

    exec(forgetting, names)
    assert names["report"]["dry_run"]
    assert names["receipt"].status == "done"
    assert names["lake"].sessions.apps() == ["support"]
    assert names["lake"].user_events("support", "ana").num_rows == 0


def test_every_linked_page_is_there() -> None:
    """No link into the project leads nowhere."""
    root = Path(__file__).parents[2]
    links = re.findall(r"\]\((?!https?:)([^)#]+)", _README)
    assert links
    assert [link for link in links if not (root / link).exists()] == []
