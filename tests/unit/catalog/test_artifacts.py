"""The view `artifacts`: every version that lives, as services load it, packed or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import fsspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lakestore import Lake
from lakestore.history.artifact_uploads import Draft
from lakestore.history.drafts import Draft as Said
from lakestore.jobs import compact, prune_artifacts, sweep
from lakestore.log.keys import ArtifactKey, SessionKey, commit_key, run_key
from tests.support.artifacts import OTHER, REPORT, SHARED, save
from tests.support.histories import said
from tests.support.sites import APP, LIMITS, Site

LONG = ArtifactKey("a" * 150, "Bo", "s" * 150, "ü" * 60)
KEYS = (REPORT, OTHER, SHARED, LONG)
_QUERY = """
select app_name, user_id, session_id, filename, version, sha256, versions, is_latest
from artifacts order by all
"""


@pytest.fixture
def site() -> Iterator[Site]:
    """An empty lake in memory."""
    made = Site()
    yield made
    made.lake.close()


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    """Return what the view shows."""
    return lake.sql(_QUERY).fetchall()


def living(lake: Lake) -> list[tuple[Any, ...]]:
    """Return the same as services load it."""
    found = []
    for key in KEYS:
        saves = lake.artifacts.load(key).saves
        ids = (key.app_name, key.user_id, key.session_id, key.filename)
        found += [
            (*ids, it.artifact_version, it.sha256, len(saves), it is saves[-1]) for it in saves
        ]
    return sorted(found, key=lambda row: tuple(map(str, row)))


def as_shown(lake: Lake) -> None:
    """See that the view shows what services load."""
    assert sorted(rows(lake), key=lambda row: tuple(map(str, row))) == living(lake)


class Artifacts(RuleBasedStateMachine):
    """Writers, jobs and two processes that ask, one of which has asked all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.site = Site()
        self.reader = self.site.open(read_only=True)

    @rule(key=st.sampled_from(KEYS), body=st.binary(min_size=1, max_size=2))
    def save(self, key: ArtifactKey, body: bytes) -> None:
        """Save a version."""
        self.site.clock.advance(3600)
        save(self.site.lake, body, key)

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: ArtifactKey) -> None:
        """Delete an artifact."""
        self.site.lake.artifacts.delete(key)

    @rule(last=st.integers(1, 2))
    def prune(self, last: int) -> None:
        """Drop old versions."""
        self.site.clock.advance(86_400)
        prune_artifacts(self.site.lake, older_than_days=1, keep_last=last)

    @rule()
    def compact(self) -> None:
        """Pack what is fresh."""
        compact(self.site.lake)

    @rule()
    def sweep(self) -> None:
        """Delete what is needless, much later."""
        self.site.clock.advance(LIMITS.grace + 1)
        sweep(self.site.lake)

    @rule()
    def ask_anew(self) -> None:
        """A process that has read nothing shows the same."""
        with self.site.open(read_only=True) as lake:
            as_shown(lake)

    @invariant()
    def shown(self) -> None:
        """What is loaded is shown."""
        as_shown(self.reader)

    def teardown(self) -> None:
        """Close all."""
        self.reader.close()
        self.site.lake.close()


TestArtifacts = Artifacts.TestCase
TestArtifacts.settings = settings(max_examples=4, stateful_step_count=10)


def test_columns(site: Site) -> None:
    """Each column says what was saved; the address opens with fsspec."""
    at = site.clock.wall()
    draft = Draft(
        "{}",
        mime_type="text/csv",
        display_name="Q3",
        custom_metadata='{"a":1}',
    )
    site.lake.artifacts.save(REPORT, draft, b"a,b")
    site.lake.artifacts.save(OTHER, Draft("{}", file_uri="gs://b/x.png"))
    for _ in range(2):
        first, second = (
            site.lake.sql("select * from artifacts order by filename desc").to_arrow_table()
        ).to_pylist()
        assert first["mime_type"] == "text/csv"
        assert (first["display_name"], first["custom_metadata"]) == ("Q3", '{"a":1}')
        assert (first["size"], first["file_uri"], first["is_latest"]) == (3, None, True)
        assert first["created_at"] == datetime.fromtimestamp(at, UTC)
        assert first["canonical_uri"] == site.store.uri(site.stored(REPORT.objects)[0])
        assert (second["canonical_uri"], second["size"]) == (None, None)
        assert second["file_uri"] == "gs://b/x.png"
        compact(site.lake)
    assert site.lake.scan("artifacts", ["filename"]).read_all().num_rows == 2


def test_addresses_open(tmp_path: Any) -> None:
    """What the view says of where a payload is, fsspec opens."""
    with Lake.open(tmp_path / "my lake") as lake:
        save(lake, b"in a folder")
        ((uri,),) = lake.sql("select canonical_uri from artifacts").fetchall()
        with fsspec.open(uri) as file:
            assert file.read() == b"in a folder"


def saves(lake: Lake, session: str, event: str, **files: int) -> None:
    """Append an event that says that it has saved some files."""
    key = SessionKey(APP, "ana", session)
    view = lake.sessions.load(key)
    if not view.alive:
        view = lake.sessions.create(key, {}, generated=False)
    lake.sessions.append(key, view.marker, [of_files(event, files)])


def of_files(event: str, files: dict[str, int]) -> Said:
    """Return an event with an artifact delta."""
    return said(event, invocation_id=f"turn of {event}", actions={"artifactDelta": files})


