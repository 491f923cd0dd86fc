"""Checking: reads a whole lake and tells what in it is not as FORMAT.md says, and what that costs.

Owns the order of it and the report. Safe beside writers and jobs: what looks wrong is looked at
again before it is told. What a check mends can lose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakestore.checks import check_flag
from lakestore.errors import FormatError, InputError, LakeError
from lakestore.history.archive import EVENTS, Archive
from lakestore.history.environment import Environment
from lakestore.history.logged import FILES
from lakestore.history.runs import ARTIFACTS
from lakestore.jobs.apps import chosen_apps
from lakestore.jobs.check_artifacts import ArtifactCheck
from lakestore.jobs.check_entries import check_entries
from lakestore.jobs.check_files import FileCheck, is_readable
from lakestore.jobs.check_logs import LogCheck
from lakestore.jobs.check_packed import PackedCheck
from lakestore.jobs.check_payloads import PayloadCheck
from lakestore.jobs.check_state import StateCheck
from lakestore.jobs.findings import COPY, Finding, Findings, Look
from lakestore.jobs.progress import Watch, unwatched
from lakestore.jobs.running import check_lake
from lakestore.lake import Lake
from lakestore.log.folders import folders
from lakestore.log.ids import decode_id
from lakestore.log.keys import APPS, EVENT_LOGS, MANIFESTS, MARKER_KEY, app_logs, is_proof
from lakestore.log.manifests import newest_manifest
from lakestore.storage import UnreadableError


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check read and found."""

    apps: int
    sessions: int
    """Sessions that were proven, deleted ones too."""
    events: int
    """Event rows that were read, in packs and logs."""
    artifacts: int
    """Living artifacts that were proven."""
    objects: int
    """Objects that were read."""
    findings: Sequence[Finding]
    """The first thousand."""
    counts: Mapping[str, int]
    """How many findings of each severity were not mended: lost, mendable, note."""
    repaired: int
    """How many findings were mended."""
    requests: Mapping[str, int]
    """What it asked of the store, by kind of request."""
    elapsed_ms: int

    @property
    def healthy(self) -> bool:
        """Whether nothing is lost, and nothing is left to mend."""
        return not self.counts.get("lost") and not self.counts.get("mendable")


def check(
    lake: Lake,
    *,
    app_name: str | None = None,
    repair: bool = False,
    deep: bool = False,
    progress: Watch | None = None,
) -> CheckReport:
    """Read everything and prove that it fits together; memory does not grow with the lake.

    Args:
        lake: The lake; read-only will do unless `repair`.
        app_name: Only this app; None for all, and what is in no app.
        repair: Also mend what can be mended without losing anything: put shared state that a
            commit holds and no entry does.
        deep: Also read payloads, and compare their digests; if not, their sizes are.
        progress: Is called now and then.

    Raises:
        InputError: an argument makes no sense.
        StorageError: the store failed.
    """
    check_lake(lake)
    check_flag("deep", deep)
    if check_flag("repair", repair) and lake.read_only:
        raise InputError("a lake that was opened with read_only=True cannot be repaired")
    before, started = lake.metrics.requests, lake.clock.elapsed()
    findings = Findings()
    apps = chosen_apps(lake, app_name)
    looks = [
        _check_app(lake.environment, app, findings, progress or unwatched, repair, deep)
        for app in apps
    ]
    if app_name is None:
        _check_names(lake.environment, apps, findings)
        _check_root(lake.environment, findings)
    return CheckReport(
        len(apps),
        sum(look.sessions for look in looks),
        sum(look.events for look in looks),
        sum(look.artifacts for look in looks),
        sum(look.objects for look in looks),
        tuple(findings.kept),
        dict(findings.counts),
        findings.repaired,
        lake.metrics.requests_since(before),
        int((lake.clock.elapsed() - started) * 1_000),
    )


def _check_app(
    environment: Environment,
    app: str,
    findings: Findings,
    watch: Watch,
    repair: bool,
    deep: bool,
) -> Look:
    # Nothing that this process has read before may hide what is missing now, and a check writes
    # nothing that it was not asked for.
    env = replace(environment, rollups=False, writable=environment.writable and repair)
    look = Look(env, Archive(env), app, findings, watch, repair)
    manifest = FileCheck(look).run()
    if manifest is None:
        return look
    state, payloads = StateCheck(look), PayloadCheck(look, deep=deep)
    readable = is_readable(look, manifest, EVENTS)
    state.read_entries(manifest if readable else None)
    if readable:
        try:
            if manifest.number:
                PackedCheck(look, state, payloads).run(manifest)
            LogCheck(look, state, payloads).run()
        except FormatError as error:  # a run that was whole a moment ago
            findings.add(_unproven("sessions", app_logs(app), error))
    if is_readable(look, manifest, ARTIFACTS):
        try:
            ArtifactCheck(look, deep=deep).run()
        except FormatError as error:
            findings.add(_unproven("artifacts", FILES.logs(app), error))
    state.finish(manifest)
    check_entries(look, manifest)
    return look


def _unproven(what: str, key: str, error: LakeError) -> Finding:
    return Finding(
        "lost",
        f"unproven {what}",
        key,
        str(error),
        "what is packed of the app cannot be read to the end",
        "check again; restore what is named damaged from a copy of the store",
    )


def _check_names(environment: Environment, apps: Sequence[str], findings: Findings) -> None:
    """Tell of apps whose long names nothing tells that can be read."""
    known, store = {app_logs(app) for app in apps}, environment.store
    for part in sorted({*folders(store, EVENT_LOGS), *folders(store, MANIFESTS)}):
        if decode_id(part) is not None or f"{EVENT_LOGS}{part}/" in known:
            continue
        prefix, problem = f"{MANIFESTS}{part}/", "no manifest is there, and no log can be read"
        try:
            if not newest_manifest(store, prefix).number:
                prefix = f"{EVENT_LOGS}{part}/"
        except (FormatError, UnreadableError) as error:
            problem = str(error)
        cost = "nothing tells the name of the app, so none of its sessions is found by a job"
        findings.add(Finding("lost", "app without a name", prefix, problem, cost, COPY))


def _check_root(environment: Environment, findings: Findings) -> None:
    """Note what lies beside the folders of a lake."""
    ours = {prefix.partition("/")[0] for prefix in APPS}
    for name in folders(environment.store, ""):
        if name not in ours and name != MARKER_KEY and not is_proof(name):
            findings.stray(name)
