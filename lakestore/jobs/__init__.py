"""What runs later: jobs that pack, prune and clean a lake, from any process at any time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakestore.jobs.by_user import Figures
from lakestore.jobs.check import CheckReport, check
from lakestore.jobs.compact import CompactReport, compact
from lakestore.jobs.erase import EraseReceipt, erase_user
from lakestore.jobs.findings import Finding
from lakestore.jobs.progress import Progress
from lakestore.jobs.prune import (
    PruneReport,
    prune_artifacts,
    prune_events,
    prune_memory,
    prune_sessions,
    prune_telemetry,
    prune_user_state,
)
from lakestore.jobs.retention import RetentionPolicy
from lakestore.jobs.stats import AppStats, LakeStats, stats
from lakestore.jobs.sweep import SweepReport, Swept, sweep

if TYPE_CHECKING:
    from lakestore.adk.extracting import Extractor, Failure, History
    from lakestore.jobs.rebuild import RebuildReport, rebuild_memory
    from lakestore.jobs.restore import RestoreReport, restore_memory

__all__ = [
    "AppStats",
    "CheckReport",
    "CompactReport",
    "EraseReceipt",
    "Extractor",
    "Failure",
    "Figures",
    "Finding",
    "History",
    "LakeStats",
    "Progress",
    "PruneReport",
    "RebuildReport",
    "RestoreReport",
    "RetentionPolicy",
    "SweepReport",
    "Swept",
    "check",
    "compact",
    "erase_user",
    "prune_artifacts",
    "prune_events",
    "prune_memory",
    "prune_sessions",
    "prune_telemetry",
    "prune_user_state",
    "rebuild_memory",
    "restore_memory",
    "stats",
    "sweep",
]

_OF_ADK = {
    **dict.fromkeys(("Extractor", "Failure", "History"), "lakestore.adk.extracting"),
    **dict.fromkeys(("RebuildReport", "rebuild_memory"), "lakestore.jobs.rebuild"),
    **dict.fromkeys(("RestoreReport", "restore_memory"), "lakestore.jobs.restore"),
}
"""Where they are. Imported when they are asked for: what extractors are given is ADK's, which takes
a second."""


def __getattr__(name: str) -> Any:
    if name not in _OF_ADK:
        raise AttributeError(f"module 'lakestore.jobs' has no attribute {name!r}")
    return getattr(import_module(_OF_ADK[name]), name)
