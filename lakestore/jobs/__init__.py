"""What runs later: jobs that pack, prune and clean a lake, from any process at any time."""

from lakestore.jobs.compact import CompactReport, compact
from lakestore.jobs.sweep import SweepReport, Swept, sweep

__all__ = ["CompactReport", "SweepReport", "Swept", "compact", "sweep"]
