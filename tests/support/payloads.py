"""Lakes whose events have bytes beside them, and short words for what is stored there."""

from __future__ import annotations

from typing import Any

from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.jobs import sweep
from lakestore.storage import MemoryStore
from tests.support.aging import AgingLake
from tests.support.clocks import ManualClock

THRESHOLD = 100
OBJECTS = "events/objects/"
GRACE = 3_600.0


def image(seed: int = 0, size: int = 500, mime_type: str = "image/png", **named: Any) -> types.Part:
    """Return a part with bytes that others of the same seed and size have too."""
    return types.Part(
        inline_data=types.Blob(data=bytes_of(seed, size), mime_type=mime_type, **named)
    )


def bytes_of(seed: int, size: int = 500) -> bytes:
    """Return bytes of which their base64 has all letters."""
    return bytes((seed * 7 + number * number * 31 + (number >> 3)) % 256 for number in range(size))


class PayloadLake(AgingLake):
    """A lake whose services move more than `THRESHOLD` bytes out of events."""

    threshold: int | None = THRESHOLD

    def service_of(self, lake: Lake) -> SyncSessionService:
        return LakeSessionService(lake, payload_threshold=self.threshold).sync

    def show(self, session: Session, *images: types.Part, **fields: Any) -> Event:
        """Append an event with images."""
        return self.say(session, "look", parts=list(images), **fields)

    @property
    def objects(self) -> list[str]:
        """The keys of what is stored beside events."""
        return [one.key for one in self.store.list(OBJECTS)]

    def loaded(self, session: Session, lake: Lake | None = None) -> Session:
        """Return a session as another process reads it."""
        found = self.load(session, lake)
        assert found is not None
        return found

    def pass_grace(self) -> None:
        """Let all that is there grow old."""
        self.clock.advance(GRACE + 60)

    def swept(self) -> int:
        """Sweep after the grace; return how many payloads went."""
        self.pass_grace()
        report = sweep(self.open())
        assert report.failures == 0
        found = report.deleted.get("payloads")
        return found.objects if found else 0

    def reread(self, session: Session) -> Session:
        """Return a session as the process reads it that may append to it."""
        return self.loaded(session, self.lake)


def made_lake() -> PayloadLake:
    """Return an empty one in memory."""
    clock = ManualClock()
    return PayloadLake(MemoryStore(clock=clock), clock)
