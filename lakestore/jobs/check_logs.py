"""Checks logs: dense above what is packed, each commit its own, each rollup what it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakestore.errors import FormatError, NotFoundError, StorageError
from lakestore.history.archive import Packed
from lakestore.history.folding import Plan, decode_commit, decode_rollup, plan_of
from lakestore.history.logged import SESSIONS, rows_of_logs
from lakestore.history.rollup import Rollup
from lakestore.history.view import SessionView, session_part
from lakestore.jobs.check_payloads import PayloadCheck
from lakestore.jobs.check_state import StateCheck
from lakestore.jobs.findings import COPY, Finding, Look
from lakestore.jobs.listings import OBJECTS_AT_ONCE, Listed, logs_in, pieces
from lakestore.log.commits import LogFiles
from lakestore.log.keys import (
    SessionKey,
    app_logs,
    app_manifests,
    app_runs,
    commit_key,
    is_log_folder,
    parse_log_name,
    rollup_key,
)
from lakestore.log.manifests import Manifest
from lakestore.storage import StoredObject, UnreadableError
from lakestore.tables.events import EventRow
from lakestore.tables.runs import SessionRow

_BYTES_AT_ONCE = 32 * 2**20
_OBJECTS_READ_AT_ONCE = 512
_ATTEMPTS = 3

Bodies = Mapping[str, bytes | Exception]
"""By key what was read, or why nothing was."""


@dataclass(frozen=True, slots=True)
class _Log:
    """What is listed of one log above what is packed of it."""

    prefix: str
    files: LogFiles
    row: SessionRow | None
    size: int
    """Bytes of these objects."""

    @property
    def keys(self) -> list[str]:
        """The objects."""
        commits = [commit_key(self.prefix, version) for version in self.files.commits]
        return commits + [rollup_key(self.prefix, version) for version in self.files.rollups]


class LogCheck:
    """Checks the logs of one app."""

    def __init__(self, look: Look, state: StateCheck, payloads: PayloadCheck) -> None:
        self._look = look
        self._state = state
        self._payloads = payloads
        self._rows: dict[str, list[EventRow]] = {}
        self._rollups: dict[str, list[Rollup]] = {}

    def run(self) -> None:
        """Check each log that has any object.

        Raises:
            StorageError: the store failed.
        """
        done = 0
        try:
            for piece in pieces(logs_in(self._listed()), OBJECTS_AT_ONCE):
                manifest, rows = self._packed([log for log, _ in piece])
                logs = (_above(each, rows.get(each[0])) for each in piece)
                for some in _slices(log for log in logs if log.keys):
                    self._check_some(some, manifest)
                    self._state.settle(manifest)
                done += len(piece)
                self._look.progress("logs", done, None)
        except UnreadableError as error:
            for key in error.keys:
                self._look.findings.add(
                    Finding(
                        "lost", "closed folder", key, str(error), "all that is in it", "open it"
                    )
                )

    def _listed(self) -> Iterator[StoredObject]:
        for one in self._look.env.store.list(app_logs(self._look.app)):
            folder, _, name = one.key.rpartition("/")
            if is_log_folder(folder + "/") and parse_log_name(name):
                yield one
            else:
                self._look.findings.stray(one.key)

    def _packed(self, logs: Sequence[str]) -> tuple[Manifest, dict[str, SessionRow]]:
        """Return the newest manifest, and what it says of some logs that were listed before."""
        for _ in range(_ATTEMPTS):
            manifest = self._look.archive.newest(app_manifests(self._look.app))
            with suppress(NotFoundError):  # superseded since, and swept
                return manifest, rows_of_logs(self._look.archive, SESSIONS, manifest, logs)
        raise StorageError(
            f"runs changed faster than they could be read. key={app_runs(self._look.app)!r}"
        )

    def _check_some(self, logs: Sequence[_Log], manifest: Manifest) -> None:
        bodies = self._read([key for log in logs for key in log.keys])
        for log in logs:
            found = self._check(log, manifest, bodies)
            if found:
                found = self._check_again(log, found)
            self._look.findings.add(*found)
            rows = self._rows.pop(log.prefix, [])
            self._state.expect(rows)
            payloads = [it for row in rows for it in row.payloads]
            for rollup in self._rollups.pop(log.prefix, ()):
                rows.append(rollup.checkpoint)
                payloads += [it for _, it in rollup.payloads]
            if payloads:
                self._payloads.check(rows[0], payloads)
            self._look.sessions += log.row is None
            self._look.objects += len(log.keys)

    def _read(self, keys: Sequence[str]) -> Bodies:
        def get(key: str) -> bytes | Exception:
            try:
                return store.get(key)
            except (NotFoundError, UnreadableError) as error:
                return error

        store = self._look.env.store
        return dict(zip(keys, self._look.env.pool.map(get, keys, near=store.near), strict=True))

    def _check_again(self, log: _Log, found: list[Finding]) -> list[Finding]:
        """Return what is still wrong when it is looked at anew: others may have been at work."""
        for _ in range(_ATTEMPTS):
            before = found
            listed = list(self._look.env.store.list(log.prefix))
            manifest, rows = self._packed([log.prefix])
            again = next((each for each in logs_in(listed) if each[0] == log.prefix), None)
            log = _above(again or (log.prefix, []), rows.get(log.prefix))
            found = self._check(log, manifest, self._read(log.keys))
            if found == before or not found:
                break
        return found

    def _check(self, log: _Log, manifest: Manifest, bodies: Bodies) -> list[Finding]:
        """Return what is wrong with one log, and remember the rows of its commits."""
        commits, rollups, broken = _decoded(log, bodies)
        self._rows[log.prefix] = [row for _, rows in sorted(commits.items()) for row in rows]
        self._rollups[log.prefix] = list(rollups.values())
        self._look.events += sum(map(len, commits.values()))
        plan = plan_of(log.prefix, log.files, Packed(log.row, manifest) if log.row else None)
        found = [self._of_broken(log, plan, key, error) for key, error in broken.items()]
        if plan.gap:
            found.append(_gap(log, plan))
        found += _unchained(log, commits, rollups)
        found += [
            Finding(
                "mendable",
                "wrong rollup",
                rollup_key(log.prefix, version),
                "its state is not what its commits give",
                "the session shows another state than was stored",
                "delete it while the commits that it was made of are there",
            )
            for version, rollup in rollups.items()
            if not _fits(log, rollup, commits)
        ]
        return found

    def _of_broken(self, log: _Log, plan: Plan, key: str, error: Exception) -> Finding:
        parsed = parse_log_name(key.removeprefix(log.prefix))
        what = "rollup" if parsed and parsed[1] else "commit"
        if key not in plan.keys:
            cost, remedy = "nothing: what covers it is whole", "a sweep deletes it in its time"
            return Finding("note", f"damaged {what}", key, str(error), cost, remedy)
        if what == "rollup" and plan.has_more_below:
            cost = "nothing, if the commits are whole: they are read in its place, each time"
            remedy = "compact, then sweep"
            return Finding("mendable", "damaged rollup", key, str(error), cost, remedy)
        cost = "the session cannot be read; no other one suffers"
        return Finding("lost", f"damaged {what}", key, str(error), cost, COPY)


def _above(listed: Listed, row: SessionRow | None) -> _Log:
    """Return what of a log is above what is packed."""
    log, objects = listed
    base, files, size = row.version if row else 0, LogFiles(), 0
    for one in objects:
        parsed = parse_log_name(one.key.removeprefix(log))
        if parsed is not None and parsed[0] > base:
            (files.rollups if parsed[1] else files.commits).append(parsed[0])
            size += one.size
    return _Log(log, files, row, size)


def _slices(logs: Iterable[_Log]) -> Iterator[list[_Log]]:
    """Yield logs that are read together."""
    some: list[_Log] = []
    objects = size = 0
    for log in logs:
        some.append(log)
        objects += len(log.files.commits) + len(log.files.rollups)
        size += log.size
        if objects >= _OBJECTS_READ_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield some
            some, objects, size = [], 0, 0
    if some:
        yield some


def _decoded(
    log: _Log, bodies: Bodies
) -> tuple[dict[int, list[EventRow]], dict[int, Rollup], dict[str, Exception]]:
    """Return commits and rollups by version, and by key why some cannot be read."""
    commits: dict[int, list[EventRow]] = {}
    rollups: dict[int, Rollup] = {}
    broken: dict[str, Exception] = {}
    for is_rollup, versions in ((False, log.files.commits), (True, log.files.rollups)):
        for version in versions:
            key = (rollup_key if is_rollup else commit_key)(log.prefix, version)
            body = bodies[key]
            try:
                if isinstance(body, Exception):
                    raise body
                if is_rollup:
                    rollup = decode_rollup(log.prefix, version, body)
                    rollup.rows()  # all pages, not only those that a load needs
                    rollups[version] = rollup
                else:
                    rows = decode_commit(log.prefix, version, body)
                    for row in rows:
                        session_part(row)
                    commits[version] = rows
            except (FormatError, NotFoundError, UnreadableError) as error:
                broken[key] = error
    return commits, rollups, broken


def _gap(log: _Log, plan: Plan) -> Finding:
    first = next(version for version in log.files.commits if version > plan.newest)
    return Finding(
        "lost",
        "gap",
        log.prefix,
        f"versions {plan.newest + 1} to {first - 1} are not there, and later ones are",
        "the session is read without what stands above the gap",
        "restore the missing commits from a copy of the store",
    )


def _unchained(
    log: _Log, commits: Mapping[int, Sequence[EventRow]], rollups: Mapping[int, Rollup]
) -> Iterator[Finding]:
    """Yield the commits that follow another one than the one that is there."""
    tokens = {version: rollup.checkpoint.token for version, rollup in rollups.items()}
    tokens |= {version: rows[0].token for version, rows in commits.items()}
    if log.row and log.row.token:  # of an erased one it may not be known
        tokens[log.row.version] = log.row.token
    for version, rows in commits.items():
        before = tokens.get(version - 1)
        if before is not None and rows[0].previous != before:
            yield Finding(
                "note",
                "unchained commit",
                commit_key(log.prefix, version),
                "its writer took another commit for the one before it",
                "nothing that was acknowledged",
                "none is needed",
            )
    for version, rollup in rollups.items():
        if version in commits and rollup.checkpoint.token != commits[version][0].token:
            yield Finding(
                "lost",
                "wrong rollup",
                rollup_key(log.prefix, version),
                "it was made of another commit than the one of its version",
                "the session may show what was never acknowledged",
                "delete it while the commits that it was made of are there",
            )


def _fits(log: _Log, rollup: Rollup, commits: Mapping[int, Sequence[EventRow]]) -> bool:
    """Tell whether a rollup's state is that of the commits, as far as these are all there."""
    last = rollup.checkpoint.version
    base = log.row.version if log.row else 0
    if any(version not in commits for version in range(base + 1, last + 1)):
        return True
    row = rollup.checkpoint
    view = SessionView(SessionKey(row.app_name, row.user_id, row.session_id), 0.0)
    if log.row is not None:
        view = view.on_packed(Packed(log.row, Manifest(row.app_name, 0)))
    for version in range(base + 1, last + 1):
        view = view.follow(commits[version])
    return dict(view.state) == rollup.state
