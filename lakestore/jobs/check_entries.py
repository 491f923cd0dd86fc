"""Checks entries of which no log tells: nothing else holds what they hold, until it is packed."""

from __future__ import annotations

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import KEYED, Keyed
from lakestore.history.keyed import KeyedRow
from lakestore.jobs.findings import COPY, Finding, Look, Severity
from lakestore.log.entries import name_of, parse_entry
from lakestore.log.manifests import Manifest
from lakestore.storage import UnreadableError

_ENTRIES_AT_ONCE = 1_024


def check_entries(look: Look, manifest: Manifest) -> None:
    """Read each entry of the tables that no log can complete; `check_state` does the others.

    Raises:
        StorageError: the store failed.
    """
    for kind in KEYED:
        if kind.is_final:
            keys: list[str] = []
            for key in look.env.store.names(kind.prefix(look.app)):
                if parse_entry(key) is None:
                    look.findings.stray(key)
                    continue
                keys.append(key)
                if len(keys) >= _ENTRIES_AT_ONCE:
                    _check(look, kind, keys, manifest)
                    keys = []
            _check(look, kind, keys, manifest)


def _check(look: Look, kind: Keyed[KeyedRow], keys: list[str], manifest: Manifest) -> None:
    def problem(key: str) -> str:
        try:
            kind.read(key, look.env.store.get(key))
        except NotFoundError:  # swept just now
            return ""
        except (FormatError, UnreadableError) as error:
            return str(error)
        return ""

    look.objects += len(keys)
    problems = look.env.pool.map(problem, keys, near=look.env.store.near)
    for key, found in zip(keys, problems, strict=True):
        if not found:
            continue
        severity: Severity = "lost"
        cost, remedy = f"its rows of {kind.name}", COPY
        if name_of(key) in look.archive.folded(manifest):
            severity, cost = "note", "nothing: a run holds what it held"
            remedy = "a sweep deletes it when its time comes"
        look.findings.add(Finding(severity, "damaged entry", key, found, cost, remedy))
