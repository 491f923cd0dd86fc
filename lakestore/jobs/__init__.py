"""What runs later: jobs that pack, prune and clean a lake, from any process at any time."""

from lakestore.jobs.compact import CompactReport, Progress, compact

__all__ = ["CompactReport", "Progress", "compact"]
