"""What runs later: jobs that pack, prune and clean a lake, from any process at any time."""

from lakestore.jobs.check import CheckReport, check
from lakestore.jobs.compact import CompactReport, compact
from lakestore.jobs.findings import Finding
from lakestore.jobs.sweep import SweepReport, Swept, sweep

__all__ = [
    "CheckReport",
    "CompactReport",
    "Finding",
    "SweepReport",
    "Swept",
    "check",
    "compact",
    "sweep",
]
