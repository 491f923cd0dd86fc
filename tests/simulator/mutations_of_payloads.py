"""Rules of bytes beside events, removed one at a time; see `tests.simulator.mutating`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from lakestore.history.logged import rows_of_logs
from lakestore.history.moving import Mover
from lakestore.history.needless import Age
from lakestore.history.proving import Proofs
from lakestore.jobs import sweep_payloads
from lakestore.jobs.sweep_payloads import PayloadSweep
from lakestore.log.keys import app_manifests
from lakestore.storage import StoredObject
from tests.simulator.mutating import set_, without


@without("grace of payloads", "bytes that nothing refers to stay until they are old")
def _grace(stack: ExitStack) -> None:
    original = Age.reaches

    def reaches(self: Age, stored: StoredObject) -> bool:
        return stored.key.startswith("events/objects/") or original(self, stored)

    set_(stack, Age, "reaches", reaches)


@without("logs keep payloads", "what is not packed refers to bytes, too")
def _logs(stack: ExitStack) -> None:
    set_(stack, PayloadSweep, "_referred", lambda *_args: set())


@without("packed rows keep payloads", "what is packed refers to bytes")
def _rows(stack: ExitStack) -> None:
    set_(stack, sweep_payloads, "_besides", lambda listed, _row: list(listed))


@without("old manifests keep payloads", "what was pruned a moment ago keeps its bytes for a grace")
def _old(stack: ExitStack) -> None:
    original = PayloadSweep._needless

    def needless(self: PayloadSweep, old: Any) -> Any:
        newest: Any = self.archive.newest(app_manifests(self.app_name))

        def by_newest(archive: Any, kind: Any, _manifest: Any, logs: Any) -> Any:
            return rows_of_logs(archive, kind, newest, logs)

        with ExitStack() as inner:
            set_(inner, sweep_payloads, "rows_of_logs", by_newest)
            set_(inner, PayloadSweep, "_referred", lambda *_args: set())
            return original(self, old)

    set_(stack, PayloadSweep, "_needless", needless)


@without("one manifest covers a sweep of payloads", "what others go by may be old meanwhile")
def _same(stack: ExitStack) -> None:
    set_(stack, PayloadSweep, "_age_now", lambda self: self.age)


@without("a late append proves its payloads", "bytes that may have been swept are looked for")
def _prove(stack: ExitStack) -> None:
    set_(stack, Proofs, "prove", lambda *_args: None)


@without("put again is no proof", "a request to delete may be under way")
def _again(stack: ExitStack) -> None:
    def prove(self: Proofs, _key: Any, _rows: Any, bodies: Any, _load: Any) -> None:
        for name, body in bodies.items():
            self._renew(name, body, None)

    set_(stack, Proofs, "prove", prove)


@without("what is referred to is looked up", "of what is packed the newest manifest tells")
def _known(stack: ExitStack) -> None:
    def known(self: Mover, wanted: Any) -> Any:
        contents = self._view.contents() if self._view else ()
        found = {(it.sha256, it.size): it.key for _, it in contents}
        return {digest: key for digest, key in found.items() if digest in wanted}

    set_(stack, Mover, "_known", known)
