"""The memory services under the contract: ADK's own, and ours over each kind of store.

Owns what each needs, and where ADK's service differs from the contract, and why. Imports of
lakestore are inside, so that the contract can be run on ADK's service alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService

from tests.contracts.cases import FAILED_CHECK, Case, Difference
from tests.support.servers import RUNNING

Opener = Callable[[Path, ExitStack], BaseMemoryService]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCase(Case):
    """A memory service under the contract."""

    open: Opener
    """Opens a service on the storage in a folder, until the stack is closed."""
    reopens: bool = True
    """Whether a second one sees what the first has stored; else the storage is the object."""


def _differs(
    reason: str, *tests: str, raises: tuple[type[BaseException], ...] = FAILED_CHECK
) -> dict[str, Difference]:
    return dict.fromkeys(tests, Difference(reason, raises))


ADK = {
    **_differs(
        "what is added of a session replaces what was: order, and what it has no more",
        "test_what_came_first_stays_first",
        "test_nothing_is_dropped_by_adding",
    ),
    **_differs(
        "keeps a session's list as it is, twice the same event too",
        "test_session_with_an_event_twice_has_it_once",
    ),
    **_differs(
        "an event that is added alone is what it was when it came first",
        "test_changed_event_is_found_by_what_it_says_now",
    ),
    **_differs("searches what the model thought", "test_thoughts_are_not_searched"),
    **_differs("formats the machine's local time, without its zone", "test_times_are_in_utc"),
    **_differs(
        "a session gets its turn when it is added, with or without a memory",
        "test_session_that_said_nothing_keeps_its_turn",
    ),
    **_differs(
        "formats every time that it finds, and fails on those past the year 9999",
        "test_time_past_the_years_is_no_hindrance",
        raises=(ValueError,),
    ),
    **_differs("keeps any text", "test_half_a_character_is_refused"),
    **_differs("takes anything for an id", "test_impossible_ids_are_refused"),
    **_differs("takes anything for an id, and nothing", "test_impossible_session_id_is_refused"),
}


def _adk(_folder: Path, _stack: ExitStack) -> BaseMemoryService:
    return InMemoryMemoryService()


def _lake(url: str, stack: ExitStack, **options: Any) -> BaseMemoryService:
    from lakestore import Lake, LakeMemoryService

    return LakeMemoryService(stack.enter_context(Lake.open(url, **options)))


def _folder(folder: Path, stack: ExitStack) -> BaseMemoryService:
    return _lake(str(folder / "lake"), stack)


def _memory(folder: Path, stack: ExitStack) -> BaseMemoryService:
    return _lake(f"memory://{folder.name}", stack)


def _in_bucket(server: str) -> Opener:
    def opener(folder: Path, stack: ExitStack) -> BaseMemoryService:
        bucket = RUNNING[server]
        # A folder of pytest's is its test's alone, and named after it.
        url = bucket.at_key(folder.name)
        return _lake(url, stack, storage_options=bucket.storage_options)

    return opener


def _input_error() -> type[Exception]:
    from lakestore.errors import InputError

    return InputError


def _case(name: str, opener: Opener, **more: Any) -> MemoryCase:
    return MemoryCase(
        name=name, open=opener, refusal=_input_error, extras=True, blocking=True, **more
    )


STORED = ("delete",)
"""On buckets, in `make test`, what one handle stores and another must see; the rest is slow."""

MEMORY_CASES = [
    MemoryCase(name="adk-memory", open=_adk, reopens=False, differs=ADK),
    _case("lake-folder", _folder),
    _case("lake-memory", _memory),
    _case("lake-s3", _in_bucket("moto"), server="moto", parts=STORED),
    _case("lake-seaweedfs", _in_bucket("seaweedfs"), server="seaweedfs", parts=STORED),
    _case("lake-gs", _in_bucket("fake_gcs"), server="fake_gcs", parts=STORED),
    _case("lake-ceph", _in_bucket("ceph"), server="ceph", parts=STORED, marker="ceph"),
]
