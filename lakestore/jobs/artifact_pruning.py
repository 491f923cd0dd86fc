"""How old versions of artifacts are pruned. Owns which are kept.

Ages count from `committed_at` of the commits that saved them. The oldest versions go, and nothing
from between others; what nothing refers to any more of their payloads is a sweep's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from lakestore.checks import check_flag, check_number
from lakestore.errors import FormatError, InputError, StorageError
from lakestore.history.archive import Place
from lakestore.history.artifact_loading import key_of
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.runs import ARTIFACTS, artifact_place
from lakestore.jobs.progress import Watch, counted
from lakestore.jobs.pruning import Pruned, Wanted, span_of
from lakestore.lake import Lake
from lakestore.log.keys import ARTIFACT_LOGS, app_manifests, artifacts_of_user
from lakestore.tables.artifacts import Saved

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Keeping:
    """Which versions stay, however old."""

    last: int = 1
    """Of each artifact so many, the newest."""
    latest: bool = False
    """Whether an artifact of which every version is old goes all the same."""
    session_id: str | None = None
    """Only artifacts of this session are looked at; None for all."""

    def kept(self, saves: Sequence[Saved], before: int) -> Sequence[Saved]:
        """Return those of all that live that stay: all from the first that is young on."""
        ages = (number for number, saved in enumerate(saves) if saved.committed_at > before)
        young = next(ages, len(saves))
        if self.latest and young == len(saves):
            return ()
        return saves[min(young, max(len(saves) - self.last, 0)) :]


def check_keeping(last: object, latest: object, prefix: str = "") -> None:
    """Refuse what `Keeping` cannot be.

    Args:
        last: How many versions stay.
        latest: Whether the latest may go.
        prefix: What the names of both begin with, where the caller gave them.

    Raises:
        InputError: one is of another kind, or they contradict each other.
    """
    check_number(f"{prefix}keep_last", last, least=1)
    check_flag(f"{prefix}latest", latest)
    if latest and last != 1:
        raise InputError(
            f"{prefix}latest lets artifacts go of which every version is old, so that"
            f" {prefix}keep_last keeps nothing: give one of them"
        )


def old_artifacts(lake: Lake, wanted: Wanted, keeping: Keeping, watch: Watch) -> Pruned:
    """Prune the old versions of artifacts, each artifact's at the version that was judged."""
    done = Pruned()
    found = counted(_with_old(lake, wanted, keeping), watch, "pruning", wanted.app_name, "artifact")
    while some := list(islice(found, _AT_ONCE)):
        if wanted.dry_run:
            for view in some:
                _count(done, view.saves, keeping.kept(view.saves, wanted.before))
            continue
        prunes = [lake.submit(partial(_prune, lake, view, wanted, keeping)) for view in some]
        for pruned in [prune.result() for prune in prunes]:
            done.add(pruned.count, pruned.nbytes)
    return done


def _with_old(lake: Lake, wanted: Wanted, keeping: Keeping) -> Iterator[ArtifactView]:
    for view in _living(lake, wanted):
        is_asked = wanted.user_id in (None, view.key.user_id)
        is_asked &= keeping.session_id in (None, view.key.session_id)
        if is_asked and len(keeping.kept(view.saves, wanted.before)) < len(view.saves):
            yield view


def _living(lake: Lake, wanted: Wanted) -> Iterator[ArtifactView]:
    """Yield all artifacts of the app, or of one user: a read for each that is not packed."""
    app, archive = wanted.app_name, lake.sessions.archive
    fresh: set[Place] = set()
    started = lake.clock.elapsed()
    within = ""
    if wanted.user_id is not None:
        within = artifacts_of_user(ARTIFACT_LOGS, app, wanted.user_id)
    for view, _ in lake.artifacts.fresh(app, within, within):
        fresh.add(artifact_place(view.key))
        yield view
    # What was listed above these rows is among the fresh ones.
    runs = archive.newest(app_manifests(app)).table(ARTIFACTS.name).runs
    for row in archive.rows_in(ARTIFACTS, app, runs, *span_of(wanted.user_id)):
        if ARTIFACTS.place(row) not in fresh:
            yield ArtifactView(key_of(row), started).on_packed(row)


def _prune(lake: Lake, view: ArtifactView, wanted: Wanted, keeping: Keeping) -> Pruned:
    """Prune one artifact; what is damaged is logged, and stays."""
    done = Pruned()
    try:
        for _ in range(_ATTEMPTS):
            kept = keeping.kept(view.saves, wanted.before)
            if len(kept) == len(view.saves):
                return done
            if lake.artifacts.prune(view, kept) if kept else lake.artifacts.end(view):
                _count(done, view.saves, kept)
                return done
            view = lake.artifacts.load(view.key)
    except FormatError as error:
        logger.error("an artifact cannot be read and was passed over: %s", error)
        return done
    raise StorageError(f"others keep writing this artifact. log={view.key.log!r}")


def _count(done: Pruned, saves: Sequence[Saved], kept: Sequence[Saved]) -> None:
    """Count versions that go, and the bytes of payloads that nothing refers to then."""
    gone = saves[: len(saves) - len(kept)]
    sizes = _sizes(gone)
    done.add(len(gone), sum(sizes[key] for key in sizes.keys() - _sizes(kept).keys()))


def _sizes(saves: Iterable[Saved]) -> dict[str, int]:
    return {saved.payload: saved.size or 0 for saved in saves if saved.payload is not None}
