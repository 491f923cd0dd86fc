"""What happened in a lake as one page for people; its charts are for notebooks, too."""

from lakestore.report.page import report_page
from lakestore.report.prices import read_prices
from lakestore.report.selection import Selection

__all__ = ["Selection", "read_prices", "report_page"]
