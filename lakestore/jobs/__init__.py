"""What runs later: jobs that pack, prune and clean a lake, from any process at any time."""

from lakestore.jobs.compact import CompactReport, compact
from lakestore.jobs.erase import EraseReceipt, erase_user
from lakestore.jobs.prune import PruneReport, prune_events, prune_sessions, prune_user_state
from lakestore.jobs.retention import RetentionPolicy

__all__ = [
    "CompactReport",
    "EraseReceipt",
    "PruneReport",
    "RetentionPolicy",
    "compact",
    "erase_user",
    "prune_events",
    "prune_sessions",
    "prune_user_state",
]
