"""Histories of any size that might have happened: the same for the same seed.

`history` tells them, `write_history` puts them into a lake through the session service, and
`sample_lake` makes a lake with some to look at.
"""

from lakestore.demo.histories.arrivals import Arrival, arrivals
from lakestore.demo.histories.sample import sample_lake
from lakestore.demo.histories.stories import Story, history
from lakestore.demo.histories.writing import StoryClock, open_history, write_history

__all__ = [
    "Arrival",
    "Story",
    "StoryClock",
    "arrivals",
    "history",
    "open_history",
    "sample_lake",
    "write_history",
]
