"""Large lakes, and jobs on them in processes of their own.

    python -m tests.benchmarks.large write FOLDER FIRST END LENGTH
    python -m tests.benchmarks.large compact | sweep FOLDER

Owns how a lake of one-event commits is written without a service: by the product's own encoder,
straight into files and without fsync, which is all that makes it different from what agents write.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

from lakestore import Lake
from lakestore.jobs import compact, sweep
from lakestore.log.keys import SessionKey, commit_key
from lakestore.tables.events import EventRow, encode_commit
from lakestore.tables.state import to_json
from tests.benchmarks.histories import APP, events

ROOT = Path(__file__).parents[2]
SESSION = "session"


def user(number: int) -> str:
    """Return the name of a user."""
    return f"user-{number:05}"


def put_rows(folder: Path, key: SessionKey, rows: Iterable[EventRow]) -> None:
    """Write each of some rows of a session as a commit of its own."""
    (folder / key.log).mkdir(parents=True, exist_ok=True)
    for row in rows:
        (folder / commit_key(key.log, row.version)).write_bytes(encode_commit([row]))


def rows_of(key: SessionKey, length: int, first: int = 0) -> Iterator[EventRow]:
    """Yield the rows of a session of `length` events from number `first`."""
    random = Random(f"{key.user_id}/{key.session_id}")
    stored = [None, *events(length, first)]
    previous = ""
    for version, event in enumerate(stored, start=1):
        delta = event.actions.state_delta if event else {}
        yield EventRow(
            version=version,
            ordinal=0,
            kind="event" if event else "create",
            app_name=key.app_name,
            user_id=key.user_id,
            session_id=key.session_id,
            committed_at=1_760_000_000_000_000 + first * 700_000 + version,
            token=(token := f"{random.getrandbits(64):016x}"),
            previous=previous,
            state_delta=to_json(delta) if delta else None,
            event_json=event.model_dump_json(exclude_none=True, by_alias=True) if event else None,
        )
        previous = token


def write_lake(folder: Path, users: int, length: int, processes: int) -> None:
    """Write a lake in which each user has a session, in several processes."""
    Lake.open(folder).close()
    bounds = [users * number // processes for number in range(processes + 1)]
    command = [sys.executable, "-m", "tests.benchmarks.large", "write", str(folder)]
    writers = [
        subprocess.Popen([*command, str(a), str(b), str(length)], cwd=ROOT)
        for a, b in pairwise(bounds)
    ]
    assert [writer.wait() for writer in writers] == [0] * processes


@dataclass(frozen=True, slots=True)
class Size:
    """What a folder holds."""

    objects: int
    bytes: int

    @classmethod
    def of(cls, folder: Path) -> Size:
        """Count the files of a folder, or the one file that it is."""
        found = [folder] if folder.is_file() else folder.rglob("*")
        sizes = [path.stat().st_size for path in found if path.is_file()]
        return cls(len(sizes), sum(sizes))

    def __str__(self) -> str:
        return f"{self.objects:,} objects, {self.bytes / 1e6:,.1f} MB"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a job took, in a process of its own."""

    seconds: float
    cpu: float
    """Seconds of the processor."""
    peak: int
    """Most bytes of memory that the process had, and `before` when it had only opened the lake."""
    before: int
    requests: dict[str, int]

    def __str__(self) -> str:
        return (
            f"{self.seconds:,.1f} s ({self.cpu:,.1f} s of CPU), peak {self.peak / 1e6:,.0f} MB"
            f" ({self.before / 1e6:,.0f} MB before it began)"
        )


def run_job(job: str, folder: Path) -> Ran:
    """Run `compact` or `sweep` on the lake in a folder, in a new process."""
    command = [sys.executable, "-m", "tests.benchmarks.large", job, str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return Ran(**json.loads(done.stdout))


def peak() -> int:
    """Return the most bytes of memory that this program had, not what it was started from."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(job: str, folder: Path, *numbers: str) -> None:
    """Do what the command line says."""
    if job == "write":
        first, end, length = map(int, numbers)
        for number in range(first, end):
            key = SessionKey(APP, user(number), SESSION)
            put_rows(folder, key, rows_of(key, length, number * length))
        return
    with Lake.open(folder) as lake:
        before = peak()
        started, cpu = time.perf_counter(), time.process_time()
        if job == "compact":
            compact(lake)
        else:
            sweep(lake, grace=0)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        requests = lake.metrics.requests
    found = {"seconds": seconds, "cpu": cpu, "peak": peak(), "before": before}
    print(json.dumps({**found, "requests": requests}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