def test_which_event_saved_it(site: Site) -> None:
    """The event of the session whose delta has name and number; of the user's for `user:` names."""
    files = {"report.pdf": 0}
    save(site.lake, b"0")
    saves(site.lake, "s1", "e1", **files)
    save(site.lake, b"1")
    saves(site.lake, "s1", "e2", **{"report.pdf": 1})
    saves(site.lake, "s2", "other session", **{"report.pdf": 1})
    save(site.lake, b"shared", SHARED)
    saves(site.lake, "s2", "e3", **{"user:notes.txt": 0})
    save(site.lake, b"by hand", OTHER)
    query = "select filename, version, event_id, invocation_id from artifacts order by all"
    expected = [
        ("other.txt", 0, None, None),
        ("report.pdf", 0, "e1", "turn of e1"),
        ("report.pdf", 1, "e2", "turn of e2"),
        ("user:notes.txt", 0, "e3", "turn of e3"),
    ]
    assert site.lake.sql(query).fetchall() == expected
    compact(site.lake)
    assert site.lake.sql(query).fetchall() == expected
    counted = """
      select s.session_id, s.artifacts, count(a.event_id) from sessions as s
      left join artifacts as a using (app_name, user_id, session_id) group by all order by all"""
    assert site.lake.sql(counted).fetchall() == [("s1", 2, 2), ("s2", 2, 0)]


def test_numbers_begin_again(site: Site) -> None:
    """After a delete the last event that names a number is the one that saved it."""
    save(site.lake, b"0")
    saves(site.lake, "s1", "e1", **{"report.pdf": 0})
    site.lake.artifacts.delete(REPORT)
    save(site.lake, b"anew")
    site.clock.advance(1)
    saves(site.lake, "s1", "e2", **{"report.pdf": 0})
    assert site.lake.sql("select event_id from artifacts").fetchall() == [("e2",)]


def test_as_of(site: Site) -> None:
    """Versions are shown that had been saved by then, of those that live now."""
    times = []
    for number in range(3):
        save(site.lake, b"%d" % number)
        times.append(site.clock.wall())
        site.clock.advance(60)
    for packs in (False, True):
        if packs:
            compact(site.lake)
        for number, at in enumerate(times):
            query = "select version, versions, is_latest from artifacts order by version"
            found = site.lake.sql(query, as_of=at).fetchall()
            assert found == [(n, number + 1, n == number) for n in range(number + 1)]


@pytest.mark.parametrize("filename", ["report.pdf", "r" * 150])
def test_damaged_commits_hide_their_artifact(
    site: Site, caplog: pytest.LogCaptureFixture, filename: str
) -> None:
    """It is not shown as it was before, is named once, and is back when it is mended."""
    report = replace(REPORT, filename=filename)
    save(site.lake, b"0", report)
    save(site.lake, b"0", OTHER)
    compact(site.lake)
    save(site.lake, b"1", report)
    key = commit_key(report.log, 2)
    body = site.store.get(key)
    site.store.delete(key)
    site.store.put_if_absent(key, body[:-8])
    query = "select filename, version from artifacts order by all"
    with site.open(read_only=True) as lake:
        for _ in range(2):
            assert lake.sql(query).fetchall() == [("other.txt", 0)]
        assert caplog.text.count(key) == 1
        site.store.delete(key)
        site.store.put_if_absent(key, body)
        assert lake.sql(query).fetchall() == [("other.txt", 0), (filename, 0), (filename, 1)]


def test_damaged_runs_hide_the_artifacts_of_their_app(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Others are shown, and sessions of that app too."""
    save(site.lake, b"0")
    save(site.lake, b"0", LONG)
    site.lake.sessions.create(SessionKey(APP, "ana", "s1"), {}, generated=True)
    compact(site.lake)
    (run,) = site.manifest().table("artifacts").runs
    key = run_key(APP, "artifacts", run.id)
    body = site.store.get(key)
    site.store.delete(key)
    site.store.put_if_absent(key, body[:200] + b"?" + body[201:])
    with site.open(read_only=True) as lake:
        assert lake.sql("select user_id from artifacts").fetchall() == [("Bo",)]
        assert lake.sql("select session_id from sessions").fetchall() == [("s1",)]
        assert key in caplog.text
        site.store.delete(key)
        site.store.put_if_absent(key, body)
        assert lake.sql("select count(*) from artifacts").fetchall() == [(2,)]


def test_a_refresh_asks_for_what_is_new(site: Site) -> None:
    """One listing; a read for each artifact that has a new commit, none for what is packed."""
    for number in range(10):
        save(site.lake, b"x", ArtifactKey(APP, "ana", "s1", f"{number}.txt"))
    with site.open(read_only=True) as lake:
        rows(lake)
        before = lake.metrics.requests
        rows(lake)
        idle = dict(lake.metrics.requests_since(before))
        assert idle.get("GET", 0) == 0
        save(site.lake, b"y", ArtifactKey(APP, "ana", "s1", "3.txt"))
        before = lake.metrics.requests
        rows(lake)
        asked = lake.metrics.requests_since(before)
        assert asked["GET"] == 1
        assert asked["LIST"] == idle["LIST"]
        compact(site.lake)
    with site.open(read_only=True) as lake:
        before = lake.metrics.requests
        rows(lake)
        assert lake.metrics.requests_since(before)["GET"] <= 3
