"""`lakestore search`: what was said, as a user reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.adk.events import Event
from google.genai import types

from lakestore import Lake, LakeMemoryService, LakeSessionService
from tests.cli.running import run

NOON = 1_700_000_000.0 - 1_700_000_000.0 % 86_400 + 43_200  # 2023-11-14 12:00 UTC

FOUND = """\
1.29  user  2023-11-14 12:02:00Z  user ana  session trip
    東京でJavaを学ぶ �[31mred
0.67  user  2023-11-14 12:00:00Z  user ana  session trip
    How do I get a refund for order 77?
0.31  guide  2023-11-14 12:01:00Z  user ana  session trip
    Refunds take five days. We are sorry. We are sorry. We are sorry. We are sorry. We are sorry. We
    are sorry. We are sorry. We are sorry. We are sorry. We are…
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A lake with a session of ana's, all of which is remembered for all users."""
    folder = str(tmp_path / "lake")
    told = [
        ("user", "How do I get a refund for order 77?"),
        ("guide", f"Refunds take five days. {'We are sorry. ' * 30}"),
        ("user", "東京でJavaを学ぶ \x1b[31mred"),
    ]
    with Lake.open(folder) as lake:
        service = LakeSessionService(lake).sync
        session = service.create_session(app_name="travel", user_id="ana", session_id="trip")
        for number, (author, text) in enumerate(told):
            content = types.Content(parts=[types.Part(text=text)])
            at = NOON + 60 * number
            event = Event(id=f"e{number}", author=author, timestamp=at, content=content)
            service.append_event(session, event)
        LakeMemoryService(lake).sync.add_session_to_memory(session, scope="app")
    return folder


def test_it_prints_what_was_found(url: str) -> None:
    """The best first: score, who, when and where, and below it the part that shows why."""
    shown = run("search", url, "refund java", "--app", "travel")
    assert (shown.exit_code, shown.output) == (0, FOUND)
    assert run("search", url, "zebra", "--app", "travel").output == "nothing found\n"


def test_options_confine_the_search(url: str) -> None:
    """By user, author, session and time, and over memory, where ids of memories are told."""
    ask = ("search", url, "refund java", "--app", "travel")
    assert run(*ask, "--author", "guide").output == "".join(FOUND.splitlines(True)[4:])
    assert run(*ask, "--user", "ben").output == "nothing found\n"
    assert run(*ask, "--session", "other").output == "nothing found\n"
    assert run(*ask, "--until", "2023-11-14T11:00").output == "nothing found\n"
    assert run(*ask, "--limit", "1").output.count("session trip") == 1
    remembered = run(*ask, "--over", "memory", "--user", "ben", "--ranking", "overlap").output
    assert "1.00  user  2023-11-14 12:00:00Z  app-wide  session trip  memory e0\n" in remembered


def test_programs_get_json(url: str) -> None:
    """All that is known of each, with what a terminal is not shown."""
    shown = run("search", url, "java", "--app", "travel", "--json")
    (hit,) = json.loads(shown.output)
    assert hit["text"] == "東京でJavaを学ぶ \x1b[31mred"
    assert (hit["session_id"], hit["event_id"]) == ("trip", "e2")
    assert json.loads(run("search", url, "zebra", "--app", "travel", "--json").output) == []


def test_what_makes_no_sense_is_an_error(url: str) -> None:
    """An app that is not there, a language that nobody knows, a lake that does not exist."""
    for arguments, told in (
        ((url, "x", "--app", "nope"), "there is no app 'nope' in this lake"),
        ((url, "x", "--app", "travel", "--language", "klingon"), "language is one of"),
        ((f"{url}-else", "x", "--app", "travel"), "no lake"),
    ):
        shown = run("search", *arguments)
        assert shown.exit_code == 1
        assert told in shown.output
    assert run("search", url, "x").exit_code == 2
