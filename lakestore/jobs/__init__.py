"""What runs later: jobs that pack, prune and clean a lake, from any process at any time."""

from lakestore.jobs.check import CheckReport, check
from lakestore.jobs.compact import CompactReport, Progress, compact
from lakestore.jobs.findings import Finding
from lakestore.jobs.stats import AppStats, Figures, LakeStats, stats
from lakestore.jobs.sweep import SweepReport, Swept, sweep

__all__ = [
    "AppStats",
    "CheckReport",
    "CompactReport",
    "Figures",
    "Finding",
    "LakeStats",
    "Progress",
    "SweepReport",
    "Swept",
    "check",
    "compact",
    "stats",
    "sweep",
]
