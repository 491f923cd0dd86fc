"""What SQL sees: refresh, views, queries; the only importer of duckdb."""

from lakestore.catalog.catalog import Catalog
from lakestore.catalog.database import QueryError
from lakestore.catalog.prices import Prices, price_table
from lakestore.catalog.queries import Queries
from lakestore.catalog.views import VIEWS, Column, View

__all__ = ["VIEWS", "Catalog", "Column", "Prices", "Queries", "QueryError", "View", "price_table"]
