"""Bytes beside events in buckets, under names with letters of any script."""

from __future__ import annotations

import pytest
from google.adk.events import Event
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.jobs import check, compact, sweep
from tests.support.aging import APP, USER
from tests.support.payloads import OBJECTS, THRESHOLD, image


@pytest.mark.parametrize("server", ["moto", "seaweedfs", "fake_gcs"])
def test_a_bucket_keeps_lists_reads_and_deletes_them(
    server: str, request: pytest.FixtureRequest
) -> None:
    """From an append to the sweep after the session was deleted."""
    running = request.getfixturevalue(server)
    url, options = running.fresh(), running.storage_options
    with Lake.open(url, storage_options=options) as lake:
        service = LakeSessionService(lake, payload_threshold=THRESHOLD).sync
        session = service.create_session(app_name=APP, user_id=USER, session_id="s1")
        for seed in (1, 2, 1):
            content = types.Content(parts=[image(seed, display_name="Köln 日本 1.JPG")])
            service.append_event(session, Event(author="user", content=content))
        names = list(lake.environment.store.names(OBJECTS))
        assert [name.rpartition("/")[2] for name in names] == ["Köln_日本_1.JPG"] * 2
        with Lake.open(url, storage_options=options) as other:
            found = LakeSessionService(other).sync.get_session(
                app_name=APP, user_id=USER, session_id="s1"
            )
            assert found is not None
            assert found.events == session.events
            compact(other)
            assert check(other, deep=True).healthy
            service.delete_session(app_name=APP, user_id=USER, session_id="s1")
            compact(other)
            assert sweep(other, grace=0).deleted["payloads"].objects == 2
        assert list(lake.environment.store.names(OBJECTS)) == []
