"""What runs later: jobs that pack, prune and clean a lake, from any process at any time."""

from lakestore.jobs.by_user import Figures
from lakestore.jobs.check import CheckReport, check
from lakestore.jobs.compact import CompactReport, compact
from lakestore.jobs.erase import EraseReceipt, erase_user
from lakestore.jobs.findings import Finding
from lakestore.jobs.progress import Progress
from lakestore.jobs.prune import (
    PruneReport,
    prune_events,
    prune_sessions,
    prune_telemetry,
    prune_user_state,
)
from lakestore.jobs.retention import RetentionPolicy
from lakestore.jobs.stats import AppStats, LakeStats, stats
from lakestore.jobs.sweep import SweepReport, Swept, sweep

__all__ = [
    "AppStats",
    "CheckReport",
    "CompactReport",
    "EraseReceipt",
    "Figures",
    "Finding",
    "LakeStats",
    "Progress",
    "PruneReport",
    "RetentionPolicy",
    "SweepReport",
    "Swept",
    "check",
    "compact",
    "erase_user",
    "prune_events",
    "prune_sessions",
    "prune_telemetry",
    "prune_user_state",
    "stats",
    "sweep",
]
